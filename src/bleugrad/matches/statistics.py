"""Expected statistics of independent rows: matches, totals and lengths."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bleugrad.lengths.lengths import Lengths, Stopping, fixed_lengths, random_lengths, stopping, word_counts
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
    expected new matches completed at each position, None where the paper's bound was asked for.
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
        if self.new_matches is not None:
            return self.new_matches
        matches = exact_matches(
            self.probs, self.patterns, None if self.ending is None else self.ending.alive, self.opening
        )
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
    match_probs, opening = counted_first(match_probs, targets), counted_first(opening, targets)
    ends = targets.end_positions
    most = ends if isinstance(ends, int) else (targets.tokens.ids.shape[2] + 1) // 2
    if most > 0:
        match_probs, opening, limits = _with_end(match_probs, opening, limits, ends, most)
    ending = None
    if targets.eos_id is not None:
        ending = stopping(match_probs[..., -1], limits)
        match_probs = match_probs[..., :-1]
    match_probs = match_probs.transpose(0, 1)
    if targets.words is None:
        lengths = fixed_lengths(limits, match_probs.dtype) if ending is None else random_lengths(ending)
        windows = UnitWindows(match_probs.contiguous(), patterns, limits, ending, None, None)
    else:
        opening = opening.t().contiguous()
        lengths = word_counts(opening, limits, ending)
        probs, boundary = word_probabilities(match_probs, targets.words), _word_boundary(opening, limits, ending)
        windows = UnitWindows(probs, patterns, limits, ending, opening, boundary)
    totals = lengths.mean_totals(patterns.clips.shape[1])
    if method != "exact":
        matches = _bound(windows, targets) if method == "bound" else _clipped_mean(windows)
        return ExpectedStatistics(matches, totals, lengths, targets.units, windows)
    new_matches = windows.exact_matches()
    windows = replace(windows, new_matches=new_matches)
    return ExpectedStatistics(new_matches.sum(0), totals, lengths, targets.units, windows)


def counted_first(probs: Tensor, targets: Targets) -> Tensor:
    """Move the counted positions of (B, T) or (B, T, L) to the front, 0 after them; an empty tensor stays empty."""
    if targets.order is None or probs.dim() < 2:
        return probs
    order, within = targets.order, torch.arange(probs.shape[1], device=probs.device) < targets.limits[:, None]
    if probs.dim() == 3:
        order, within = order[..., None].expand_as(probs), within[..., None]
    return torch.where(within, probs.gather(1, order), 0)


def _with_end(
    match_probs: Tensor, opening: Tensor, limits: Tensor, number: int | Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Append positions that certainly hold a token that matches nothing, a word of its own, to sentences that count.

    ``number`` may differ by sentence, (B,), and is at most ``most``, by which the tensors grow.
    """
    pad = torch.nn.functional.pad
    if opening.dim() == 2:
        after = torch.arange(opening.shape[1] + most, device=limits.device) >= limits[:, None]
        opening = pad(opening, (0, most)).masked_fill(after, 1)
    return pad(match_probs, (0, 0, 0, most)), opening, torch.where(limits > 0, limits + number, 0)


def _word_boundary(opening: Tensor, limits: Tensor, ending: Stopping | None) -> Tensor:
    """(T, B): probability that the token after t opens a word or the sequence ends there."""
    steps = opening.shape[0]
    after = torch.arange(1, steps + 1, device=limits.device)[:, None]
    opens = opening.roll(-1, 0)
    if ending is not None:
        opens = opens + ending.stop[:, 1:].t()
    return opens.masked_fill(after >= limits, 1)


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
