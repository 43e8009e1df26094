"""Expected BLEU of a model's output distributions: the differentiable quantity this package is for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import (
    LEVELS,
    METHODS,
    check_choice,
    check_eos,
    check_finite_rows,
    check_logits,
    check_mask,
    check_nonnegative,
    check_order,
    check_weights,
)
from bleugrad.core.bound import bound_matches
from bleugrad.core.certificates import certified_interval
from bleugrad.core.expected_matches import expected_matches
from bleugrad.core.lengths import (
    Lengths,
    expected_brevity_penalty,
    fixed_lengths,
    pooled_brevity_penalty,
    random_lengths,
)
from bleugrad.core.match_probabilities import match_probabilities
from bleugrad.core.ngrams import Patterns, reference_patterns
from bleugrad.core.pooling import Pool
from bleugrad.core.score import ExpectedBLEUResult, smoothed_precisions, weighted_geometric_mean
from bleugrad.core.sequences import IdLists, References, close_up, prepare_references


def expected_bleu(
    logits: Tensor,
    references: Tensor | IdLists,
    *,
    method: str = "exact",
    mask: Tensor | None = None,
    eos_id: int | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    level: str = "corpus",
    ignore_index: int = -100,
) -> ExpectedBLEUResult:
    """BLEU of the expected statistics of the distributions softmax(logits), rows independent; differentiable.

    ``value = BP * prod_n ((E[O_n] + s) / (E[M_n] + s)) ^ w_n``. What is what:

    * ``matches`` E[O_n]: **exact** with ``method="exact"``. With ``"bound"`` they are the paper's LB_n, a lower bound
      where the reference's n-grams are distinct and none overlaps itself, and neither bound nor exact elsewhere.
    * ``totals``, lengths and ``brevity_penalty``: **exact** expectations, constants unless ``eos_id`` is given.
    * ``value``: a **surrogate** of E[BLEU]; with the exact method and a fixed length also an upper bound of it.
    * ``lower``, ``upper``: a **certified** interval for each sentence's true E[BLEU] under the same weights and
      smoothing, from the exact expectations whatever ``method`` and ``level`` are. ``lower`` is None if a sentence has
      several references and ``smoothing`` is 0: no certificate is known there.

    Args:
        logits: (B, T, V), any floating type; computed in float32, or float64 for float64 logits.
        references: (B, R) or (B, K, R) ids padded with ``ignore_index``, or nested lists of ids with any number of
            references a sentence. T and R may differ.
        method: "exact" or "bound".
        mask: (B, T) bool, True where a position counts; the counted positions close up.
        eos_id: makes the length random: the hypothesis is the tokens before the first EOS, or all of them if there is
            none. References are cut before their first EOS. The brevity penalty at corpus level is E[BP] of the summed
            lengths, exact for one reference each.
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: s, added to matches and totals of every order as in the paper (sacreBLEU's add-k leaves order 1
            alone).
        level: "corpus" pools the expected statistics over the batch before the score, "sentence" scores each sentence.
        ignore_index: the padding id of the references.

    Without smoothing, an order of positive weight with no possible match makes the value 0 with zero gradient. With
    smoothing, an order with no n-grams has precision 1. An empty hypothesis of a non-empty reference has value 0.

    After one gather of (B, T, L) match probabilities nothing has a vocabulary dimension: O(B T L) time and memory an
    order.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(1, 3, 2, requires_grad=True)  # p = 0.5 everywhere
        >>> references = torch.tensor([[0, 0]])
        >>> exact = bleugrad.expected_bleu(logits, references, max_order=1)
        >>> bound = bleugrad.expected_bleu(logits, references, max_order=1, method="bound")
        >>> exact.matches.item(), bound.matches.item()  # the "bound" is above the truth here
        (1.375, 1.5)
        >>> exact.value.backward()
        >>> round(logits.grad[0, 0, 0].item(), 4)
        0.0469
    """
    check_logits(logits)
    batch, steps, vocabulary = logits.shape
    check_mask(mask, batch, steps)
    eos_id = check_eos(eos_id, vocabulary)
    options = ScoreOptions.checked(method, max_order, weights, smoothing, level)
    prepared = prepare_references(
        references,
        batch=batch,
        of="logits",
        device=logits.device,
        vocabulary=vocabulary,
        eos_id=eos_id,
        ignore_index=ignore_index,
    )
    with torch.autocast(logits.device.type, enabled=False):
        match_probs, _ = match_probabilities(logits, gather_columns(prepared, eos_id))
        check_finite_rows(match_probs, mask)
        return expected_result(match_probs, prepared, mask, eos_id, options)


def expected_result(
    match_probs: Tensor, references: References, mask: Tensor | None, eos_id: int | None, options: "ScoreOptions"
) -> ExpectedBLEUResult:
    """The result from the probabilities (B, T, L or L + 1) of :func:`gather_columns`."""
    statistics = expected_statistics(match_probs, references, mask, eos_id, options)
    score = score_expectation(statistics, references, options, Pool())
    lower, upper = certify(statistics, references, options)
    lengths = statistics.lengths
    return ExpectedBLEUResult(
        value=score.value,
        matches=statistics.matches,
        totals=statistics.totals,
        precisions=score.precisions,
        brevity_penalty=score.brevity_penalty,
        hypothesis_lengths=lengths.mean(),
        reference_lengths=(references.closest_lengths(lengths.support) * lengths.probs).sum(1),
        lower=lower,
        upper=upper,
    )


@dataclass(frozen=True)
class ScoreOptions:
    """How statistics are counted and become a score, checked."""

    method: str
    max_order: int
    weights: tuple[float, ...]
    smoothing: float
    level: str

    @classmethod
    def checked(
        cls, method: str, max_order: int, weights: Sequence[float] | None, smoothing: float, level: str
    ) -> "ScoreOptions":
        """The options, or an error that names the wrong one."""
        check_choice("method", method, METHODS)
        check_choice("level", level, LEVELS)
        max_order = check_order(max_order)
        return cls(
            method, max_order, check_weights(weights, max_order), check_nonnegative("smoothing", smoothing), level
        )


@dataclass(frozen=True)
class ExpectedStatistics:
    """What the score needs: ``matches`` and ``totals`` (B, N), lengths, and what certificates are made of."""

    matches: Tensor
    totals: Tensor
    lengths: Lengths
    patterns: Patterns
    match_probs: Tensor
    new_matches: Tensor | None


@dataclass(frozen=True)
class ExpectedScore:
    """The value with its factors, of each sentence or pooled."""

    value: Tensor
    precisions: Tensor
    brevity_penalty: Tensor


def gather_columns(references: References, eos_id: int | None) -> Tensor:
    """The token ids whose probabilities are needed: the references end to end, then EOS if the length is random."""
    columns = references.ids.flatten(1)
    return columns if eos_id is None else torch.nn.functional.pad(columns, (0, 1), value=eos_id)


def expected_statistics(
    match_probs: Tensor, references: References, mask: Tensor | None, eos_id: int | None, options: ScoreOptions
) -> ExpectedStatistics:
    """Expected statistics from the probabilities (B, T, L or L + 1) of :func:`gather_columns`."""
    match_probs, limits = _close_up_positions(match_probs, mask)
    if eos_id is None:
        lengths = fixed_lengths(limits, match_probs.dtype)
    else:
        lengths = random_lengths(match_probs[..., -1], limits)
        match_probs = match_probs[..., :-1]
    match_probs = match_probs.transpose(0, 1).contiguous()
    patterns = reference_patterns(references, options.max_order)
    totals = (lengths.ngram_totals(options.max_order) * lengths.probs[:, None, :]).sum(2)
    if options.method == "exact":
        new_matches = expected_matches(match_probs, patterns, lengths.alive)
        return ExpectedStatistics(new_matches.sum(0), totals, lengths, patterns, match_probs, new_matches)
    renormalised = match_probs
    if lengths.alive is not None:
        alive, eps = lengths.alive[..., None], torch.finfo(match_probs.dtype).eps
        renormalised = torch.where(alive > eps, match_probs / alive.clamp(min=eps), 0)
    matches = bound_matches(renormalised, patterns, lengths.survival)
    return ExpectedStatistics(matches, totals, lengths, patterns, match_probs, None)


def score_expectation(
    statistics: ExpectedStatistics, references: References, options: ScoreOptions, pool: Pool
) -> ExpectedScore:
    """Precisions, brevity penalty and value of expected statistics, pooled at corpus level."""
    matches, totals, lengths = statistics.matches, statistics.totals, statistics.lengths
    if options.level == "sentence":
        penalty = expected_brevity_penalty(lengths, references)
    else:
        matches, totals = pool.sum(torch.stack([matches.sum(0), totals.sum(0)]))
        penalty = pooled_brevity_penalty(lengths, references, pool)
    precisions = smoothed_precisions(matches, totals, options.smoothing)
    return ExpectedScore(penalty * weighted_geometric_mean(precisions, options.weights), precisions, penalty)


def certify(
    statistics: ExpectedStatistics, references: References, options: ScoreOptions
) -> tuple[Tensor | None, Tensor]:
    """The certified interval of each sentence, from the exact expectations whatever the method is."""
    new_matches = statistics.new_matches
    if new_matches is None:
        new_matches = expected_matches(statistics.match_probs, statistics.patterns, statistics.lengths.alive)
    return certified_interval(
        new_matches, statistics.lengths, references, statistics.patterns, options.weights, options.smoothing
    )


def _close_up_positions(match_probs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Move the counted positions of (B, T, L) to the front, 0 after them; also their number (B,)."""
    batch, steps, columns = match_probs.shape
    if mask is None:
        return match_probs, torch.full((batch,), steps, device=match_probs.device)
    order, limits = close_up(torch.arange(steps, device=mask.device).expand(batch, steps), mask)
    closed = match_probs.gather(1, order[..., None].expand(batch, steps, columns))
    within = torch.arange(steps, device=mask.device) < limits[:, None]
    return torch.where(within[..., None], closed, 0), limits
