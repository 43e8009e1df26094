"""The paper's translation model: bidirectional LSTM encoder, LSTM decoder with attention and input feeding."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.models.config import ModelConfig
from bleugrad.models.decoder import Decoder
from bleugrad.models.encoder import Encoder
from bleugrad.models.noise import Noise, StepNoise
from bleugrad.models.state import DecoderState, Memory

ALIGNED = 16
"""Logits in 64 bytes."""


class AttentionLSTM(nn.Module):
    """Source tokens to logits of target tokens.

    Dropout acts in training mode only: on embeddings, between layers and on the attentional vector, which is fed back
    and projected as it was dropped. All parameters start uniform in ``-initial_range .. initial_range``.

    Args:
        config: the sizes.
        source_size: tokens of the source vocabulary.
        target_size: tokens of the target vocabulary, V.

    Example:
        >>> import torch
        >>> from bleugrad.models.config import ModelConfig
        >>> model = AttentionLSTM(ModelConfig(embedding=8, hidden=16), source_size=30, target_size=40)
        >>> source = torch.tensor([[7, 9, 3], [5, 3, 0]])
        >>> model(source, torch.tensor([3, 2]), inputs=torch.tensor([[2, 11, 12, 13], [2, 17, 0, 0]])).shape
        torch.Size([2, 4, 40])
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self.source_embedding = nn.Embedding(source_size, config.embedding)
        self.target_embedding = nn.Embedding(target_size, config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config.embedding, config.hidden, config.encoder_layers, config.dropout)
        self.decoder = Decoder(config.embedding, config.hidden, config.decoder_layers, 2 * config.hidden)
        self.output = nn.Linear(config.hidden, target_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.initial_range, config.initial_range)

    def encode(self, source: Tensor, source_lengths: Tensor) -> Memory:
        """What the decoder reads of the sources.

        Args:
            source: (B, S) ids, padded on the right with any id. B may be 0: all results then have no rows, and
                gradients are 0.
            source_lengths: (B,) tokens of each sentence, at least 1.
        """
        _check_source(source, source_lengths)
        if len(source) == 0:
            alone = self.encode(source.new_zeros(1, 1), source_lengths.new_ones(1))
            return alone.select(torch.empty(0, dtype=torch.long, device=source.device))
        lengths = source_lengths.cpu()
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        encoded, cells = self.encoder(self.dropout(self.source_embedding(source)), lengths)
        return self.decoder.read(encoded, cells, mask.to(source.device))

    def forward(self, source: Tensor, source_lengths: Tensor, inputs: Tensor) -> Tensor:
        """Logits (B, T, V) of the token that follows each of ``inputs`` (B, T), by teacher forcing."""
        return self.project(self.hidden_states(source, source_lengths, inputs))

    def hidden_states(self, source: Tensor, source_lengths: Tensor, inputs: Tensor) -> Tensor:
        """(B, T, H), what :meth:`project` reads: for losses that take hidden states and the projection apart."""
        return self.decode(self.encode(source, source_lengths), inputs)

    def decode(self, memory: Memory, inputs: Tensor, noise: Noise | None = None) -> Tensor:
        """Hidden states (B, T, H) of a decoder that is given ``inputs`` (B, T): BOS, then the token at each position.

        Args:
            memory: the encoded sources; B may be a multiple of their number, the rows of a sentence side by side.
            inputs: (B, T) ids.
            noise: of dropout over at least T steps; None draws it, in training mode.
        """
        rows, steps = inputs.shape
        noise = self.draw_noise(rows, steps) if noise is None else noise
        embedded = self.target_embedding(inputs.t())
        if noise.tokens is not None:
            embedded = embedded * noise.tokens[:steps]
        token_gates = self.decoder.token_gates(embedded)
        state = memory.state_of(rows)
        hidden = []
        for t in range(steps):
            state = self.decoder.step(memory, state, token_gates[t], noise.at(t).layers)
            hidden.append(state.attentional)
        return torch.stack(hidden, 1) if hidden else token_gates.new_zeros(rows, 0, self.config.hidden)

    def step(
        self,
        memory: Memory,
        state: DecoderState,
        tokens: Tensor,
        noise: StepNoise | None = None,
        origins: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """One step of decoding, without dropout unless its noise is given.

        Args:
            memory: of n sentences.
            state: of B rows, a multiple of n: the hypotheses of a sentence side by side.
            tokens: (B,), the token before.
            noise: of dropout.
            origins: (B,), the row of the state that each row goes on from, when that is not its own; the state may then
                have any number of rows, and each is computed with once.

        Returns:
            (B, H) for :meth:`project`, and the state after.
        """
        if noise is not None and noise.tokens is not None:
            return self.step_embedded(memory, state, self.target_embedding(tokens), noise)
        distinct, places = tokens.unique(return_inverse=True)
        gates = self.decoder.token_gates(self.target_embedding(distinct)).index_select(0, places)
        after = self.decoder.step(memory, state, gates, origins=origins)
        return after.attentional, after

    def step_embedded(
        self, memory: Memory, state: DecoderState, embedded: Tensor, noise: StepNoise | None = None
    ) -> tuple[Tensor, DecoderState]:
        """:meth:`step` with the embedding (B, E) of the token before, which may be a mixture of tokens."""
        noise = noise or StepNoise()
        if noise.tokens is not None:
            embedded = embedded * noise.tokens
        after = self.decoder.step(memory, state, self.decoder.token_gates(embedded), noise.layers)
        return after.attentional, after

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., H)."""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def projection(self) -> Callable[[Tensor], Tensor]:
        """:meth:`project` for many calls without a gradient while the parameters stay as they are.

        Rows of logits are filled up to a multiple of ``ALIGNED`` with tokens of probability 0: products into rows
        of odd length are up to half as slow again on a CPU.
        """
        spare = -self.target_size % ALIGNED
        weight = F.pad(self.output.weight.detach(), (0, 0, 0, spare))
        bias = F.pad(self.output.bias.detach(), (0, spare), value=-torch.inf)
        return lambda hidden: F.linear(hidden, weight, bias)

    def draw_noise(self, rows: int, steps: int) -> Noise:
        """Dropout of the decoder for :meth:`decode` and :meth:`step`: none outside training mode."""
        config = self.config
        dropout = config.dropout if self.training else 0.0
        sizes = (steps, rows, config.embedding, config.decoder_layers, config.hidden)
        return Noise.draw(dropout, *sizes, like=self.output.weight)


def _check_source(source: Tensor, lengths: Tensor) -> None:
    if source.dim() != 2 or source.is_floating_point():
        raise ValueError(f"source is {source.dtype} {tuple(source.shape)}; expected token ids (B, S)")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"source_lengths is {tuple(lengths.shape)}; expected one length a sentence ({len(source)},)")
    if len(source) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= source.shape[1]:
        raise ValueError(
            f"source_lengths is from {int(lengths.min())} to {int(lengths.max())}; expected 1 to {source.shape[1]}"
        )
