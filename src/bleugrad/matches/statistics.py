"""Expected statistics, matches and lengths, and how they follow from independent rows."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.lengths.lengths import FixedLengths, Lengths, Stopping, word_counts
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.parts import Parts, ReferenceMatches
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import References
from bleugrad.references.targets import Targets
from bleugrad.references.words import word_probabilities


@dataclass(eq=False)
class RowWindows:
    """Inputs of the matches of independent rows, time first."""

    probs: Tensor  #: (T, B, L), probability that the window ending at t is the unit, token or word, of column j.
    patterns: Patterns  #: the distinct n-grams of each sentence.
    limits: Tensor  #: (B,), positions that count.
    ending: Stopping | None = None  #: how sequences end; None for a fixed length.
    opening: Tensor | None = None  #: (T, B), probability that token t opens a word; None where tokens are counted.
    boundary: Tensor | None = None  #: (T, B), probability that a word can end at t; None where tokens are counted.
    completed: Tensor | None = None  #: :func:`bleugrad.matches.exact.completed_matches`, which is computed once.

    def repeated(self, times: int, probs: Tensor, ids: Tensor, patterns: Patterns) -> "RowWindows":
        """See :class:`bleugrad.matches.parts.Counted`."""
        limits, ending = self.limits.repeat_interleave(times, 0), self.ending
        opening, boundary = (
            None if values is None else values.repeat_interleave(times, 1) for values in (self.opening, self.boundary)
        )
        if ending is not None:
            ending = Stopping(ending.alive.repeat_interleave(times, 1), ending.stop.repeat_interleave(times, 0))
        return RowWindows(probs, patterns, limits, ending, opening, boundary)


@dataclass(frozen=True)
class ExpectedStatistics:
    """Expected statistics that scores are computed from."""

    matches: Tensor  #: (B, N), expected clipped matches by the chosen method.
    lengths: Lengths  #: of the hypothesis, in the units of the references, tokens or words.
    references: References  #: in these units.
    windows: RowWindows | None = None  #: what certified intervals are made of; None for outputs that have none.
    label_log_probs: Tensor | None = None  #: (B, T), log-probability of each label, if it was asked for.
    mean_log_probs: Tensor | None = None  #: (B, T), mean over all tokens, if asked for and supported by the output.
    parts: ReferenceMatches | None = None  #: the matches with each reference, and those of each length, if known.


def row_statistics(match_probs: Tensor, opening: Tensor, targets: Targets, method: MatchMethod) -> ExpectedStatistics:
    """Expected statistics of independent rows.

    Args:
        match_probs: (B, T, L), the probabilities of ``targets.columns``.
        opening: (B, T), the probability of a token that opens a word; not used where tokens are counted.
        targets: with their patterns.
        method: how matches are expected.
    """
    check_rows(match_probs, targets)
    words, patterns, ending = targets.words, targets.patterns, None
    assert patterns is not None
    if words is None and targets.eos_id is None:
        known, probs = targets.limits[:, None], counted_first(match_probs, targets).transpose(0, 1)
        lengths: Lengths = FixedLengths(torch.ones_like(known, dtype=probs.dtype), known)
        windows = RowWindows(probs, patterns, targets.limits)
        return _of_rows(windows, lengths, targets, method)
    extra = targets.end_positions
    ends = targets.limits
    if extra:
        whole = targets.order is None and match_probs.shape[1] > 0  # then every sentence counts
        ends = ends + extra if whole else torch.where(ends > 0, ends + extra, 0)
    openings = None if words is None else opening
    columns = match_probs.shape[2] - (targets.eos_id is not None)
    inputs: tuple[Tensor | None, ...] = (match_probs, openings, targets.order, targets.limits, ends)
    if targets.order is None and targets.eos_id is None:  # the rows stay where they are, uncopied
        inputs, columns = (match_probs.detach()[..., :0], *inputs[1:]), 0
    probs, opened, boundary, alive, stop = operations.counted_rows(*inputs, columns, extra)
    if columns == 0:
        probs = match_probs.transpose(0, 1)
    if targets.eos_id is not None:
        ending = Stopping(alive, stop)
    if words is None:
        assert ending is not None
        lengths, windows = ending.lengths(), RowWindows(probs, patterns, ends, ending)
    else:
        lengths = word_counts(opened, ends, ending)
        windows = RowWindows(word_probabilities(probs, words), patterns, ends, ending, opened, boundary)
    return _of_rows(windows, lengths, targets, method)


def _of_rows(windows: RowWindows, lengths: Lengths, targets: Targets, method: MatchMethod) -> ExpectedStatistics:
    matches = method.rows(windows)
    parts = Parts(matches, windows, targets, method.rows, method.rows_by_length)
    return ExpectedStatistics(matches, lengths, targets.units, windows, parts=parts)


def check_rows(probs: Tensor, targets: Targets) -> None:
    """Raise if a row that counts has no softmax. Any number that was computed from it is NaN then, of (B, T, L)."""
    if not targets.checked:
        return
    found = probs.detach()[..., 0]
    if math.isnan(found.sum()):
        bad = found.isnan() if targets.mask is None else found.isnan() & targets.mask
        if bad.any():
            sentence, step = (int(index) for index in bad.nonzero()[0])
            raise ValueError(
                f"{targets.of} holds NaN or +inf, or a row of only -inf, first at sentence {sentence}, position {step};"
                " expected finite logits (-inf is allowed, but not for a whole row)"
            )


def counted_first(probs: Tensor, targets: Targets) -> Tensor:
    """Move the positions that count, of (B, T) or (B, T, L), to the front, with 0 after them."""
    order = targets.order
    if order is None:
        return probs
    after = torch.arange(probs.shape[1], device=probs.device) >= targets.limits[:, None]
    if probs.dim() == 3:
        order, after = order[..., None].expand_as(probs), after[..., None]
    return probs.gather(1, order).masked_fill(after, 0)
