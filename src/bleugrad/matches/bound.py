"""The paper's bound (eq. bleu_n): LB_n = sum_g sum_e q_e min(1, c_g / (1 + sum_{l != e} q_l)).

Equal to O_n on one-hot rows, for any reference. A true lower bound of E[O_n] where every reference n-gram occurs once
and does not overlap itself. **Not** a lower bound otherwise, nor in words: for the reference ``a a`` and p(a) = 0.5 at
three positions it is 1.5, and E[O_1] is 1.375.
"""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.matches.method import MatchMethod
from bleugrad.references.ngrams import Patterns

if TYPE_CHECKING:
    from bleugrad.matches.statistics import RowWindows


class Bound(MatchMethod):
    """The paper's LB_n of independent rows: a lower bound if the reference's n-grams are distinct."""

    name = "bound"

    def rows(self, windows: "RowWindows") -> Tensor:
        """See :func:`bound_matches`; for a random length from rows with EOS removed and renormalised."""
        ending, patterns = windows.ending, windows.patterns
        if ending is None:
            return bound_matches(windows.probs, patterns, None, windows.boundary)
        probs = _renormalised(windows.probs, ending.alive, patterns.spans)
        return bound_matches(probs, patterns, ending.survival, windows.boundary)


def bound_matches(
    unit_probs: Tensor, patterns: Patterns, survival: Tensor | None = None, boundary: Tensor | None = None
) -> Tensor:
    """The paper's LB_n, (B, N).

    Args:
        unit_probs: (T, B, L), probability that the window ending at t is the unit (token or word) of column j; 0 where
            t is past the end.
        patterns: the distinct n-grams of each sentence with their clips.
        survival: (T, B), probability that none of the tokens 0..t ends the sequence; None where the length is fixed.
            With it, ``unit_probs`` are those of the rows with EOS removed and renormalised, and
            ``LB_n = sum_g sum_e survival_e q_e min(1, c_g / (1 + z_e))`` with
            ``z_e = sum_{l < e} q_l + sum_{l > e} q_l survival_l / survival_e``.
        boundary: (T, B), probability that a word can end at t, since the next token opens one or the sequence ends;
            None where every token is a word. It multiplies every q.

    O(T B N L) time; memory as for the exact expectation. The denominator is at least 1; survival_e = 0 makes the second
    sum 0 instead of 0 / 0, and such a window has weight 0.
    """
    inputs = (unit_probs, survival, boundary, patterns.clips, patterns.spans)
    return cast(Tensor, operations.bound_matches(*inputs))


def _renormalised(unit_probs: Tensor, alive: Tensor, spans: Tensor | None) -> Tensor:
    """Unit probabilities given that none of their tokens is EOS: divided by the product of ``alive`` over the unit.

    Where a factor is below the rounding error of 1 nothing survives it, and the probability is set to 0.
    """
    eps = torch.finfo(alive.dtype).eps
    logs, dead = alive.clamp(min=eps).log(), (alive <= eps).to(alive.dtype)
    if spans is None:
        log_divisor, impossible = logs[..., None], dead[..., None]
    else:
        log_divisor, impossible = _sum_over_span(logs, spans), _sum_over_span(dead, spans)
    return torch.where(impossible > 0.5, 0, unit_probs / log_divisor.exp())


def _sum_over_span(values: Tensor, spans: Tensor) -> Tensor:
    """Sum of (T, B) over the spans[b, j] positions that end at t: (T, B, L)."""
    sums = torch.nn.functional.pad(values.cumsum(0), (0, 0, 1, 0))[..., None].expand(-1, -1, spans.shape[1])
    begin = torch.arange(1, values.shape[0] + 1, device=values.device)[:, None, None] - spans
    return sums[1:] - sums.gather(0, begin.clamp(min=0))
