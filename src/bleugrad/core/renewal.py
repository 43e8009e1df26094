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

Step = Callable[[int], object]


class Delay(Protocol):
    """How far back each state looks: m, the tokens of its pattern, or a shift d.

    ``history`` (longest + T, ...) begins ``longest`` rows before position 0, and ``ahead`` (T + longest, ...) ends as
    many rows after the last. Rows are contiguous and of the states' shape.
    """

    @property
    def longest(self) -> int:
        """The longest delay."""

    def multiplier(self, factor: Tensor, history: Tensor, out: Tensor) -> Step:
        """A function of e that sets out[e] = factor[e] * history[e - delay]; ``out`` may be ``factor``."""

    def subtractor(self, ahead: Tensor, row: Tensor) -> Step:
        """A function of e that subtracts ahead[e + delay] from ``row``."""


@dataclass(frozen=True)
class BandDelay:
    """Equal delays for bands of the states' first axis, (first, last + 1, delay)."""

    bands: list[tuple[int, int, int]]

    @property
    def longest(self) -> int:
        """The longest delay."""
        return max((delay for _, _, delay in self.bands), default=1)

    def multiplier(self, factor: Tensor, history: Tensor, out: Tensor) -> Step:
        """See :class:`Delay`."""
        rows = [
            (factor[:, lo:hi].unbind(), history[self.longest - delay :, lo:hi].unbind(), out[:, lo:hi].unbind())
            for lo, hi, delay in self.bands
        ]

        def step(e: int) -> None:
            for factors, lagged, outs in rows:
                torch.mul(factors[e], lagged[e], out=outs[e])

        return step

    def subtractor(self, ahead: Tensor, row: Tensor) -> Step:
        """See :class:`Delay`."""
        rows = [(ahead[delay:, lo:hi].unbind(), row[lo:hi]) for lo, hi, delay in self.bands]

        def step(e: int) -> None:
            for coming, part in rows:
                part.sub_(coming[e])

        return step


class IndexDelay:
    """Any delay for each state; ``delays`` is of the states' shape."""

    def __init__(self, delays: Tensor) -> None:
        self.delays = delays.reshape(-1)
        self.states = torch.arange(self.delays.shape[0], device=delays.device)
        self._longest = int(delays.max()) if delays.numel() else 1

    @property
    def longest(self) -> int:
        """The longest delay."""
        return self._longest

    def multiplier(self, factor: Tensor, history: Tensor, out: Tensor) -> Step:
        """See :class:`Delay`."""
        states, flat, factors, outs = self.states.shape[0], history.view(-1), _flat_rows(factor), _flat_rows(out)
        index = (self.longest - self.delays) * states + self.states
        return lambda e: torch.mul(factors[e], flat[e * states :].index_select(0, index), out=outs[e])

    def subtractor(self, ahead: Tensor, row: Tensor) -> Step:
        """See :class:`Delay`."""
        states, flat, target = self.states.shape[0], ahead.view(-1), row.view(-1)
        index = self.delays * states + self.states
        return lambda e: target.sub_(flat[e * states :].index_select(0, index))


def _flat_rows(values: Tensor) -> tuple[Tensor, ...]:
    return values.view(values.shape[0], -1).unbind()


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
    """What a forward run leaves for its adjoint: N, R and v, each beginning max(m) rows early; v where it is used."""

    level: Tensor
    known: Tensor
    moved: Tensor | None


@dataclass(frozen=True)
class RenewalGradient:
    """Cotangents of a :class:`Renewal`'s inputs, of their shapes."""

    window_probs: Tensor
    alive: Tensor | None
    opening: Tensor | None
    tails: list[Tensor]


def run(inputs: Renewal) -> tuple[Tensor, RenewalTrace]:
    """Walk forward over the positions: u (T, ...), and what the adjoint needs.

    O(T S) time and memory; a step is a handful of vector operations.
    """
    steps, pad, link = inputs.window_probs.shape[0], inputs.delay.longest, inputs.link
    level, new = _history(inputs.window_probs, pad), _history(inputs.window_probs, pad)
    level[pad - 1] = 1 if inputs.first is None else inputs.first.to(level.dtype)
    known = level if inputs.opening is None else _history(inputs.window_probs, pad).copy_(level)
    moved = new if link is None else _history(inputs.window_probs, pad)
    completed = new[pad:]
    complete = inputs.delay.multiplier(inputs.window_probs, level, completed)
    overlapped = [torch.empty_like(completed) for _ in inputs.tails]
    overlap = [
        tail.delay.multiplier(tail.probs, moved[pad - tail.delay.longest :], product)
        for tail, product in zip(inputs.tails, overlapped, strict=True)
    ]
    levels, knowns, flows, news = (history.unbind() for history in (level, known, moved, new))
    for step, row in enumerate(range(pad, pad + steps)):
        complete(step)
        for set_product, product in zip(overlap, overlapped, strict=True):
            set_product(step)
            news[row].sub_(product[step])
        if link is not None:
            flows[row].copy_(news[row])[1:].addcmul_(news[row][:-1], link, value=-1)
        before = knowns[row - 1]
        if inputs.alive is not None:
            before = before * inputs.alive[step]
        if inputs.opening is not None:
            before = torch.addcmul(before, inputs.opening[step], flows[row - 1], value=-1, out=knowns[row])
        torch.sub(before, flows[row], out=levels[row])
    return completed, RenewalTrace(level, known, moved if inputs.tails or inputs.opening is not None else None)


