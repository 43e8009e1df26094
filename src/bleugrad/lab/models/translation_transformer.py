"""The Transformer for translation: encoder and decoder layers with normalisation first, and a cache in search."""

import math

from torch import Tensor, nn

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.dropout import Dropout, dropout_factors
from bleugrad.lab.models.one_pass import attention_mask
from bleugrad.lab.models.protocol import AutoregressiveModel, check_source, state_of
from bleugrad.lab.models.transformer import Layer, position_codes
from bleugrad.lab.models.transformer_decoder import DecoderLayer, KeyValueMemory, KeyValueState, LayerNoise


class TranslationTransformer(AutoregressiveModel[KeyValueMemory, KeyValueState, LayerNoise]):
    """Kind "transformer": source tokens to logits of target tokens.

    Positions are numbered by sines and cosines, added to embeddings times sqrt(H). In training mode dropout acts on
    these sums and on what each part of a layer adds. ``tied`` embeddings share their matrix with the output.

    Example:
        >>> import torch
        >>> config = ModelConfig("transformer", hidden=8, heads=2)
        >>> model = TranslationTransformer(config, source_size=30, target_size=40)
        >>> source = torch.tensor([[7, 9, 3], [5, 3, 0]])
        >>> model(source, torch.tensor([3, 2]), inputs=torch.tensor([[2, 11, 12, 13], [2, 17, 0, 0]])).shape
        torch.Size([2, 4, 40])
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        width, inner = config.hidden, max(1, round(config.inner_factor * config.hidden))
        self.source_embedding = nn.Embedding(source_size, width)
        self.target_embedding = nn.Embedding(target_size, width)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            Layer(width, config.heads, inner, config.dropout) for _ in range(config.encoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderLayer(width, config.heads, inner) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, target_size)
        self._initialise()

    def _initialise(self) -> None:
        """Xavier's ranges; embeddings of length 1 on average, so that they can be rows of the output matrix."""
        for parameter in (*self.encoder.parameters(), *self.decoder.parameters(), *self.output.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=self.config.hidden**-0.5)
        nn.init.zeros_(self.output.bias)
        if self.config.tied != "none":
            self.output.weight = self.target_embedding.weight
        if self.config.tied == "all":
            if self.source_size != self.target_size:
                found = f"source_size is {self.source_size} and target_size is {self.target_size}"
                raise ValueError(f"{found}; expected equal sizes with tied 'all'")
            self.source_embedding = self.target_embedding

    def encode(self, source: Tensor, source_lengths: Tensor) -> KeyValueMemory:
        """Encode sources, and compute the keys and values of all decoder layers."""
        check_source(source, source_lengths)
        mask = attention_mask(source_lengths.to(source.device), source.shape[1])
        states = self.dropout(self._numbered(self.source_embedding(source)))
        for layer in self.encoder:
            states = layer(states, mask)
        encoded = self.encoder_norm(states)
        keys, values = zip(*(layer.read(encoded) for layer in self._layers()), strict=True)
        return KeyValueMemory(keys, values, mask)

    def decode(self, memory: KeyValueMemory, inputs: Tensor, noise: LayerNoise | None = None) -> Tensor:
        """Hidden states (B, T, H), all positions at once."""
        rows, steps = inputs.shape
        noise = self.draw_noise(rows, steps) if noise is None else noise
        embedded = self.target_embedding(inputs)
        return self._after(memory, state_of(memory, rows), embedded, noise.until(0, steps))[0]

    def step(
        self,
        memory: KeyValueMemory,
        state: KeyValueState,
        tokens: Tensor,
        noise: LayerNoise | None = None,
        origins: Tensor | None = None,
    ) -> tuple[Tensor, KeyValueState]:
        """One step, which adds a position to the cache."""
        state = state if origins is None else state.select_with_room(origins)
        return self.step_embedded(memory, state, self.target_embedding(tokens), noise)

    def step_embedded(
        self, memory: KeyValueMemory, state: KeyValueState, embedded: Tensor, noise: LayerNoise | None = None
    ) -> tuple[Tensor, KeyValueState]:
        """:meth:`step` with the embedding (B, H) of the previous token, or of a mixture of tokens."""
        hidden, after = self._after(memory, state, embedded[:, None], noise or LayerNoise())
        return hidden[:, 0], after

    def draw_noise(self, rows: int, steps: int) -> LayerNoise:
        """Dropout for :meth:`decode` and :meth:`step`; none outside training mode."""
        if not self.training or self.config.dropout == 0:
            return LayerNoise()
        shape = (1 + DecoderLayer.PARTS * len(self.decoder), rows, steps, self.config.hidden)
        return LayerNoise(dropout_factors(shape, self.config.dropout, self.output.weight))

    def _after(
        self, memory: KeyValueMemory, state: KeyValueState, embedded: Tensor, noise: LayerNoise
    ) -> tuple[Tensor, KeyValueState]:
        """Hidden states (B, T, H) of the next T positions, and the state after them."""
        states = noise.drop(0, self._numbered(embedded, state.positions))
        known = []
        for number, layer in enumerate(self._layers()):
            pair = memory.keys[number], memory.values[number]
            place = 1 + DecoderLayer.PARTS * number
            states, cache = layer(states, state.layers[number], state.positions, pair, memory.mask, noise, place)
            known.append(cache)
        return self.decoder_norm(states), KeyValueState(tuple(known), state.positions + embedded.shape[1])

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    def _numbered(self, embedded: Tensor, first: int = 0) -> Tensor:
        """Embeddings (B, T, H) with the codes of the positions from ``first`` on."""
        codes = position_codes(first + embedded.shape[1], embedded)[first:]
        return embedded * math.sqrt(self.config.hidden) + codes
