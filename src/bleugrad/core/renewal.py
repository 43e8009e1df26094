"""The renewal recursion: when the k-th occurrence of a pattern is completed, exactly, for many patterns at once.

For one pattern of m tokens let q_e be the probability that the window ending at e is the pattern, tail(e, d) that of
its last d tokens standing there, D the shifts at which it overlaps itself and a_e the probability that token e does not
end the sequence. Let N^k_e be the probability that the sequence lives past e and exactly k - 1 windows ending at or
before e are the pattern, and u^k_e that the k-th such window ends at e. Then ::

    u^k_e = q_e N^k_{e-m} - sum_{d in D} tail(e, d) v^k_{e-d},        v^k_e = u^k_e - u^{k-1}_e
    N^k_e = a_e N^k_{e-1} - v^k_e,                                    N^1_{-1} = 1, all else 0 before the start

and E[min(count, c)] = sum_e sum_{k=1..c} u^k_e. A *state* is one (pattern, k); the states of a pattern stand side by
side. Everything is linear in N, u, v for given q and tails, so the adjoint runs the same recursion backwards.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Renewal:
    """What drives the recursion of S states over T positions.

    ``window_probs`` (T, S) is q. ``bands`` are (first state, last state + 1, m): the states stand in bands of equal
    pattern length m. ``alive`` (T, S) is a, or None for 1 everywhere. ``first`` (S,) is True at k = 1, None if it is
    everywhere. ``tails[d]`` (T, S) is tail(., d), zero where d is no self-overlap.
    """

    window_probs: Tensor
    bands: list[tuple[int, int, int]]
    alive: Tensor | None = None
    first: Tensor | None = None
    tails: dict[int, Tensor] = field(default_factory=dict)

    @property
    def link(self) -> Tensor | None:
        """(S - 1,), 1 where state s + 1 is the next k of the pattern of state s."""
        return None if self.first is None else (~self.first[1:]).to(self.window_probs.dtype)


@dataclass(frozen=True)
class RenewalTrace:
    """A forward run: ``completed`` u (T, S), ``moved`` v (T, S), and ``history``, N from e = -max(m) on."""

    completed: Tensor
    moved: Tensor
    history: Tensor


@dataclass(frozen=True)
class RenewalGradient:
    """Cotangents of a :class:`Renewal`'s inputs."""

    window_probs: Tensor
    alive: Tensor | None
    tails: dict[int, Tensor]


def run(inputs: Renewal) -> RenewalTrace:
    """Walk forward over the positions. O(T S) time and memory; a step is one operation a band and one to four more."""
    steps, states = inputs.window_probs.shape
    pad = max((length for _, _, length in inputs.bands), default=1)
    history = inputs.window_probs.new_zeros(pad + steps, states)
    history[pad - 1] = 1 if inputs.first is None else inputs.first.to(history.dtype)
    link = inputs.link
    completed = torch.empty_like(inputs.window_probs)
    moved = completed if link is None else torch.empty_like(completed)
    bands = [
        (inputs.window_probs[:, lo:hi].unbind(), history[pad - length :, lo:hi].unbind(), completed[:, lo:hi].unbind())
        for lo, hi, length in inputs.bands
    ]
    levels, flows = history.unbind(), moved.unbind()
    for step in range(steps):
        for window, lagged, new in bands:
            torch.mul(window[step], lagged[step], out=new[step])
        for shift, tail in inputs.tails.items():
            if shift <= step:
                completed[step].addcmul_(tail[step], flows[step - shift], value=-1)
        if link is not None:
            flows[step].copy_(completed[step])
            flows[step][1:].addcmul_(completed[step, :-1], link, value=-1)
        before, now = levels[pad + step - 1], levels[pad + step]
        if inputs.alive is not None:
            before = before * inputs.alive[step]
        torch.sub(before, flows[step], out=now)
    return RenewalTrace(completed, moved, history)


def adjoint(inputs: Renewal, trace: RenewalTrace, grad_completed: Tensor) -> RenewalGradient:
    """Cotangents of the inputs from that of u, (T, S), by the same recursion run backwards."""
    steps, states = inputs.window_probs.shape
    pad = trace.history.shape[0] - steps
    link = inputs.link
    carried = grad_completed.new_zeros(steps + pad, states)  # q_e * grad u_e, zero past the end
    grad_level = grad_completed.new_zeros(steps + 1, states)
    grad_new = torch.empty_like(grad_completed)
    sizes = [hi - lo for lo, hi, _ in inputs.bands]
    ahead = [carried[length:, lo:hi].unbind() for lo, hi, length in inputs.bands]
    windows, sources, news, levels = (
        tensor.unbind() for tensor in (inputs.window_probs, grad_completed, grad_new, grad_level)
    )
    for step in range(steps - 1, -1, -1):
        level, later, new = levels[step], levels[step + 1], news[step]
        if inputs.alive is not None and step + 1 < steps:
            later = later * inputs.alive[step + 1]
        for now, after, lead in zip(level.split(sizes), later.split(sizes), ahead, strict=True):
            torch.add(after, lead[step], out=now)
        flow = -level
        for shift, tail in inputs.tails.items():
            if step + shift < steps:
                flow.addcmul_(tail[step + shift], news[step + shift], value=-1)
        torch.add(sources[step], flow, out=new)
        if link is not None:
            new[:-1].addcmul_(flow[1:], link, value=-1)
        torch.mul(windows[step], new, out=carried[step])

    grad_tails = {shift: torch.zeros_like(tail) for shift, tail in inputs.tails.items()}
    for shift, grad in grad_tails.items():
        torch.mul(grad_new[shift:], trace.moved[: steps - shift], out=grad[shift:]).neg_()
    grad_alive = None if inputs.alive is None else grad_level[:steps] * trace.history[pad - 1 : -1]
    for lo, hi, length in inputs.bands:
        grad_new[:, lo:hi] *= trace.history[pad - length : pad - length + steps, lo:hi]
    return RenewalGradient(grad_new, grad_alive, grad_tails)
