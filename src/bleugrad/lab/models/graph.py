"""Graph models (DA-Transformer): the decoder's positions are vertices, and a translation is a path through them."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bleugrad import Graph
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.one_pass import Encoded, UpsampledModel
from bleugrad.lab.models.transformer import position_codes
from bleugrad.lab.special_ids import EOS, PAD

IMPOSSIBLE = -1e9
"""Score of a transition that cannot be: its probability is 0, and a row of them is no NaN."""


class GraphModel(UpsampledModel):
    """Kind "graph": ``vertices`` vertices per source token; a path from the first to the last emits a token at each.

    The probability of a transition is a mixture of one softmax per head over the later vertices, with weights of the
    vertex that is left. See :class:`bleugrad.Graph`.

    Example:
        >>> import torch
        >>> model = GraphModel(ModelConfig("graph", hidden=8, heads=2), source_size=30, target_size=40)
        >>> graph = model.graph(model.encode(torch.tensor([[7, 9, 3], [5, 3, 0]]), torch.tensor([3, 2])))
        >>> graph.shape, graph.lengths
        ((2, 9, 40), tensor([9, 6]))
    """

    reads = True

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size, config.vertices)
        self.leaving_entering = nn.Linear(config.hidden, 2 * config.hidden)
        self.head_weights = nn.Linear(config.hidden, config.heads)

    def graph(self, encoded: Encoded, shown: Tensor | None = None) -> Graph:
        """The output for encoded sources; see :meth:`decode`."""
        hidden, lengths = self.decode(encoded, shown)
        return Graph(self.project(hidden), self.transitions(hidden, lengths), lengths=lengths)

    def transitions(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Log-probabilities (B, T, T) of the transitions between vertices, in float32 or finer."""
        numbered = hidden + position_codes(hidden.shape[1], hidden)
        both = self.leaving_entering(numbered).unflatten(-1, (2 * self.config.heads, -1)).transpose(1, 2)
        weights = self.head_weights(numbered).transpose(1, 2)
        with torch.autocast(hidden.device.type, enabled=False):
            kind = torch.promote_types(both.dtype, torch.float32)
            leaving, entering = both.to(kind).chunk(2, 1)
            scores = leaving @ entering.mT / math.sqrt(leaving.shape[-1])
            vertex = torch.arange(hidden.shape[1], device=hidden.device)
            possible = (vertex > vertex[:, None]) & (vertex < lengths[:, None, None])
            scores = scores.masked_fill(~possible[:, None], IMPOSSIBLE).log_softmax(-1)
            mixed: Tensor = (scores + weights.to(kind).log_softmax(1)[..., None]).logsumexp(1)
            return mixed

    def read(
        self, hidden: Tensor, lengths: Tensor, log_probs: Tensor, best: Tensor
    ) -> Iterator[tuple[list[int], float, int]]:
        """Lookahead decoding: go from w to the vertex u with the highest E[w, u] * max_v P(v | u)."""
        steps = self.transitions(hidden, lengths)
        vertex = torch.arange(hidden.shape[1], device=hidden.device)
        later = (vertex > vertex[:, None]) & (vertex < lengths[:, None, None])
        values, following = (steps + log_probs[:, None]).masked_fill(~later, -torch.inf).max(2)
        rows = zip(*(one.tolist() for one in (best, log_probs, values, following, lengths)), strict=True)
        for tokens, emitted, gained, after, length in rows:
            path, total = [0], emitted[0]
            while path[-1] < length - 1:
                total += gained[path[-1]]
                path.append(after[path[-1]])
            yield [tokens[place] for place in path], total, len(path)

    def never(self, forbid_unk: bool) -> list[int]:
        """Never PAD, EOS, BOS, and UNK if it is forbidden."""
        return [PAD, EOS, *super().never(forbid_unk)]
