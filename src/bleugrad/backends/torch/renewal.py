"""The renewal recursion: when the k-th occurrence of a pattern is completed, exactly, for many patterns at once.

For one pattern of m tokens let q_e be the probability that the window ending at e is the pattern, tail(e, d) that of
its last d tokens standing there, D the shifts at which it overlaps itself and a_e the probability that token e does not
end the sequence. Let N^k_e be the probability that the sequence lives past e and exactly k - 1 windows ending at or
before e are the pattern, and u^k_e that the k-th such window ends at e. Then ::

    u^k_e = q_e N^k_{e-m} - sum_{d in D} tail(e, d) v^k_{e-d},        v^k_e = u^k_e - u^{k-1}_e
    N^k_e = a_e N^k_{e-1} - v^k_e,                                    N^1_{-1} = 1, all else 0 before the start

and E[min(count, c)] = sum_e sum_{k=1..c} u^k_e. A *state* is one (pattern, k); those of a pattern stand side by side.

A pattern made of words counts only if the token after it opens a word. Then u leaves that out, so that the token may be
the first of the next occurrence; with o_e the probability that token e opens a word, N is what it is *if the next token
opens one*, and R what it is once that is known ::

    R^k_e = a_e R^k_{e-1} - o_e v^k_{e-1},        N^k_e = R^k_e - v^k_e

which is the third line above where every token opens a word, o = a. Everything is linear in N, R, u, v for given q and
tails, so the adjoint runs the same recursion backwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

Row = Callable[[int], Tensor]


class Delay(Protocol):
    """How far each state looks: m, the tokens of its pattern, or a shift d.

    It looks back into a *history*, whose rows run from the last position to the first and on to what was before, or
    ahead into rows that run from the first position to the last and on to what comes after: (T + longest, ...) both.
    """

    @property
    def longest(self) -> int:
        """The longest delay."""

    def beyond(self, rows: Tensor) -> Row:
        """A function of r that gives rows[r + delay], each state at its own delay."""


@dataclass(frozen=True)
class LadderDelay:
    """Delays 1, 2, ..., ``longest`` down the states' first axis: n-grams of tokens by their order."""

    longest: int

    def beyond(self, rows: Tensor) -> Row:
        """See :class:`Delay`: one step down the first axis is one row on, so a view does it."""
        row, rung, *inner = rows.stride()
        shape = (rows.shape[0] - self.longest, *rows.shape[1:])
        return rows.as_strided(shape, (row, row + rung, *inner), rows.storage_offset() + row).unbind().__getitem__


class IndexDelay:
    """Any delay for each state; ``delays`` is of the states' shape."""

    def __init__(self, delays: Tensor) -> None:
        self.shape = delays.shape
        self.longest = int(delays.max()) if delays.numel() else 1
        self.index = delays.reshape(-1) * delays.numel() + torch.arange(delays.numel(), device=delays.device)

    def beyond(self, rows: Tensor) -> Row:
        """See :class:`Delay`."""
        states, flat = self.index.shape[0], rows.view(-1)
        return lambda r: flat[r * states :].index_select(0, self.index).view(self.shape)


@dataclass(frozen=True)
class Tail:
    """Self-overlap: ``probs`` (T, ...), tail(., d), zero for states without it, and the shift d of each state."""

    probs: Tensor
    delay: Delay


@dataclass(frozen=True)
class Renewal:
    """What drives the recursion over T positions of states laid out in any shape.

    ``window_probs`` (T, ...) is q, and ``delay`` is m. ``alive`` is a, or None for 1 everywhere, and ``opening`` is o,
    or None where every token opens a word; both are broadcast to q. ``first`` is True at k = 1, None if it is
    everywhere; with it the states are a line, those of a pattern side by side.
    """

    window_probs: Tensor
    delay: Delay
    alive: Tensor | None = None
    opening: Tensor | None = None
    first: Tensor | None = None
    tails: list[Tail] = field(default_factory=list)

    @property
    def link(self) -> Tensor | None:
        """(S - 1,), 1 where state s + 1 is the next k of the pattern of state s."""
        return None if self.first is None else (~self.first[1:]).to(self.window_probs.dtype)


@dataclass(frozen=True)
class RenewalTrace:
    """What a forward run leaves for its adjoint: the histories of N, R and v (see :class:`Delay`), v where used."""

    N: Tensor
    R: Tensor
    v: Tensor | None


@dataclass(frozen=True)
class RenewalGradient:
    """Gradients of a :class:`Renewal`'s inputs, of their shapes."""

    window_probs: Tensor
    alive: Tensor | None
    opening: Tensor | None
    tails: list[Tensor]