def _history(like: Tensor, pad: int) -> Tensor:
    """Room for T rows after ``pad`` rows of zeros."""
    history = like.new_empty(pad + like.shape[0], *like.shape[1:])
    history[:pad].zero_()
    return history


def adjoint(inputs: Renewal, trace: RenewalTrace, grad: Tensor, weight: Tensor) -> RenewalGradient:
    """Cotangents of the inputs where that of u is ``grad * weight``, by the same recursion run backwards.

    ``grad`` (T, ...) and ``weight`` are broadcast to u. All cotangents of N, R and v are held negated.
    """
    steps, pad, link = inputs.window_probs.shape[0], inputs.delay.longest, inputs.link
    ahead = inputs.window_probs.new_empty(steps + pad, *inputs.window_probs.shape[1:])  # q_e * grad u_e
    ahead[steps:].zero_()
    grad_new = torch.empty_like(inputs.window_probs)
    of_known = torch.zeros_like(inputs.window_probs[0])
    of_level = of_known if inputs.opening is None else torch.zeros_like(of_known)
    flow = of_known if link is None and not inputs.tails and inputs.opening is None else torch.empty_like(of_known)
    collect = inputs.delay.subtractor(ahead, of_level)
    times_level = inputs.delay.multiplier(grad_new, trace.level, grad_new)
    tails = _TailAdjoint(inputs.tails, trace, grad_new, flow, pad)
    grad_alive, grad_opening = (None if of is None else torch.empty_like(of) for of in (inputs.alive, inputs.opening))
    windows, grads, news, carries = (rows.unbind() for rows in (inputs.window_probs, grad, grad_new, ahead))
    for step in range(steps - 1, -1, -1):
        if inputs.opening is None:
            if inputs.alive is not None and step + 1 < steps:
                of_known.mul_(inputs.alive[step + 1])
            collect(step)
            if flow is not of_known:
                flow.copy_(of_known)
        else:
            of_level.zero_()
            collect(step)
            flow.copy_(of_level)
            if step + 1 < steps:
                flow.addcmul_(inputs.opening[step + 1], of_known)
                if inputs.alive is not None:
                    of_known.mul_(inputs.alive[step + 1])
            of_known.add_(of_level)
        tails.collect(step)
        torch.addcmul(flow, grads[step], weight, out=news[step])
        if link is not None:
            news[step][:-1].addcmul_(flow[1:], link, value=-1)
        torch.mul(windows[step], news[step], out=carries[step])
        tails.carry(step)
        times_level(step)
        if grad_alive is not None:
            grad_alive[step] = (of_known * trace.known[pad + step - 1]).sum_to_size(grad_alive.shape[1:]).neg_()
        if grad_opening is not None:
            assert trace.moved is not None
            grad_opening[step] = (of_known * trace.moved[pad + step - 1]).sum_to_size(grad_opening.shape[1:])
    return RenewalGradient(grad_new, grad_alive, grad_opening, tails.gradients())


class _TailAdjoint:
    """What occurrences that overlap give: later ones to the cotangent of v, this one to those of the tails."""

    def __init__(self, tails: list[Tail], trace: RenewalTrace, grad_new: Tensor, flow: Tensor, pad: int) -> None:
        steps = grad_new.shape[0]
        self.tails, self.grad_new = tails, grad_new
        self.carried = [grad_new.new_zeros(steps + tail.delay.longest, *grad_new.shape[1:]) for tail in tails]
        self.collectors = [
            tail.delay.subtractor(carried, flow) for tail, carried in zip(tails, self.carried, strict=True)
        ]
        self.grad_tails = [torch.empty_like(grad_new) for _ in tails]
        self.multipliers = []
        for tail, grad_tail in zip(tails, self.grad_tails, strict=True):
            assert trace.moved is not None
            self.multipliers.append(
                tail.delay.multiplier(grad_new, trace.moved[pad - tail.delay.longest :], grad_tail)
            )

    def collect(self, step: int) -> None:
        for collect in self.collectors:
            collect(step)

    def carry(self, step: int) -> None:
        for tail, carried, multiply in zip(self.tails, self.carried, self.multipliers, strict=True):
            torch.mul(tail.probs[step], self.grad_new[step], out=carried[step])
            multiply(step)

    def gradients(self) -> list[Tensor]:
        return [grad_tail.neg_() for grad_tail in self.grad_tails]
