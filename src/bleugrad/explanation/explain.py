"""The explanation of the loss for one sentence, from logits and a reference."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_choice, check_int
from bleugrad.backends.torch.sampled_tokens import draw_tokens
from bleugrad.expectation import expected_bleu, expected_score
from bleugrad.explanation.contributions import contributions, windows_by_start
from bleugrad.explanation.reference_texts import ReferenceTexts, used_columns
from bleugrad.explanation.result import Explanation, NGram, Order, SampledBLEU, TokenGradient, check_cells
from bleugrad.matches import Exact
from bleugrad.matches.statistics import ExpectedStatistics, row_statistics
from bleugrad.outputs.rows import Rows, TokenProbabilities, check_floating
from bleugrad.references.targets import Targets, check_mask, prepare_targets
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.results import ExpectedBLEUResult
from bleugrad.scores.score import Score, check_score
from bleugrad.scores.token_score import token_score

PADDING = -100
MOST_CELLS = 2**22
"""Maximum cells of an explanation; 1,000 x 1,000 x 4 take about 2 minutes and 2 GB."""

SAMPLE_BLOCK = 256
"""Sampled hypotheses scored at once."""


def explain(
    logits: Tensor,
    reference: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    *,
    tokens: Sequence[str] | None = None,
    vocabulary: Sequence[str] | None = None,
    mask: Tensor | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    score: Score | None = None,
    method: str = "exact",
    samples: int = 1000,
    seed: int = 0,
) -> Explanation:
    """Explain the loss of one sentence: the numbers behind :func:`bleugrad.expected_bleu`, per n-gram.

    Everything is computed in float64 on the CPU. The exact contributions of the n-grams sum to the expected matches of
    ``expected_bleu(logits[None], [reference])``, and their bounds to those of ``method="bound"``.

    Args:
        logits: (T, V), one sentence.
        reference: (R,) token ids, or several references as nested lists or a (K, R) tensor padded with -100.
        tokens: T labels of the positions; default: the likeliest tokens.
        vocabulary: V texts, one per id; default: the ids.
        mask: (T,) bool, True for positions that count; others are removed.
        eos_id: makes the length random, as in :func:`bleugrad.expected_bleu`.
        word_start: (V,) bool, tokens that start a word; then words are counted.
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: s, added to matches and totals of every order.
        score: :class:`bleugrad.ROUGE`, :class:`bleugrad.GLEU`, :class:`bleugrad.NIST` or another score, which is
            explained instead of BLEU: value, gradient, samples and argmax are of it, and no interval is certified. Its
            orders replace ``max_order``. The options of BLEU, ``max_order``, ``weights`` and ``smoothing``, are refused
            beside it.
        method: method of the loss whose gradient is shown, "exact" or "bound".
        samples: number of sampled hypotheses for the check of E[BLEU], at least 2, or 0 for none.
        seed: random seed of the samples.

    Time is O(P T N L) for P distinct n-grams. T N L may be at most 4,194,304, for instance 1,000 positions, 1,000
    reference tokens and 4 orders; longer sentences raise ValueError.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(3, 2)  # p = 0.5 everywhere
        >>> seen = bleugrad.explain(logits, [0, 0], vocabulary=["a", "b"], max_order=1)
        >>> (ngram,) = seen.orders[0].ngrams
        >>> ngram.text, ngram.clip, ngram.exact, ngram.bound, ngram.above
        (('a',), 2, 1.375, 1.5, True)
    """
    check_choice("method", method, ("exact", "bound"))
    if score is not None:
        check_score(score)
        if (max_order, weights, smoothing) != (4, None, 1.0):
            found = f"score is {score!r} beside max_order, weights or smoothing, which are options of BLEU"
            raise ValueError(f"{found}; expected score=bleugrad.BLEU(max_order, weights, smoothing)")
        max_order = score.max_order
    bleu = score if isinstance(score, BLEU) else BLEU(max_order, weights, smoothing)
    other = None if score is None or isinstance(score, BLEU) else score
    rows, labels = _counted_rows(logits, mask, _check_labels("tokens", tokens, logits, 0))
    targets = _targets(reference, rows, eos_id, word_start, max_order)
    check_cells("the explanation", rows.shape[0], int(targets.tokens.lengths.sum()), max_order, MOST_CELLS)
    texts = ReferenceTexts(_check_labels("vocabulary", vocabulary, rows, 1), targets)
    if not 0 <= check_int("samples", samples) < 2**31 or samples == 1:
        raise ValueError(
            f"samples is {samples}; expected 0, or 2 or more below 2**31, because one sample has no standard error"
        )
    check_int("seed", seed)

    gathered = Rows(rows[None]).token_probabilities(targets.columns, None, targets.word_start)
    statistics = row_statistics(gathered.match_probs, gathered.opening, targets, Exact())
    exact, exact_value, exact_gradient = _score(rows, targets, bleu, other, "exact")
    bound, bound_value, bound_gradient = _score(rows, targets, bleu, other, "bound")
    gradient = exact_gradient if method == "exact" else bound_gradient

    probs = rows.softmax(-1)
    best_probs, best = probs.max(-1)
    argmax = tuple(map(texts.token, best.tolist()))
    ids = targets.tokens.ids.flatten()[used_columns(targets.tokens)]
    return Explanation(
        positions=argmax if labels is None else labels,
        argmax=argmax,
        argmax_probs=best_probs,
        references=texts.references(),
        units=texts.units(),
        match_probs=probs[:, ids],
        eos_probs=None if eos_id is None else probs[:, eos_id],
        reach=_reach(statistics, rows),
        orders=_orders(gathered, statistics, texts, exact, bound),
        gradient=TokenGradient(
            reference=gradient[:, ids],
            argmax=gradient.gather(1, best[:, None]).squeeze(1),
            eos=None if eos_id is None else gradient[:, eos_id],
            norm=gradient.norm(dim=1),
        ),
        value=exact_value,
        bound_value=bound_value,
        lower=None if exact.lower is None or other else exact.lower.item(),
        upper=math.inf if exact.upper is None or other else exact.upper.item(),
        sampled=_sampled_score(probs, targets, other or bleu, samples, seed) if samples else None,
        argmax_bleu=_sentence_score(best[None], targets, other or bleu).item(),
        brevity_penalty=exact.brevity_penalty.item(),
        expected_length=exact.hypothesis_lengths.item(),
        reference_length=exact.reference_lengths.item(),
        score=None if other is None else repr(other),
        smoothing=bleu.smoothing,
        weights=bleu.weights,
        method=method,
        in_words=targets.words is not None,
    )


def _counted_rows(
    logits: Tensor, mask: Tensor | None, labels: tuple[str, ...] | None
) -> tuple[Tensor, tuple[str, ...] | None]:
    """The logits of the positions that count, and their labels."""
    rows = check_floating("logits", logits, "(T, V)", 2).detach().to("cpu", torch.float64)
    if mask is not None:
        mask = check_mask(mask[None] if isinstance(mask, Tensor) else mask, 1, rows.shape[0], rows.device)[0]
        rows = rows[mask]
        if labels is not None:
            labels = tuple(label for label, counts in zip(labels, mask.tolist(), strict=True) if counts)
    if rows.numel() == 0:
        raise ValueError(f"logits has shape {tuple(logits.shape)}; expected at least one position that counts")
    return rows, labels


def _targets(
    reference: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    rows: Tensor,
    eos_id: int | None,
    word_start: Tensor | None,
    max_order: int,
) -> Targets:
    references = reference[None] if isinstance(reference, Tensor) else [reference]
    targets = prepare_targets(
        (1, *rows.shape),
        rows.device,
        None,
        references,  # type: ignore[arg-type]  # prepare_targets checks the nesting
        None,
        eos_id=eos_id,
        ignore_index=PADDING,
        word_start=word_start,
        max_order=max_order,
        name="reference",
    )
    if not targets.tokens.lengths.any():
        raise ValueError("reference is empty; expected at least one token before EOS")
    return targets


def _options(targets: Targets) -> dict[str, Any]:
    """The options that the public functions share, with the padded references (1, K, R)."""
    ids, lengths = targets.tokens.ids, targets.tokens.lengths
    return {
        "references": torch.where(torch.arange(ids.shape[2]) < lengths[..., None], ids, PADDING),
        "level": "sentence",
        "eos_id": targets.eos_id,
        "ignore_index": PADDING,
        "word_start": targets.word_start,
    }


def _score(
    rows: Tensor, targets: Targets, bleu: BLEU, other: Score | None, method: str
) -> tuple[ExpectedBLEUResult, float, Tensor]:
    """The result of a method, the value of BLEU or of the other score, and the gradient (T, V) of 1 - value."""
    leaf, options = rows.clone().requires_grad_(), _options(targets) | {"method": method}
    with torch.enable_grad():
        result = expected_bleu(
            leaf[None], max_order=bleu.max_order, weights=bleu.weights, smoothing=bleu.smoothing, **options
        )
        value = result.value if other is None else expected_score(leaf[None], score=other, **options).value
        (gradient,) = torch.autograd.grad(1 - value.sum(), leaf)
    return result, value.item(), gradient


def _sentence_score(tokens: Tensor, targets: Targets, score: Score) -> Tensor:
    """The score of hypotheses (S, T), cut before EOS, against the references of one sentence: (S,)."""
    options = _options(targets)
    options["references"] = options["references"].expand(tokens.shape[0], -1, -1)
    return token_score(tokens, score=score, **options)


def _sampled_score(probs: Tensor, targets: Targets, score: Score, samples: int, seed: int) -> SampledBLEU:
    """Mean score of ``samples`` hypotheses drawn from the rows ``probs`` (T, V), an unbiased estimate of its mean."""
    uniform = torch.rand(probs.shape[0], samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    tokens = draw_tokens(probs[None], uniform[None])[0].t()
    values = torch.cat([_sentence_score(part, targets, score) for part in tokens.split(SAMPLE_BLOCK)])
    return SampledBLEU(values.mean().item(), values.std().item() / math.sqrt(samples), samples)


def _reach(statistics: ExpectedStatistics, rows: Tensor) -> Tensor:
    reach = rows.new_ones(rows.shape[0])
    assert statistics.windows is not None
    if (ending := statistics.windows.ending) is not None:
        reach[1:] = ending.survival[:-1, 0]
    return reach


def _orders(
    gathered: TokenProbabilities,
    statistics: ExpectedStatistics,
    texts: ReferenceTexts,
    exact: ExpectedBLEUResult,
    bound: ExpectedBLEUResult,
) -> tuple[Order, ...]:
    targets = texts.targets
    assert statistics.windows is not None
    windows = windows_by_start(statistics.windows, targets.units)
    parts, max_order = contributions(gathered, targets), statistics.matches.shape[1]
    units = [unit for reference in texts.units() for unit in reference]
    ngrams: list[list[NGram]] = [[] for _ in range(max_order)]
    occurrences = [texts.occurrences(order) for order in range(1, max_order + 1)]
    for index, column, clip, completed, upper in zip(*parts, strict=True):
        places = occurrences[index][int(column)]
        text = tuple(units[places[0] : places[0] + int(index) + 1])
        exact_matches, completed_matches = completed.sum().item(), tuple(completed.tolist())
        ngrams[index].append(NGram(text, tuple(places), int(clip), exact_matches, upper.item(), completed_matches))
    return tuple(
        Order(
            number=index + 1,
            windows=windows[index][:, used_columns(targets.units)],
            ngrams=tuple(ngrams[index]),
            exact=exact.matches[0, index].item(),
            bound=bound.matches[0, index].item(),
            total=exact.totals[0, index].item(),
            precision=exact.precisions[0, index].item(),
        )
        for index in range(max_order)
    )


def _check_labels(name: str, labels: Sequence[str] | None, logits: Tensor, axis: int) -> tuple[str, ...] | None:
    """The checked labels, one per entry of an axis of the logits, or None."""
    if labels is None:
        return None
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"{name} is a {type(labels).__name__}; expected a list of texts")
    expected = check_floating("logits", logits, "(T, V)", 2).shape[axis]
    if len(labels) != expected:
        raise ValueError(f"{name} has {len(labels)} entries; expected {expected}, the logits' {'TV'[axis]}")
    for index, label in enumerate(labels):
        if not isinstance(label, str):
            raise TypeError(f"{name}[{index}] is a {type(label).__name__}; expected a text")
    return tuple(labels)
