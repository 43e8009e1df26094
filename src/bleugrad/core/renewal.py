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

    ``history`` (longest + T, S) begins ``longest`` rows before position 0, and ``ahead`` (T + longest, S) ends as many
    rows after the last.
    """

    @property
    def longest(self) -> int:
        """The longest delay."""

    def multiplier(self, factor: Tensor, history: Tensor, out: Tensor) -> Step:
        """A function of e that sets out[e] = factor[e] * history[e - delay]; ``factor`` and ``out`` are (T, S)."""

    def adder(self, term: Tensor, ahead: Tensor, out: Tensor) -> Step:
        """A function of e that sets out[e] = term[e] + ahead[e + delay]; ``term`` and ``out`` are (T, S)."""

    def shifted(self, history: Tensor) -> Tensor:
        """history[e - delay] for all positions e: (longest + T, S) to (T, S)."""


@dataclass(frozen=True)
class BandDelay:
    """States in bands of equal delay, (first state, last state + 1, delay)."""

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

    def adder(self, term: Tensor, ahead: Tensor, out: Tensor) -> Step:
        """See :class:`Delay`."""
        rows = [
            (term[:, lo:hi].unbind(), ahead[delay:, lo:hi].unbind(), out[:, lo:hi].unbind())
            for lo, hi, delay in self.bands
        ]

        def step(e: int) -> None:
            for terms, coming, outs in rows:
                torch.add(terms[e], coming[e], out=outs[e])

        return step

    def shifted(self, history: Tensor) -> Tensor:
        """See :class:`Delay`."""
        steps = history.shape[0] - self.longest
        result = history.new_empty(steps, history.shape[1])
        for lo, hi, delay in self.bands:
            begin = self.longest - delay
            result[:, lo:hi] = history[begin : begin + steps, lo:hi]
        return result


class IndexDelay:
    """Any delay (S,) for each state."""

    def __init__(self, delays: Tensor) -> None:
        self.delays = delays
        self.states = torch.arange(delays.shape[0], device=delays.device)
        self._longest = int(delays.max()) if delays.numel() else 1

    @property
    def longest(self) -> int:
        """The longest delay."""
        return self._longest

    def multiplier(self, factor: Tensor, history: Tensor, out: Tensor) -> Step:
        """See :class:`Delay`."""
        states, flat = self.states.shape[0], history.reshape(-1)
        index = (self.longest - self.delays) * states + self.states
        return lambda e: torch.index_select(flat[e * states :], 0, index, out=out[e]).mul_(factor[e])

    def adder(self, term: Tensor, ahead: Tensor, out: Tensor) -> Step:
        """See :class:`Delay`."""
        states, flat = self.states.shape[0], ahead.reshape(-1)
        index = self.delays * states + self.states
        return lambda e: torch.index_select(flat[e * states :], 0, index, out=out[e]).add_(term[e])

    def shifted(self, history: Tensor) -> Tensor:
        """See :class:`Delay`."""
        steps = history.shape[0] - self.longest
        rows = torch.arange(steps, device=history.device)[:, None] + (self.longest - self.delays)
        return history.gather(0, rows)


@dataclass(frozen=True)
class Tail:
    """Self-overlap: ``probs`` (T, S), tail(., d), zero for states without it, and the shift d of each state."""

    probs: Tensor
    delay: Delay


@dataclass(frozen=True)
class Renewal:
    """What drives the recursion of S states over T positions.

    ``window_probs`` (T, S) is q, and ``delay`` is m. ``alive`` (T, S) is a, or None for 1 everywhere. ``opening`` (T,
    S) is o, or None where every token opens a word. ``first`` (S,) is True at k = 1, None if it is everywhere.
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
    """A forward run: ``completed`` u (T, S); ``moved`` v, ``level`` N and ``known`` R begin max(m) rows early."""

    completed: Tensor
    moved: Tensor
    level: Tensor
    known: Tensor


@dataclass(frozen=True)
class RenewalGradient:
    """Cotangents of a :class:`Renewal`'s inputs."""

    window_probs: Tensor
    alive: Tensor | None
    opening: Tensor | None
    tails: list[Tensor]


