"""The steps that every translation model has: encode the source, decode all positions, project to logits.

:class:`AutoregressiveModel` adds one step with a state. Search, feeding and objectives are written against it.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.lab.models.config import ModelConfig

ALIGNED = 16
"""float32 logits in 64 bytes."""


class TranslationModel(nn.Module):
    """A model of one kind; ``source_size`` and ``target_size`` (V) are the sizes of the vocabularies.

    ``encode(source, source_lengths)`` reads sources (B, S), ``decode(memory, ...)`` returns the hidden states of all
    positions, and :meth:`project` their logits with the layer ``output``. An autoregressive model decodes given inputs
    and has a ``step`` for search, see :class:`AutoregressiveModel`. A one-pass model decodes from the source alone and
    translates without a search, see :class:`bleugrad.lab.models.one_pass.OnePassModel`.
    """

    output: nn.Linear

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config, self.source_size, self.target_size = config, source_size, target_size

    def encode(self, source: Tensor, source_lengths: Tensor) -> Any:
        """Encode sources (B, S), padded on the right with any id; ``source_lengths`` (B,) are at least 1."""
        raise NotImplementedError

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., H)."""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def projection(self) -> Callable[[Tensor], Tensor]:
        """:meth:`project` for many calls without gradient and with constant parameters.

        Rows of logits are padded to a multiple of ``ALIGNED`` with tokens of probability 0: on a CPU, matrix products
        with rows of odd length take up to 1.5 times as long.
        """
        spare = -self.target_size % ALIGNED
        weight = F.pad(self.output.weight.detach(), (0, 0, 0, spare))
        bias = F.pad(self.output.bias.detach(), (0, spare), value=-torch.inf)
        return lambda hidden: F.linear(hidden, weight, bias)


class State(Protocol):
    """What one step of a decoder passes to the next, for B rows."""

    def select(self, rows: Tensor) -> "State":
        """The state with row ``rows[i]`` at i."""

    def mixed(self, weights: Tensor) -> "State":
        """The state whose rows are mixtures of those of the same sentence, by weights (B, W, W); for soft beams only.

        The state has W rows per sentence, side by side. Row j of sentence b is the sum over i of ``weights[b, j, i]``
        times its row i.
        """


def mix_rows(values: Tensor, weights: Tensor) -> Tensor:
    """Values (N, B W, H) with the rows of each sentence mixed by weights (B, W, W)."""
    apart = values.unflatten(1, weights.shape[:2])
    return torch.einsum("bji,nbih->nbjh", weights, apart).flatten(1, 2)


class Memory(Protocol):
    """Encoded sources; ``state`` is that of the decoder before its first step, one row per sentence."""

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Where it is."""

    @property
    def state(self) -> Any:
        """The state before the first step."""

    def select(self, rows: Tensor) -> "Memory":
        """The memory with sentence ``rows[i]`` at i."""


class Noise(Protocol):
    """Factors of dropout, drawn once for all steps, so that two passes drop the same units."""

    def at(self, step: int) -> "Noise":
        """The noise of one step."""


MemoryT = TypeVar("MemoryT", bound=Memory)
StateT = TypeVar("StateT", bound=State)
NoiseT = TypeVar("NoiseT", bound=Noise)


class AutoregressiveModel(TranslationModel, Generic[MemoryT, StateT, NoiseT]):
    """A model whose decoder reads the previous tokens.

    ``decode`` returns the hidden states of all positions for given inputs, ``step`` those of the next position. Both
    give the same numbers. The rows of a decoder are a multiple of the sentences, those of a sentence side by side.
    """

    target_embedding: nn.Embedding

    def encode(self, source: Tensor, source_lengths: Tensor) -> MemoryT:
        """Encode sources (B, S), padded on the right with any id; lengths (B,) are at least 1, and B may be 0."""
        raise NotImplementedError

    def decode(self, memory: MemoryT, inputs: Tensor, noise: NoiseT | None = None) -> Tensor:
        """Hidden states (B, T, H) of a decoder with ``inputs`` (B, T): BOS, then the token at each position.

        ``noise`` is the dropout of at least T steps; None draws it in training mode.
        """
        raise NotImplementedError

    def step(
        self, memory: MemoryT, state: StateT, tokens: Tensor, noise: NoiseT | None = None, origins: Tensor | None = None
    ) -> tuple[Tensor, StateT]:
        """One decoding step; returns (B, H) for :meth:`project`, and the new state.

        ``tokens`` (B,) are the previous tokens. ``origins`` (B,) is the row of the state that each row continues, if it
        is not its own; the state may then have any number of rows.
        """
        raise NotImplementedError

    def step_embedded(
        self, memory: MemoryT, state: StateT, embedded: Tensor, noise: NoiseT | None = None
    ) -> tuple[Tensor, StateT]:
        """:meth:`step` with the embedding (B, E) of the previous token, or of a mixture of tokens."""
        raise NotImplementedError

    def draw_noise(self, rows: int, steps: int) -> NoiseT:
        """Dropout for :meth:`decode` and :meth:`step`; none outside training mode."""
        raise NotImplementedError

    def forward(self, source: Tensor, source_lengths: Tensor, inputs: Tensor) -> Tensor:
        """Logits (B, T, V) of the token that follows each of ``inputs`` (B, T), by teacher forcing."""
        return self.project(self.hidden_states(source, source_lengths, inputs))

    def hidden_states(self, source: Tensor, source_lengths: Tensor, inputs: Tensor) -> Tensor:
        """(B, T, H), the inputs of :meth:`project`, for losses that take hidden states and projection."""
        return self.decode(self.encode(source, source_lengths), inputs)


Decoding = AutoregressiveModel[Any, Any, Any]
"""Any autoregressive model."""


def state_of(memory: Memory, rows: int) -> Any:
    """The state before the first step for ``rows`` rows, a multiple of the number of sentences."""
    if rows == len(memory):
        return memory.state
    if len(memory) == 0 or rows % len(memory):
        raise ValueError(f"there are {rows} rows for {len(memory)} sentences; expected a multiple")
    sentences = torch.arange(len(memory), device=memory.device)
    return memory.state.select(sentences.repeat_interleave(rows // len(memory)))


def check_source(source: Tensor, lengths: Tensor) -> None:
    """Raise unless ``source`` is (B, S) ids and ``lengths`` are one per sentence, from 1 to S."""
    if source.dim() != 2 or source.is_floating_point():
        raise ValueError(f"source is {source.dtype} {tuple(source.shape)}; expected token ids (B, S)")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"source_lengths is {tuple(lengths.shape)}; expected one length per sentence ({len(source)},)")
    if len(source) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= source.shape[1]:
        raise ValueError(
            f"source_lengths is from {int(lengths.min())} to {int(lengths.max())}; expected 1 to {source.shape[1]}"
        )
