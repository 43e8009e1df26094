"""The renewal recursion: when the k-th occurrence of an n-gram is completed, exactly, for many n-grams at once.

For one n-gram of m tokens let q_e be the probability that the window ending at e is the n-gram, tail(e, d) that of its
last d tokens standing there, D the shifts at which it overlaps itself and a_e the probability that token e does not end
the sequence. Let N^k_e be the probability that the sequence lives past e and exactly k - 1 windows ending at or before
e are the n-gram, and u^k_e that the k-th such window ends at e. Then ::

    u^k_e = q_e N^k_{e-m} - sum_{d in D} tail(e, d) v^k_{e-d},        v^k_e = u^k_e - u^{k-1}_e
    N^k_e = a_e N^k_{e-1} - v^k_e,                                    N^1_{-1} = 1, all else 0 before the start

and E[min(count, c)] = sum_e sum_{k=1..c} u^k_e. Each (n-gram, k) has a slot, see ``slots.py``.

An n-gram of words counts only if the token after it opens a word. Then u leaves that out, so that the token may be the
first of the next occurrence. With o_e the probability that token e opens a word, N is the probability given that the
next token opens one, and R the probability once that is known ::

    R^k_e = a_e R^k_{e-1} - o_e v^k_{e-1},        N^k_e = R^k_e - v^k_e

so that ``N^k_e = a_e N^k_{e-1} + (a_e - o_e) v^k_{e-1} - v^k_e``. If every token opens a word, o = a, this is the line
above. Everything is linear in N, u and v for given q and tails, so the adjoint runs the same recursion backwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Renewal:
    """The inputs of the recursion over T positions, for the slots (B, L) of one order.

    ``window_probs`` (T, B, L) is q, and ``tails`` are tail(., d) of that shape, 0 where d is not in D. ``lags`` are the
    tokens m of the n-grams and, for each tail, its tokens: a number, or (B, L) for n-grams of words. ``alive``
    (T, B, 1) is a. ``continuing`` (T, B, 1) is a - o, or None where every token opens a word. ``linked`` (B, L) is 1 at
    slots of k > 1, which follow the slot of k - 1, and 0 at k = 1.
    """

    window_probs: Tensor
    tails: list[Tensor]
    lags: Sequence[int | Tensor]
    alive: Tensor
    continuing: Tensor | None
    linked: Tensor


class History(NamedTuple):
    """N and v, (T + 1, B, L) each; the first row is before the start, and row e + 1 is position e."""

    N: Tensor
    v: Tensor


class RenewalGradient(NamedTuple):
    """Gradients of the fields of a :class:`Renewal`, summed over the slots for ``alive`` and ``continuing`` (T, B)."""

    window_probs: Tensor
    tails: list[Tensor]
    alive: Tensor
    continuing: Tensor


def run(inputs: Renewal) -> tuple[Tensor, History]:
    """Walk forward over the positions: u (T, B, L), and the history that the adjoint needs.

    O(T B L) time per tail, and O(T B L) memory.
    """
    q, linked = inputs.window_probs, inputs.linked[:, 1:]
    u, history = torch.empty_like(q), _empty_history(q)
    N, v = history
    N[0] = 1 - inputs.linked
    lag, *shifts = inputs.lags
    for e in range(len(q)):
        torch.mul(q[e], _row_before(N, e + 1, lag), out=u[e])
        for tail, shift in zip(inputs.tails, shifts, strict=True):
            u[e].addcmul_(tail[e], _row_before(v, e + 1, shift), value=-1)
        v[e + 1].copy_(u[e])[:, 1:].addcmul_(linked, u[e, :, :-1], value=-1)
        torch.mul(inputs.alive[e], N[e], out=N[e + 1])
        if inputs.continuing is not None:
            N[e + 1].addcmul_(inputs.continuing[e], v[e])
        N[e + 1].sub_(v[e + 1])
    return u, history


def adjoint(inputs: Renewal, history: History, grad: Tensor) -> RenewalGradient:
    """The gradients of the inputs, from that of u (T, B, L), by the same recursion run backwards."""
    q, linked = inputs.window_probs, inputs.linked[:, 1:]
    of_N, of_v = _empty_history(q)
    of_q, of_tails = torch.empty_like(q), [torch.empty_like(tail) for tail in inputs.tails]
    lag, *shifts = inputs.lags
    for e in reversed(range(len(q))):
        of_v[e + 1].sub_(of_N[e + 1])
        of_N[e].addcmul_(inputs.alive[e], of_N[e + 1])
        if inputs.continuing is not None:
            of_v[e].addcmul_(inputs.continuing[e], of_N[e + 1])
        of_u = grad[e] + of_v[e + 1]
        of_u[:, :-1].addcmul_(linked, of_v[e + 1, :, 1:], value=-1)
        torch.mul(of_u, _row_before(history.N, e + 1, lag), out=of_q[e])
        _add_before(of_N, e + 1, lag, q[e] * of_u)
        for tail, of_tail, shift in zip(inputs.tails, of_tails, shifts, strict=True):
            torch.mul(of_u, -_row_before(history.v, e + 1, shift), out=of_tail[e])
            _add_before(of_v, e + 1, shift, -tail[e] * of_u)
    of_alive, of_continuing = ((of_N[1:] * rows[:-1]).sum(2) for rows in history)
    return RenewalGradient(of_q, of_tails, of_alive, of_continuing)


def _empty_history(like: Tensor) -> History:
    return History(*like.new_zeros(2, len(like) + 1, *like.shape[1:]))


def _row_before(rows: Tensor, row: int, lag: int | Tensor) -> Tensor:
    """Row ``row - lag`` of (T + 1, B, L), for each slot; row 0 if that is below 0, where all windows have q = 0."""
    if isinstance(lag, int):
        return rows[max(row - lag, 0)]
    return rows.gather(0, (row - lag).clamp(min=0)[None])[0]


def _add_before(rows: Tensor, row: int, lag: int | Tensor, values: Tensor) -> None:
    """Adjoint of :func:`_row_before`: add the values (B, L) to those rows."""
    if isinstance(lag, int):
        rows[max(row - lag, 0)] += values
    else:
        rows.scatter_add_(0, (row - lag).clamp(min=0)[None], values[None])
