"""The output of a model that walks a graph (DA-Transformer): tokens along a random path, and their likelihood."""

from dataclasses import replace

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.backends.devices import widest_float
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.paths import path_statistics
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.output import UnalignedOutput
from bleugrad.outputs.rows import check_floating
from bleugrad.references.sequences import check_lengths, close_up, reads_back
from bleugrad.references.targets import Targets


class Graph(UnalignedOutput):
    """Vertices (B, T, V) and transitions (B, T, T) of a directed acyclic graph, as in DA-Transformer.

    A path starts at vertex 0, goes from w to a later vertex u with probability softmax(transitions[w, w + 1:])[u], and
    ends at the last vertex. The output is one token from each vertex it visits. Pass it wherever logits are accepted.
    Labels are references: (B, R) for any R, padded with ``ignore_index``. Matches, totals, the distribution of the
    length and the expected brevity penalty are all **exact**. No certified interval is offered.

    ``cross_entropy_weight`` of a loss adds the negative log-likelihood of the labels over all paths, **exact**, per
    token of the labels. It is 0 for labels that no path can emit: more tokens than vertices, or one token and several
    vertices.

    Args:
        logits: (B, T, V), any floating type.
        transitions: (B, T, T), logits or log-probabilities (whose softmax gives them back), computed in the type of the
            logits. Entries with u <= w, and those past the length, are ignored. -inf forbids a transition, but not
            all transitions from a vertex.
        lengths: (B,), vertices that count; all by default.
        sharpness: scores token distributions proportional to p ^ sharpness; transitions stay as they are.

    O(B T V + B T^2 (N^2 R + T)) time. Memory: one tensor of the logits' size beyond them, and four with
    N (N + 1) / 2 R + T numbers for each vertex.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> output = bleugrad.Graph(torch.randn(2, 6, 20), torch.randn(2, 6, 6), lengths=torch.tensor([6, 4]))
        >>> loss = bleugrad.ExpectedBLEULoss()(output, torch.tensor([[5, 17, 3], [9, 9, -100]]))
        >>> round(loss.item(), 3)
        0.693
    """

    def __init__(
        self, logits: Tensor, transitions: Tensor, *, lengths: Tensor | None = None, sharpness: float = 1.0
    ) -> None:
        batch, steps, vocabulary = check_floating("logits", logits, "(B, T, V)", 3).shape
        if vocabulary == 0:
            raise ValueError(f"logits has shape {tuple(logits.shape)}; expected (B, T, V) with V of at least 1")
        if check_floating("transitions", transitions, "(B, T, T)", 3).shape != (batch, steps, steps):
            raise ValueError(
                f"transitions has shape {tuple(transitions.shape)}; expected {(batch, steps, steps)}, as logits' (B, T)"
            )
        self.shape, self.device = (batch, steps, vocabulary), logits.device
        self.logits, self.transitions, self.sharpness = logits, transitions, sharpness
        self.lengths = None if lengths is None else check_lengths("lengths", lengths, batch, steps, logits.device)

    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """See :meth:`Output.statistics`."""
        self.check_options(targets)
        labels, numbers, wanted = None, None, None
        if label_log_probs:
            labels, numbers = close_up(*targets.given_labels())
            wanted = self._at_all_vertices(labels)
        asked = (targets.columns, wanted, None, self.sharpness, self.inplace)
        probs = operations.row_probabilities(self.logits, *asked)
        transitions = self._transition_probs(targets.limits, targets.mask, targets.checked)
        found = path_statistics(probs[0], transitions, targets, method)
        if labels is None or numbers is None:
            return found
        log_probs = path_log_probs(probs[1], transitions, targets.limits, numbers)
        shared = log_probs.masked_fill(log_probs == -torch.inf, 0) / numbers.clamp(min=1)
        return replace(found, label_log_probs=shared[:, None].expand_as(labels))

    def emissions(self, labels: Tensor) -> Tensor:
        """The log-probability of each of the labels (B, R), ids of the vocabulary, at each vertex: (B, T, R)."""
        with torch.autocast(self.device.type, enabled=False):
            wanted = self._at_all_vertices(labels)
            log_probs: Tensor = operations.row_probabilities(self.logits, labels[:, :0], wanted, None, 1.0, False)[1]
            return log_probs

    def transition_probs(self) -> Tensor:
        """Probabilities (B, T, T) of the transitions, 0 on and below the diagonal and past the last vertex."""
        batch, steps, _ = self.shape
        limits = torch.full((batch,), steps, device=self.device) if self.lengths is None else self.lengths
        with torch.autocast(self.device.type, enabled=False):
            return self._transition_probs(limits, None, reads_back(limits))

    def _at_all_vertices(self, labels: Tensor) -> Tensor:
        return labels[:, None].expand(-1, self.shape[1], -1).contiguous()

    def _transition_probs(self, limits: Tensor, mask: Tensor | None, checked: bool) -> Tensor:
        """:meth:`transition_probs` with the first ``limits`` (B,) vertices."""
        vertex = torch.arange(self.shape[1], device=limits.device)
        if checked and mask is not None and not bool((mask == (vertex < limits[:, None])).all()):
            raise ValueError("mask leaves out vertices before others that count; expected True first, as lengths do")
        possible = (vertex > vertex[:, None]) & (vertex < limits[:, None, None])
        scores = self.transitions.to(torch.promote_types(self.logits.dtype, torch.float32)).masked_fill(
            ~possible, -torch.inf
        )
        leaving = vertex < limits[:, None] - 1
        probs = scores.masked_fill(~leaving[..., None], 0).softmax(-1).masked_fill(~possible, 0)
        if checked and (bad := probs.isnan().any(-1)).any():
            sentence, row = (int(index) for index in bad.nonzero()[0])
            raise ValueError(
                f"transitions holds NaN or +inf, or only -inf where a path can go on, first at sentence {sentence}, "
                f"vertex {row}; expected finite logits (-inf is allowed, but not for all that follow a vertex)"
            )
        return probs


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
