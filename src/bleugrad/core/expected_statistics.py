"""Expected statistics of a model's output distributions: matches, totals, lengths, and the score made of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import (
    LEVELS,
    METHODS,
    check_choice,
    check_nonnegative,
    check_order,
    check_weights,
)
from bleugrad.core.bound import bound_matches
from bleugrad.core.counted import CountedReferences
from bleugrad.core.expected_matches import expected_matches
from bleugrad.core.lengths import (
    Lengths,
    Stopping,
    expected_brevity_penalty,
    fixed_lengths,
    pooled_brevity_penalty,
    random_lengths,
    random_word_counts,
    stopping,
    word_counts,
)
from bleugrad.core.match_probabilities import Gathered
from bleugrad.core.ngrams import Patterns
from bleugrad.core.pooling import Pool
from bleugrad.core.score import smoothed_precisions, weighted_geometric_mean
from bleugrad.core.sequences import References, close_up
from bleugrad.core.words import word_probabilities


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
class UnitWindows:
    """What matches are counted from, position by position, all time first.

    ``probs`` (T, B, L): the window ending at t is the unit, token or word, of column j. ``ending``: None for a fixed
    length. ``opening`` and ``boundary`` (T, B): token t opens a word; a word can end at t. None where tokens are
    counted.
    """

    probs: Tensor
    ending: Stopping | None
    opening: Tensor | None
    boundary: Tensor | None

    def exact_matches(self, patterns: Patterns) -> Tensor:
        """Expected new matches completed at each position, (T, B, N): their sum over T is E[O_n]. Exact."""
        alive = None if self.ending is None else self.ending.alive
        matches = expected_matches(self.probs, patterns, alive, self.opening)
        return matches if self.boundary is None else matches * self.boundary[..., None]


@dataclass(frozen=True)
class ExpectedStatistics:
    """``matches`` and ``totals`` (B, N), lengths in units, and what certificates are made of.

    ``limits`` (B,) is the number of positions that count.
    """

    matches: Tensor
    totals: Tensor
    lengths: Lengths
    patterns: Patterns
    windows: UnitWindows
    new_matches: Tensor | None
    limits: Tensor


@dataclass(frozen=True)
class ExpectedScore:
    """The value with its factors, of each sentence or pooled."""

    value: Tensor
    precisions: Tensor
    brevity_penalty: Tensor


def expected_statistics(
    gathered: Gathered, counted: CountedReferences, mask: Tensor | None, options: ScoreOptions
) -> ExpectedStatistics:
    """Expected statistics from the probabilities of :meth:`CountedReferences.columns`."""
    positions = Positions.of(gathered.match_probs, mask)
    match_probs, limits = positions.close_up(gathered.match_probs), positions.limits
    ending = None
    if counted.eos_id is not None:
        ending = stopping(match_probs[..., -1], limits)
        match_probs = match_probs[..., :-1]
    match_probs = match_probs.transpose(0, 1)
    if counted.words is None:
        match_probs = match_probs.contiguous()
        lengths = fixed_lengths(limits, match_probs.dtype) if ending is None else random_lengths(ending)
        windows = UnitWindows(match_probs, ending, None, None)
    else:
        opening = positions.close_up(gathered.opening).t().contiguous()
        lengths = word_counts(opening, limits) if ending is None else random_word_counts(opening, ending)
        boundary = word_boundary(opening, limits, ending)
        windows = UnitWindows(word_probabilities(match_probs, counted.words), ending, opening, boundary)
    patterns = counted.patterns(options.max_order)
    totals = lengths.mean_totals(options.max_order)
    new_matches = windows.exact_matches(patterns) if options.method == "exact" else None
    matches = _bound(windows, patterns, counted) if new_matches is None else new_matches.sum(0)
    return ExpectedStatistics(matches, totals, lengths, patterns, windows, new_matches, limits)


def word_boundary(opening: Tensor, limits: Tensor, ending: Stopping | None) -> Tensor:
    """(T, B): probability that the token after t opens a word or the sequence ends there."""
    steps = opening.shape[0]
    after = torch.arange(1, steps + 1, device=limits.device)[:, None]
    opens = opening.roll(-1, 0)
    if ending is not None:
        opens = opens + ending.stop[:, 1:].t()
    return opens.masked_fill(after >= limits, 1)


def _bound(windows: UnitWindows, patterns: Patterns, counted: CountedReferences) -> Tensor:
    """The paper's bound; for a random length from rows with EOS removed and renormalised."""
    if windows.ending is None:
        return bound_matches(windows.probs, patterns, None, windows.boundary)
    spans = 1 if counted.words is None else counted.words.spans
    probs = _renormalised(windows.probs, windows.ending.alive, spans)
    return bound_matches(probs, patterns, windows.ending.survival, windows.boundary)


def _renormalised(unit_probs: Tensor, alive: Tensor, spans: int | Tensor) -> Tensor:
    """Unit probabilities given that none of their tokens is EOS: divided by the product of ``alive`` over the unit.

    Where a factor is below the rounding error of 1 nothing survives it, and the probability is set to 0.
    """
    eps = torch.finfo(alive.dtype).eps
    logs, dead = alive.clamp(min=eps).log(), (alive <= eps).to(alive.dtype)
    if isinstance(spans, int):
        log_divisor, impossible = logs[..., None], dead[..., None]
    else:
        log_divisor, impossible = _sum_over_span(logs, spans), _sum_over_span(dead, spans)
    return torch.where(impossible > 0.5, 0, unit_probs / log_divisor.exp())


def _sum_over_span(values: Tensor, spans: Tensor) -> Tensor:
    """Sum of (T, B) over the spans[b, j] positions that end at t: (T, B, L)."""
    sums = torch.nn.functional.pad(values.cumsum(0), (0, 0, 1, 0))[..., None].expand(-1, -1, spans.shape[1])
    begin = torch.arange(1, values.shape[0] + 1, device=values.device)[:, None, None] - spans
    return sums[1:] - sums.gather(0, begin.clamp(min=0))


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


@dataclass(frozen=True)
class Positions:
    """Which positions count: the first ``limits`` (B,) of each sentence once it is taken in ``order`` (B, T).

    Where every position counts, ``order`` is None.
    """

    limits: Tensor
    order: Tensor | None

    @classmethod
    def of(cls, probs: Tensor, mask: Tensor | None) -> "Positions":
        """For (B, T, L), from the positions (B, T) that count, or None for all."""
        batch, steps, _ = probs.shape
        if mask is None or (not torch.compiler.is_compiling() and bool(mask.all())):
            return cls(torch.full((batch,), steps, device=probs.device), None)
        order, limits = close_up(torch.arange(steps, device=mask.device).expand(batch, steps), mask)
        return cls(limits, order)

    def close_up(self, probs: Tensor) -> Tensor:
        """Move the counted positions of (B, T) or (B, T, L) to the front, 0 after them."""
        if self.order is None:
            return probs
        order, within = self.order, torch.arange(probs.shape[1], device=probs.device) < self.limits[:, None]
        if probs.dim() == 3:
            order, within = order[..., None].expand_as(probs), within[..., None]
        return torch.where(within, probs.gather(1, order), 0)
