"""The explanation of the loss for one sentence, from logits and references."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_int
from bleugrad.backends.torch.sampled_tokens import draw_tokens
from bleugrad.expectation import Expectation, expected_statistics
from bleugrad.explanation.contributions import contributions, occurrences, windows_by_start
from bleugrad.explanation.result import Explanation, NGram, Order, SampledScore, check_cells
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.rows import check_floating
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU, closest_lengths, mean_totals
from bleugrad.scores.interval import certified_interval
from bleugrad.scores.score import Score, check_score
from bleugrad.scores.token_score import token_score

MOST_CELLS = 2**22
"""Maximum cells of an explanation; 1,000 x 1,000 x 4 take about 2 minutes and 2 GB."""

SAMPLE_BLOCK = 256
"""Sampled hypotheses scored at once."""


@torch.no_grad()
def explain(
    logits: Tensor,
    references: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    *,
    vocabulary: Sequence[str] | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    score: Score = BLEU(),  # noqa: B008
    samples: int = 1000,
) -> Explanation:
    """Explain the loss of one sentence: the numbers behind :func:`bleugrad.expected_bleu`, per n-gram.

    Everything is computed in float64 on the CPU. The exact contributions of the n-grams sum to the expected matches of
    ``expected_bleu(logits[None], [references])``, and their bounds to those of ``method="bound"``.

    Args:
        logits: (T, V), one sentence.
        references: (R,) token ids, or several references as nested lists or a (K, R) tensor padded with -100.
        vocabulary: V texts, one per id; default: the ids.
        eos_id: makes the length random, as in :func:`bleugrad.expected_bleu`.
        word_start: (V,) bool, tokens that start a word; then words are counted.
        score: :class:`bleugrad.BLEU`, or another score such as :class:`bleugrad.ROUGE`, for which no interval is
            certified; precisions and brevity penalty remain those of BLEU.
        samples: number of sampled hypotheses that estimate the expected score, at least 2, or 0 for none.

    Time is O(P T N L) for P distinct n-grams. T N L may be at most 4,194,304, for instance 1,000 positions, 1,000
    reference tokens and 4 orders; longer sentences raise ValueError.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(3, 2)  # p = 0.5 everywhere
        >>> seen = bleugrad.explain(logits, [0, 0], vocabulary=["a", "b"], score=bleugrad.BLEU(max_order=1))
        >>> (ngram,) = seen.orders[0].ngrams
        >>> ngram.text, ngram.clip, ngram.exact, ngram.bound, ngram.above
        (('a',), 2, 1.375, 1.5, True)
    """
    rows = check_floating("logits", logits, "(T, V)", 2).detach().to("cpu", torch.float64)
    if rows.numel() == 0:
        raise ValueError(f"logits has shape {tuple(logits.shape)}; expected at least one position")
    text = _check_vocabulary(vocabulary, rows.shape[1])
    check_score(score)
    if not 0 <= check_int("samples", samples) < 2**31 or samples == 1:
        raise ValueError(f"samples is {samples}; expected 0, or 2 or more for a standard error, below 2**31")

    statistics, targets, value, gradient = _differentiated(rows, references, "exact", eos_id, word_start, score)
    if not targets.tokens.lengths.any():
        raise ValueError("references is empty; expected at least one token before EOS")
    check_cells("the explanation", rows.shape[0], int(targets.tokens.lengths.sum()), score.max_order, MOST_CELLS)
    bounded, _, bound_value, _ = _differentiated(rows, references, "bound", eos_id, word_start, score)

    probs, lengths = rows.softmax(-1), statistics.lengths
    best_probs, best = probs.max(-1)
    reach = rows.new_ones(rows.shape[0])
    if statistics.windows is not None and statistics.windows.ending is not None:
        reach[1:] = statistics.windows.ending.survival[:-1, 0]
    bleu = score if isinstance(score, BLEU) else BLEU(score.max_order)
    _, precisions, penalty = bleu.factors(statistics, "sentence")
    lower, upper = certified_interval(statistics, bleu) if bleu is score else (None, None)
    ids = [token for reference in _ids(targets) for token in reference]
    tokens, units = _texts(text, targets)
    return Explanation(
        score=f"BLEU-{bleu.max_order} with smoothing {bleu.smoothing:g}" if bleu is score else repr(score),
        in_words=targets.words is not None,
        argmax=tuple(map(text, best.tolist())),
        argmax_probs=best_probs,
        references=tokens,
        units=units,
        match_probs=probs[:, ids],
        eos_probs=None if eos_id is None else probs[:, eos_id],
        reach=reach,
        orders=_orders(statistics, bounded, precisions, [unit for reference in units for unit in reference]),
        gradient=gradient[:, ids],
        eos_gradient=None if eos_id is None else gradient[:, eos_id],
        gradient_norm=gradient.norm(dim=1),
        value=value,
        bound_value=bound_value,
        lower=None if lower is None else lower.item(),
        upper=None if upper is None else upper.item(),
        sampled=_sampled(probs, targets, score, samples) if samples else None,
        argmax_value=_score_of_ids(best[None], targets, score).item(),
        brevity_penalty=penalty.item(),
        expected_length=lengths.mean().item(),
        reference_length=(closest_lengths(statistics.references, lengths.support) * lengths.probs).sum().item(),
    )


def _check_vocabulary(vocabulary: Sequence[str] | None, size: int) -> Callable[[int], str]:
    """The function that returns the text of a token id."""
    if vocabulary is None:
        return str
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Sequence):
        raise TypeError(f"vocabulary is a {type(vocabulary).__name__}; expected a list of texts")
    if len(vocabulary) != size:
        raise ValueError(f"vocabulary has {len(vocabulary)} entries; expected {size}, the logits' V")
    return lambda token: str(vocabulary[token])


def _differentiated(
    rows: Tensor, references: Any, method: str, eos_id: int | None, word_start: Tensor | None, score: Score
) -> tuple[ExpectedStatistics, Targets, float, Tensor]:
    """The expected statistics by a method, the targets, the score, and the gradient (T, V) of 1 - score."""
    leaf, expectation = rows.clone().requires_grad_(), Expectation(score, method, "sentence", eos_id)
    batch = references[None] if isinstance(references, Tensor) else [references]
    with torch.enable_grad():
        statistics, targets = expected_statistics(leaf[None], expectation, references=batch, word_start=word_start)
        value = score.value(statistics, "sentence", None).squeeze(0)
        (gradient,) = torch.autograd.grad(1 - value, leaf, retain_graph=True)
    return statistics, targets, value.item(), gradient


def _ids(targets: Targets) -> list[list[int]]:
    """The token ids of each reference."""
    tokens = targets.tokens
    return [row[:length] for row, length in zip(tokens.ids[0].tolist(), tokens.lengths[0].tolist(), strict=True)]


def _texts(text: Callable[[int], str], targets: Targets) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """The tokens of each reference, and its units: tokens or words."""
    tokens = tuple(tuple(map(text, reference)) for reference in _ids(targets))
    if (words := targets.words) is None:
        return tokens, tokens
    every, width = [text(token) for token in targets.tokens.ids.flatten().tolist()], words.references.ids.shape[2]
    spans = zip(words.starts[0].tolist(), words.spans[0].tolist(), strict=True)
    joined = ["".join(every[start : start + span]) for start, span in spans]
    sizes = words.references.lengths[0].tolist()
    return tokens, tuple(tuple(joined[k * width : k * width + size]) for k, size in enumerate(sizes))


def _score_of_ids(hypotheses: Tensor, targets: Targets, score: Score) -> Tensor:
    """The score of each hypothesis of token ids (S, T)."""
    references, word_start = [_ids(targets)] * len(hypotheses), targets.word_start
    return token_score(hypotheses, references, score, level="sentence", eos_id=targets.eos_id, word_start=word_start)


def _sampled(probs: Tensor, targets: Targets, score: Score, samples: int) -> SampledScore:
    """Mean score of ``samples`` hypotheses drawn from the rows ``probs`` (T, V), unbiased."""
    uniform = torch.rand(probs.shape[0], samples, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens = draw_tokens(probs[None], uniform[None])[0].t()
    values = torch.cat([_score_of_ids(part, targets, score) for part in tokens.split(SAMPLE_BLOCK)])
    return SampledScore(values.mean().item(), values.std().item() / math.sqrt(samples))


def _orders(
    exact: ExpectedStatistics, bound: ExpectedStatistics, precisions: Tensor, texts: Sequence[str]
) -> tuple[Order, ...]:
    """The matches of each order; ``texts`` are those of all units of the references."""
    assert exact.windows is not None
    units, totals, orders = exact.references, mean_totals(exact.lengths, precisions.shape[1]), []
    windows, parts = windows_by_start(exact.windows, units), contributions(exact.windows, units)
    table = torch.cat([exact.matches, bound.matches, totals, precisions]).t().tolist()
    for number, (matches, bounds, total, precision) in enumerate(table, start=1):
        ngrams = tuple(
            NGram(*part, tuple(texts[places[0] : places[0] + number]), tuple(places))
            for places, part in zip(occurrences(units, number), parts[number - 1], strict=True)
        )
        orders.append(Order(matches, bounds, total, precision, number, windows[number - 1], ngrams))
    return tuple(orders)
