"""The paper's translation model: bidirectional LSTM encoder, LSTM decoder with attention and input feeding."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.lstm.decoder import LSTMDecoder, LSTMMemory, LSTMNoise, LSTMState
from bleugrad.lab.models.protocol import AutoregressiveModel, check_source, state_of


class LSTMEncoder(nn.Module):
    """Bidirectional LSTM layers, with ``hidden`` units per direction and dropout between layers.

    The outputs of a sentence do not depend on its padding or on the other sentences.
    """

    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (B, S, width) with B >= 1 and lengths (B,) >= 1 on the CPU.

        Returns (B, S, 2H), the outputs of the top layer, 0 at padding, and (B, 2H), its last cells.
        """
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        device = embedded.device.type
        lower = torch.is_autocast_enabled(device) and (device != "cpu" or bfloat16_lstm_works())
        with torch.autocast(device, enabled=lower):
            outputs, (_, cells) = self.lstm(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
        return padded, torch.cat([cells[-2], cells[-1]], -1)


@cache
def bfloat16_lstm_works() -> bool:
    """Whether LSTM layers can train in bfloat16 on this CPU. If not, the encoder uses float32 under autocast."""
    with torch.random.fork_rng(devices=[]):
        lstm = nn.LSTM(1, 1, bidirectional=True)
    packed = pack_padded_sequence(torch.zeros(1, 1, 1), torch.ones(1, dtype=torch.long))
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.enable_grad():
            lstm(packed)[0].data.sum().backward()
    except RuntimeError:
        return False
    return True


class AttentionLSTM(AutoregressiveModel[LSTMMemory, LSTMState, LSTMNoise]):
    """Source tokens to logits of target tokens.

    In training mode dropout acts on embeddings, between layers and on the attentional vector, before that is fed back
    and projected. Initial parameters are uniform in ``-initial_range .. initial_range``. ``source_size`` and
    ``target_size`` (V) are the sizes of the vocabularies.

    Example:
        >>> import torch
        >>> from bleugrad.lab.models.config import ModelConfig
        >>> model = AttentionLSTM(ModelConfig(embedding=8, hidden=16), source_size=30, target_size=40)
        >>> source = torch.tensor([[7, 9, 3], [5, 3, 0]])
        >>> model(source, torch.tensor([3, 2]), inputs=torch.tensor([[2, 11, 12, 13], [2, 17, 0, 0]])).shape
        torch.Size([2, 4, 40])
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.source_embedding = nn.Embedding(source_size, config.embedding)
        self.target_embedding = nn.Embedding(target_size, config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = LSTMEncoder(config.embedding, config.hidden, config.encoder_layers, config.dropout)
        self.decoder = LSTMDecoder(config.embedding, config.hidden, config.decoder_layers, 2 * config.hidden)
        self.output = nn.Linear(config.hidden, target_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.initial_range, config.initial_range)

    def encode(self, source: Tensor, source_lengths: Tensor) -> LSTMMemory:
        """Encode sources for the decoder."""
        check_source(source, source_lengths)
        if len(source) == 0:
            one = self.encode(source.new_zeros(1, 1), source_lengths.new_ones(1))
            return one.select(torch.empty(0, dtype=torch.long, device=source.device))
        lengths = source_lengths.cpu()
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        encoded, cells = self.encoder(self.dropout(self.source_embedding(source)), lengths)
        return self.decoder.read(encoded, cells, mask.to(source.device))

    def decode(self, memory: LSTMMemory, inputs: Tensor, noise: LSTMNoise | None = None) -> Tensor:
        """Hidden states (B, T, H), one step after the other."""
        rows, steps = inputs.shape
        noise = self.draw_noise(rows, steps) if noise is None else noise
        embedded = self.target_embedding(inputs.t())
        if noise.tokens is not None:
            embedded = embedded * noise.tokens[:steps]
        token_gates = self.decoder.token_gates(embedded)
        state = state_of(memory, rows)
        hidden = []
        for t in range(steps):
            state = self.decoder.step(memory, state, token_gates[t], noise.at(t).layers)
            hidden.append(state.attentional)
        return torch.stack(hidden, 1) if hidden else token_gates.new_zeros(rows, 0, self.config.hidden)

    def step(
        self,
        memory: LSTMMemory,
        state: LSTMState,
        tokens: Tensor,
        noise: LSTMNoise | None = None,
        origins: Tensor | None = None,
    ) -> tuple[Tensor, LSTMState]:
        """One step; each distinct token, and each row of the state that is continued, is processed once."""
        if noise is not None and noise.tokens is not None:
            return self.step_embedded(memory, state, self.target_embedding(tokens), noise)
        distinct, places = tokens.unique(return_inverse=True)
        gates = self.decoder.token_gates(self.target_embedding(distinct)).index_select(0, places)
        if origins is not None:
            kept, origins = origins.unique(return_inverse=True)
            state = state.select(kept)
        after = self.decoder.step(memory, state, gates, origins=origins)
        return after.attentional, after

    def step_embedded(
        self, memory: LSTMMemory, state: LSTMState, embedded: Tensor, noise: LSTMNoise | None = None
    ) -> tuple[Tensor, LSTMState]:
        """:meth:`step` with the embedding (B, E) of the previous token, or of a mixture of tokens."""
        noise = noise or LSTMNoise()
        if noise.tokens is not None:
            embedded = embedded * noise.tokens
        after = self.decoder.step(memory, state, self.decoder.token_gates(embedded), noise.layers)
        return after.attentional, after

    def draw_noise(self, rows: int, steps: int) -> LSTMNoise:
        """Dropout for :meth:`decode` and :meth:`step`; none outside training mode."""
        config, like = self.config, self.output.weight
        if not self.training or config.dropout == 0:
            return LSTMNoise()
        kept = 1 - config.dropout
        shapes = (steps, rows, config.embedding), (steps, config.decoder_layers, rows, config.hidden)
        return LSTMNoise(*(like.new_empty(shape).bernoulli_(kept).div_(kept) for shape in shapes))