def run(inputs: Renewal) -> tuple[Tensor, RenewalTrace]:
    """Walk forward over the positions: u (T, ...), **last position first**, and what the adjoint needs.

    O(T S) time and memory; a step is a handful of vector operations.
    """
    steps, pad, link = inputs.window_probs.shape[0], inputs.delay.longest, inputs.link
    N, u = _history(inputs.window_probs, pad), _history(inputs.window_probs, pad)
    N[steps] = 1 if inputs.first is None else inputs.first.to(N.dtype)
    R = N if inputs.opening is None else _history(inputs.window_probs, pad)
    R[steps] = N[steps]
    v = u if link is None else _history(inputs.window_probs, pad)
    N_before = inputs.delay.beyond(N)
    overlaps = [(tail.probs, tail.delay.beyond(v[: steps + tail.delay.longest])) for tail in inputs.tails]
    q, N_rows, R_rows, v_rows, u_rows = (rows.unbind() for rows in (inputs.window_probs, N, R, v, u))
    for step, row in enumerate(range(steps - 1, -1, -1)):
        torch.mul(q[step], N_before(row), out=u_rows[row])
        for probs, v_before in overlaps:
            u_rows[row].addcmul_(probs[step], v_before(row), value=-1)
        if link is not None:
            v_rows[row].copy_(u_rows[row])[1:].addcmul_(u_rows[row][:-1], link, value=-1)
        before = R_rows[row + 1]
        if inputs.alive is not None:
            before = before * inputs.alive[step]
        if inputs.opening is not None:
            before = torch.addcmul(before, inputs.opening[step], v_rows[row + 1], value=-1, out=R_rows[row])
        torch.sub(before, v_rows[row], out=N_rows[row])
    return u[:steps], RenewalTrace(N, R, v if inputs.tails or inputs.opening is not None else None)


def _history(like: Tensor, pad: int) -> Tensor:
    """Room for T rows, and ``pad`` rows of zeros for what was before them."""
    history = like.new_empty(like.shape[0] + pad, *like.shape[1:])
    history[like.shape[0] :].zero_()
    return history


def adjoint(inputs: Renewal, trace: RenewalTrace, grad: Tensor, weight: Tensor) -> RenewalGradient:
    """Gradients of the inputs where that of u is ``grad * weight``, by the same recursion run backwards.

    ``grad`` (T, ...) and ``weight`` are broadcast to u. All gradients of N, R and v are held negated.
    """
    steps, pad, link = inputs.window_probs.shape[0], inputs.delay.longest, inputs.link
    ahead = _history(inputs.window_probs, pad)  # q_e * grad u_e
    grad_u = torch.empty_like(inputs.window_probs)
    grad_R = torch.zeros_like(inputs.window_probs[0])
    simple = link is None and not inputs.tails and inputs.opening is None
    grad_v = grad_R if simple else torch.empty_like(grad_R)
    coming, N_before = inputs.delay.beyond(ahead), inputs.delay.beyond(trace.N)
    tails = [_TailAdjoint(tail, trace, grad_u) for tail in inputs.tails]
    grad_alive, grad_opening = (None if of is None else torch.empty_like(of) for of in (inputs.alive, inputs.opening))
    q, grads, grad_u_rows, carries = (rows.unbind() for rows in (inputs.window_probs, grad, grad_u, ahead))
    for step in range(steps - 1, -1, -1):
        row = steps - 1 - step
        if inputs.opening is None:
            if inputs.alive is not None and row > 0:
                grad_R.mul_(inputs.alive[step + 1])
            grad_R.sub_(coming(step))
            if not simple:
                grad_v.copy_(grad_R)
        else:
            grad_N, later = torch.neg(coming(step), out=grad_v), grad_R
            if inputs.alive is not None and row > 0:
                grad_R = grad_R * inputs.alive[step + 1]
            grad_R = grad_R + grad_N
            if row > 0:
                grad_v.addcmul_(inputs.opening[step + 1], later)
        for tail in tails:
            tail.collect(grad_v, step)
        torch.addcmul(grad_v, grads[step], weight, out=grad_u_rows[step])
        if link is not None:
            grad_u_rows[step][:-1].addcmul_(grad_v[1:], link, value=-1)
        torch.mul(q[step], grad_u_rows[step], out=carries[step])
        for tail in tails:
            tail.carry(step, row)
        grad_u_rows[step].mul_(N_before(row))
        if grad_alive is not None:
            grad_alive[step] = (grad_R * trace.R[row + 1]).sum_to_size(grad_alive.shape[1:]).neg_()
        if grad_opening is not None:
            assert trace.v is not None
            grad_opening[step] = (grad_R * trace.v[row + 1]).sum_to_size(grad_opening.shape[1:])
    return RenewalGradient(grad_u, grad_alive, grad_opening, [tail.grad_probs for tail in tails])


class _TailAdjoint:
    """What occurrences that overlap give: later ones to the gradient of v, this one to that of the tail."""

    def __init__(self, tail: Tail, trace: RenewalTrace, grad_u: Tensor) -> None:
        assert trace.v is not None
        self.probs, self.grad_u, self.grad_probs = tail.probs, grad_u, torch.empty_like(grad_u)
        self.ahead = _history(grad_u, tail.delay.longest)
        self.coming = tail.delay.beyond(self.ahead)
        self.v_before = tail.delay.beyond(trace.v[: grad_u.shape[0] + tail.delay.longest])

    def collect(self, grad_v: Tensor, step: int) -> None:
        grad_v.sub_(self.coming(step))

    def carry(self, step: int, row: int) -> None:
        torch.mul(self.probs[step], self.grad_u[step], out=self.ahead[step])
        torch.mul(self.grad_u[step], self.v_before(row), out=self.grad_probs[step]).neg_()
