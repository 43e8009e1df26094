"""Expected statistics of independent rows: matches, totals and lengths."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bleugrad.backends.torch.row_windows import arrange
from bleugrad.lengths.lengths import Lengths, Stopping, fixed_lengths, word_counts
from bleugrad.matches.bound import bound_matches
from bleugrad.matches.clipped_mean import clipped, row_counts
from bleugrad.matches.exact import exact_matches
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import References
from bleugrad.references.targets import Targets
from bleugrad.references.words import word_probabilities


@dataclass(frozen=True)
class UnitWindows:
    """What matches are counted from, position by position, all time first.

    ``probs`` (T, B, L): probability that the window ending at t is the unit, token or word, of column j. ``ending``:
    None for a fixed length. ``opening`` and ``boundary`` (T, B): probability that token t opens a word, and that a word
    can end at t; None where tokens are counted. ``limits`` (B,): positions that count. ``new_matches`` (T, B, N):
    those of :func:`bleugrad.matches.exact.exact_matches`, None where the paper's bound was asked for.
    """

    probs: Tensor
    patterns: Patterns
    limits: Tensor
    ending: Stopping | None
    opening: Tensor | None
    boundary: Tensor | None
    new_matches: Tensor | None = None

    def exact_matches(self) -> Tensor:
        """Expected new matches completed at each position, (T, B, N): their sum over T is E[O_n]. Exact."""
        matches = self.new_matches
        if matches is None:
            alive = None if self.ending is None else self.ending.alive
            matches = exact_matches(self.probs, self.patterns, alive, self.opening)
        return matches if self.boundary is None else matches * self.boundary[..., None]

    def matches_by_length(self) -> Tensor:
        """Joint expectations E[O_n; length = l] for every possible length in tokens, (B, N, S). Exact."""
        new_matches = self.exact_matches()
        if self.ending is None:
            return new_matches.sum(0).unsqueeze(2)
        reached = [new_matches.new_zeros(new_matches.shape[1:])]
        for new, alive in zip(new_matches, self.ending.alive, strict=True):
            reached.append(reached[-1] * alive[:, None] + new)
        return torch.stack(reached, 2) * self.ending.stop[:, None, :]


@dataclass(frozen=True)
class ExpectedStatistics:
    """What a score is made of. ``matches`` and ``totals`` (B, N), ``lengths`` and ``references`` in the same units.

    ``windows`` is what certified intervals are made of, None for outputs that have none. ``label_log_probs`` (B, T) is
    the log-probability of each label where that was asked for.
    """

    matches: Tensor
    totals: Tensor
    lengths: Lengths
    references: References
    windows: UnitWindows | None = None
    label_log_probs: Tensor | None = None


def row_statistics(match_probs: Tensor, opening: Tensor, targets: Targets, method: str) -> ExpectedStatistics:
    """Expected statistics of independent rows.

    Args:
        match_probs: (B, T, L), the probabilities of ``targets.columns``.
        opening: (B, T), the probability of a token that opens a word; not used where tokens are counted.
        targets: with their patterns.
        method: "exact", "bound" or "clipped_mean".
    """
    patterns, limits = targets.patterns, targets.limits
    assert patterns is not None
    ends = targets.end_positions
    most, more = (ends, None) if isinstance(ends, int) else ((targets.tokens.ids.shape[2] + 1) // 2, ends)
    opened = None if targets.words is None else opening
    inputs = (match_probs, opened, targets.order, limits, more, most, targets.eos_id is not None)
    probs, *stops, token_lengths, opening, boundary, limits = arrange(*inputs)
    ending = None if targets.eos_id is None else Stopping(*stops)
    if targets.words is not None:
        lengths = word_counts(opening, limits, ending)
        windows = UnitWindows(word_probabilities(probs, targets.words), patterns, limits, ending, opening, boundary)
    else:
        lengths = fixed_lengths(limits, probs.dtype) if ending is None else Lengths(token_lengths)
        windows = UnitWindows(probs, patterns, limits, ending, None, None)
    totals = lengths.mean_totals(patterns.clips.shape[1])
    if method != "exact":
        matches = _bound(windows, targets) if method == "bound" else _clipped_mean(windows)
        return ExpectedStatistics(matches, totals, lengths, targets.units, windows)
    new_matches = exact_matches(windows.probs, patterns, None if ending is None else ending.alive, windows.opening)
    matches = new_matches if windows.boundary is None else new_matches * boundary[..., None]
    return ExpectedStatistics(matches.sum(0), totals, lengths, targets.units, replace(windows, new_matches=new_matches))


def _bound(windows: UnitWindows, targets: Targets) -> Tensor:
    """The paper's bound; for a random length from rows with EOS removed and renormalised."""
    if windows.ending is None:
        return bound_matches(windows.probs, windows.patterns, None, windows.boundary)
    probs = _renormalised(windows.probs, windows.ending.alive, 1 if targets.words is None else targets.words.spans)
    return bound_matches(probs, windows.patterns, windows.ending.survival, windows.boundary)


def _clipped_mean(windows: UnitWindows) -> Tensor:
    """min(E[count], c), of tokens."""
    if windows.opening is not None:
        raise ValueError("method is 'clipped_mean', but word_start is given; expected 'exact' or 'bound' in words")
    survival = None if windows.ending is None else windows.ending.survival
    clips = windows.patterns.clips
    return clipped(row_counts(windows.probs, clips.shape[1], survival), clips)


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
