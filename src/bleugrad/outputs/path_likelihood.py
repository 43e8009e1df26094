"""The log-likelihood of labels under a graph: the sum over all paths that emit them."""

import torch
from torch import Tensor

from bleugrad.backends.dtypes import widest_float


def path_log_probs(emissions: Tensor, transitions: Tensor, limits: Tensor, numbers: Tensor) -> Tensor:
    """The log-probability (B,) that a random path emits the labels; -inf if none can. Exact, differentiable.

    ``f_0[u] = P(y_0 | u)`` for u = 0, ``f_i[u] = P(y_i | u) sum_w f_{i-1}[w] E[w, u]``, and P(y) is f at the last label
    and the last vertex. Each f is divided by its largest value, in the device's widest type, and emissions stay
    logarithms, so only paths that are e^-700 times as likely as others up to a label are lost.

    Args:
        emissions: (B, T, R), the log-probability of each label at each vertex. Entries past limits or numbers may hold
            anything.
        transitions: (B, T, T), the probability to go from w to u, 0 unless w < u < ``limits``.
        limits: (B,), the number of vertices.
        numbers: (B,), the number of labels.

    O(B T^2 R) time, O(B T R) memory.

    Example:
        >>> emissions = torch.tensor([[[0.5, 0.1], [0.3, 0.9], [0.2, 0.4]]]).log()  # three vertices, two labels
        >>> transitions = torch.tensor([[[0.0, 0.75, 0.25], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
        >>> path_log_probs(emissions, transitions, torch.tensor([3]), torch.tensor([2])).exp()  # 0.5 * 0.25 * 0.4
        tensor([0.0500])
    """
    batch, steps, most = emissions.shape
    vertex, label = torch.arange(steps, device=limits.device), torch.arange(most, device=limits.device)
    left, further = limits[:, None] - 1 - vertex, numbers[:, None] - 1 - label  # vertices and labels that follow
    ending, last = (left == 0)[..., None], (further == 0)[:, None]
    possible = (left[..., None] >= further[:, None]) & (vertex[:, None] >= label) & (further >= 0)[:, None]
    possible &= (ending == last) & ((vertex == 0)[:, None] == (label == 0))
    kind = widest_float(emissions.device)
    scores = emissions.to(kind).masked_fill(~possible, -torch.inf).unbind(2)
    state, total = emissions.new_zeros(batch, steps, dtype=kind), emissions.new_zeros(batch, dtype=kind)
    transitions = transitions.to(kind)
    for i in range(most):
        found = scores[i]
        if i:
            reached = (state[:, None] @ transitions).squeeze(1)
            found = found + reached.masked_fill(reached == 0, 1).log().masked_fill(reached == 0, -torch.inf)
        largest = found.detach().amax(1) if steps else total
        largest = largest.masked_fill(largest == -torch.inf, 0)
        active = i < numbers
        state = torch.where(active[:, None], (found - largest[:, None]).exp(), state)
        total = total + torch.where(active, largest, 0)
    ended = (state * (left == 0)).sum(1)
    log_probs = total + ended.masked_fill(ended == 0, 1).log()
    empty = (limits == 0) & (numbers == 0)
    return log_probs.masked_fill((ended == 0) & ~empty, -torch.inf).to(emissions.dtype)