def run(inputs: Renewal) -> RenewalTrace:
    """Walk forward over the positions. O(T S) time and memory; a step is a handful of vector operations."""
    steps, states = inputs.window_probs.shape
    pad, link = inputs.delay.longest, inputs.link
    level = inputs.window_probs.new_zeros(pad + steps, states)
    level[pad - 1] = 1 if inputs.first is None else inputs.first.to(level.dtype)
    known = level if inputs.opening is None else level.clone()
    completed = torch.empty_like(inputs.window_probs)
    simple = link is None and not inputs.tails and inputs.opening is None
    moved = completed if simple else torch.zeros_like(level)
    complete = inputs.delay.multiplier(inputs.window_probs, level, completed)
    overlapped = [torch.empty_like(completed) for _ in inputs.tails]
    overlap = [
        tail.delay.multiplier(tail.probs, moved[pad - tail.delay.longest :], product)
        for tail, product in zip(inputs.tails, overlapped, strict=True)
    ]
    levels, befores, news = level[pad:].unbind(), known[pad - 1 :].unbind(), completed.unbind()
    for step in range(steps):
        complete(step)
        flow = new = news[step]
        for set_product, product in zip(overlap, overlapped, strict=True):
            set_product(step)
            new -= product[step]
        if not simple:
            flow = moved[pad + step].copy_(new)
            if link is not None:
                flow[1:].addcmul_(new[:-1], link, value=-1)
        before = befores[step]
        if inputs.alive is not None:
            before = before * inputs.alive[step]
        if inputs.opening is not None:
            before = befores[step + 1].copy_(before).addcmul_(inputs.opening[step], moved[pad + step - 1], value=-1)
        torch.sub(before, flow, out=levels[step])
    return RenewalTrace(completed, moved, level, known)


def adjoint(inputs: Renewal, trace: RenewalTrace, grad_completed: Tensor) -> RenewalGradient:
    """Cotangents of the inputs from that of u, (T, S), by the same recursion run backwards."""
    steps, states = inputs.window_probs.shape
    pad, link = inputs.delay.longest, inputs.link
    carried = grad_completed.new_zeros(steps + pad, states)  # q_e * grad u_e, zero past the end
    grad_known, grad_new = grad_completed.new_zeros(steps + 1, states), torch.empty_like(grad_completed)
    later = grad_known[1:] if inputs.alive is None else torch.zeros_like(grad_new)  # a_{e+1} * grad R_{e+1}
    separate = inputs.opening is not None
    grad_level = torch.empty_like(grad_new) if separate else grad_known
    collect = inputs.delay.adder(torch.zeros_like(grad_new) if separate else later, carried, grad_level)
    tails = _TailAdjoint(inputs.tails, grad_new)
    rows = (inputs.window_probs, grad_completed, grad_new, grad_known, grad_level, carried)
    windows, sources, news, knowns, levels, carries = (tensor.unbind() for tensor in rows)
    for step in range(steps - 1, -1, -1):
        if inputs.alive is not None and step + 1 < steps:
            torch.mul(knowns[step + 1], inputs.alive[step + 1], out=later[step])
        collect(step)
        flow = -levels[step]
        if inputs.opening is not None:
            torch.add(levels[step], later[step], out=knowns[step])
            if step + 1 < steps:
                flow.addcmul_(inputs.opening[step + 1], knowns[step + 1], value=-1)
        tails.subtract_from(flow, step)
        new = torch.add(sources[step], flow, out=news[step])
        if link is not None:
            new[:-1].addcmul_(flow[1:], link, value=-1)
        torch.mul(windows[step], new, out=carries[step])
        tails.carry(new, step)
    before = trace.known[pad - 1 : -1]
    return RenewalGradient(
        window_probs=grad_new * inputs.delay.shifted(trace.level),
        alive=None if inputs.alive is None else grad_known[:steps] * before,
        opening=None if inputs.opening is None else -grad_known[:steps] * trace.moved[pad - 1 : -1],
        tails=[-grad_new * tail.delay.shifted(trace.moved[pad - tail.delay.longest :]) for tail in inputs.tails],
    )


class _TailAdjoint:
    """What later occurrences that overlap give the cotangent of v."""

    def __init__(self, tails: list[Tail], like: Tensor) -> None:
        steps, states = like.shape
        self.tails = tails
        self.carried = [like.new_zeros(steps + tail.delay.longest, states) for tail in tails]
        self.collected = [torch.empty_like(like) for _ in tails]
        zeros = torch.zeros_like(like) if tails else like
        self.collect = [
            tail.delay.adder(zeros, carried, collected)
            for tail, carried, collected in zip(tails, self.carried, self.collected, strict=True)
        ]

    def subtract_from(self, flow: Tensor, step: int) -> None:
        for collect, collected in zip(self.collect, self.collected, strict=True):
            collect(step)
            flow -= collected[step]

    def carry(self, new: Tensor, step: int) -> None:
        for tail, carried in zip(self.tails, self.carried, strict=True):
            torch.mul(tail.probs[step], new, out=carried[step])
