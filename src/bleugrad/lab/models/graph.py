"""Graph models (DA-Transformer): the decoder's positions are vertices, and a translation is a path through them."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bleugrad import Graph
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.one_pass import Encoded, UpsampledModel, places
from bleugrad.lab.models.search.largest import largest
from bleugrad.lab.models.transformer import position_codes
from bleugrad.lab.special_ids import EOS, PAD

IMPOSSIBLE = -1e9
"""Score of a transition that cannot be: its probability is 0, and a row of them is no NaN."""

BEST, LONGER = 16, 1.0
"""Number of candidates of minimum Bayes risk decoding, and the bonus per token in their ranking."""


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
    penalty_unit = 0.05
    further = (0,)

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size, config.vertices)
        self.leaving_entering = nn.Linear(config.hidden, 2 * config.hidden)
        self.head_weights = nn.Linear(config.hidden, config.heads)

    def graph(self, encoded: Encoded, shown: Tensor | None = None) -> Graph:
        """The output for encoded sources; see :meth:`decode`."""
        hidden, lengths = self.decode(encoded, shown)
        return Graph(self.project(hidden), self.transitions(hidden, lengths), lengths=lengths)

    def transitions(self, hidden: Tensor, lengths: Tensor, penalty: float = 0.0) -> Tensor:
        """Log-probabilities (B, T, T) of the transitions between vertices, in float32 or finer.

        ``penalty`` is subtracted for every vertex that a transition skips, before they are normalised.
        """
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
            if not penalty:
                return mixed
            skipped = (vertex - vertex[:, None] - 1).clamp(min=0).to(kind)
            return (mixed - penalty * skipped).log_softmax(-1)

    def read(
        self, hidden: Tensor, lengths: Tensor, never: list[int], penalty: float
    ) -> Iterator[tuple[list[int], float, int]]:
        """Lookahead decoding: go from w to the vertex u with the highest E[w, u] * max_v P(v | u).

        A vertex that was not projected counts as max_v P(v | u) = 1, an upper bound. Vertices on the paths with these
        bounds are projected until there are none left. These paths are then those of lookahead decoding, and about 60 %
        of the vertices of a trained model are never projected.
        """
        batch, most, width = hidden.shape
        steps = self.transitions(hidden, lengths, penalty)
        log_probs, numbers = steps.new_zeros(batch * most), lengths.tolist()
        tokens = torch.full_like(log_probs, -1, dtype=torch.long)
        while True:
            gained, following = (steps + log_probs.view(batch, 1, most)).max(2)
            paths = [followed(after, number) for after, number in zip(following.tolist(), numbers, strict=True)]
            flat = [first * most + place for first, path in enumerate(paths) for place in path]
            visited = torch.tensor(flat, dtype=torch.long, device=hidden.device)
            visited = visited[tokens[visited] < 0]
            if not len(visited):
                break
            log_probs[visited], tokens[visited] = self.best_symbols(hidden.view(-1, width)[visited], never)
        rows = zip(paths, tokens.view(batch, most).tolist(), gained.tolist(), log_probs[::most].tolist(), strict=True)
        for path, own, values, first in rows:
            yield [own[place] for place in path], first + sum(values[place] for place in path[:-1]), len(path)

    def distribution(self, hidden: Tensor, lengths: Tensor, never: list[int]) -> tuple[Graph, None]:
        """The graph."""
        transitions = self.transitions(hidden, lengths, self.skip_penalty)
        return Graph(self.allowed(hidden, never), transitions, lengths=lengths), None

    def several(self, output: Any, lengths: Tensor) -> list[list[list[int]]]:
        """The tokens of the ``BEST`` paths with the highest probability, with one of two tokens at each vertex.

        ``LONGER`` is added to the logarithm for each token, because likely paths are short.
        """
        batch, most, _ = output.shape
        log_probs, tokens = largest(output.logits.log_softmax(-1).flatten(0, 1), 2)
        log_probs, tokens = log_probs.view(batch, most, 2, 1), tokens.view(batch, most, 2)
        gains = log_probs.new_full((batch, most, 2, BEST), -torch.inf)  # from a vertex on, with a token and a rank
        early, ends = places(lengths - 1, most), places(lengths, most) & ~places(lengths - 1, most)
        gains[ends, :, 0] = log_probs[ends, :, 0]
        ways = tokens.new_zeros(batch, most, BEST)  # the next vertex after this one, its token and its rank
        for vertex in reversed(range(most - 1)):
            steps = output.transitions[:, vertex, vertex + 1 :, None, None] + LONGER
            best, ways[:, vertex] = (steps + gains[:, vertex + 1 :]).flatten(1).topk(BEST, 1)
            gains[:, vertex] = (log_probs[:, vertex] + best[:, None]).where(
                early[:, vertex, None, None], gains[:, vertex]
            )
        firsts = gains[:, 0].flatten(1).topk(BEST, 1)
        numbers = (firsts.values > -torch.inf).sum(1).tolist()
        rows = zip(firsts.indices.tolist(), numbers, ways.tolist(), tokens.tolist(), lengths.tolist(), strict=True)
        return [[spelled(way, *own) for way in first[:number]] for first, number, *own in rows]

    def never(self, forbid_unk: bool) -> list[int]:
        """Never PAD, EOS, BOS, and UNK if it is forbidden."""
        return [PAD, EOS, *super().never(forbid_unk)]


def spelled(way: int, ways: list[list[int]], tokens: list[list[int]], length: int) -> list[int]:
    """The tokens of a path that :meth:`GraphModel.several` found; ``way`` is its start."""
    vertex, found = 0, []
    while True:
        further, way = divmod(way, 2 * BEST)
        vertex += further
        found.append(tokens[vertex][way // BEST])
        if vertex == length - 1:
            return found
        vertex, way = vertex + 1, ways[vertex][way % BEST]


def followed(after: list[int], length: int) -> list[int]:
    """The path from vertex 0 to the last, ``after[w]`` being the vertex that follows w.

    Example:
        >>> followed([2, 3, 3, 0], 4)
        [0, 2, 3]
    """
    path = [0]
    while path[-1] < length - 1:
        path.append(after[path[-1]])
    return path
