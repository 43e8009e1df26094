"""One-pass models: Transformers that emit all positions at once, so that translating takes no search.

Rows are independent given the source, in training and in use. Expected matches are those of what the model emits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad import CTC
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.dropout import Dropout
from bleugrad.lab.models.protocol import TranslationModel, check_source
from bleugrad.lab.models.search.hypothesis import Hypothesis
from bleugrad.lab.models.search.largest import largest
from bleugrad.lab.models.search.prefixes import prefix_beam
from bleugrad.lab.models.transformer import Layer, position_codes
from bleugrad.lab.special_ids import BOS, EOS, PAD, UNK
from bleugrad.outputs import Output

CACHED = 2**18
"""Logits that are computed together: one megabyte of float32, which stays in the cache of a processor."""

SAMPLES, TEMPERATURE = 16, 0.5
"""Candidates of minimum Bayes risk decoding, and how they are drawn."""

BLANK = PAD
"""The blank of CTC: an id that no text contains."""


@dataclass(frozen=True)
class Encoded:
    """Encoded sources (B, S, H), their lengths (B,) on the same device, and the mask of :func:`attention_mask`."""

    states: Tensor
    lengths: Tensor
    mask: Tensor | None


def places(lengths: Tensor, longest: int) -> Tensor:
    """(B, longest) bool, True at the first ``lengths`` (B,) places of each row.

    Example:
        >>> places(torch.tensor([1, 2]), 2).tolist()
        [[True, False], [True, True]]
    """
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def attention_mask(lengths: Tensor, longest: int) -> Tensor | None:
    """(B, 1, 1, longest) bool, True at the places that attention may read; None, which is faster, for all."""
    mask = places(lengths, longest)
    return None if bool(mask.all()) else mask[:, None, None]


class OnePassModel(TranslationModel):
    """What one-pass models share: an encoder, and decoder layers over positions that come from the source."""

    reads = False  # whether decoder layers read the encoded source
    skip_penalty = 0.0  # subtracted from the logit of the symbol that makes translations shorter, in use
    skipping: ClassVar[int | None] = None  # this symbol
    penalty_unit = 0.5  # a usual step of the penalty
    further: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)  # steps beyond the penalty whose translations are candidates

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        width, inner = config.hidden, max(1, round(config.inner_factor * config.hidden))
        sizes = (width, config.heads, inner, config.dropout)
        self.source_embedding = nn.Embedding(source_size, width)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(Layer(*sizes) for _ in range(config.encoder_layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(Layer(*sizes, reads=self.reads) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, target_size)

    def forward(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, T, V), and the number of positions of each sentence (B,)."""
        hidden, lengths = self.decode(self.encode(source, source_lengths))
        return self.project(hidden), lengths

    def encode(self, source: Tensor, source_lengths: Tensor) -> Encoded:
        """Encode sources (B, S), padded on the right with any id; ``source_lengths`` (B,) are at least 1."""
        check_source(source, source_lengths)
        lengths = source_lengths.to(source.device)
        mask = attention_mask(lengths, source.shape[1])
        embedded = self.source_embedding(source)
        states = self.dropout(embedded + position_codes(source.shape[1], embedded))
        for layer in self.encoder:
            states = layer(states, mask)
        return Encoded(self.encoder_norm(states), lengths, mask)

    def decode(self, encoded: Encoded, shown: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hidden states (B, T, H) of all positions, and the number of positions of each sentence (B,).

        ``shown`` (B, T) are symbols that positions start from, negative at those that start from the source.
        """
        states, lengths = self.positions(encoded)
        if shown is not None:
            symbols = F.embedding(shown.clamp(min=0), self.output.weight) * math.sqrt(self.config.hidden)
            states = torch.where((shown >= 0)[..., None], symbols.to(states.dtype), states)
        states = self.dropout(states + position_codes(states.shape[1], states))
        mask = attention_mask(lengths, states.shape[1])
        for layer in self.decoder:
            states = layer(states, mask, encoded.states, encoded.mask)
        return self.decoder_norm(states), lengths

    def positions(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The decoder's input (B, T, H), and the number of positions of each sentence (B,)."""
        raise NotImplementedError

    def tokens(self, best: list[int]) -> tuple[list[int], int]:
        """The translation in the best symbol of each position, and the number of positions it was made from."""
        raise NotImplementedError

    @torch.inference_mode()
    def translate(
        self, source: Tensor, source_lengths: Tensor, maximum: Tensor, forbid_unk: bool = False
    ) -> list[Hypothesis]:
        """The most likely symbol at each position, in one pass, as a translation of at most ``maximum`` (B,) tokens.

        The log-probability is that of these symbols, up to EOS, of all frames, or with those of a path's transitions.
        The score is its mean over them.
        """
        hidden, lengths = self.evaluated(source, source_lengths)
        found = self.read(hidden, lengths, self.never(forbid_unk), self.skip_penalty)
        return [
            Hypothesis(tokens[:most], log_prob, log_prob / max(used, 1))
            for (tokens, log_prob, used), most in zip(found, maximum.tolist(), strict=True)
        ]

    def read(
        self, hidden: Tensor, lengths: Tensor, never: list[int], penalty: float
    ) -> Iterator[tuple[list[int], float, int]]:
        """The translation of each sentence, its log-probability, and the number of positions it was made from."""
        log_probs, best = self.best_symbols(hidden[places(lengths, hidden.shape[1])], never, penalty)
        numbers = lengths.tolist()
        for symbols, values in zip(best.split(numbers), log_probs.split(numbers), strict=True):
            tokens, used = self.tokens(symbols.tolist())
            yield tokens, sum(values[:used].tolist()), used

    def best_symbols(self, rows: Tensor, never: list[int], penalty: float = 0.0) -> tuple[Tensor, Tensor]:
        """The highest log-probability at each of the hidden states (N, H), and its symbol; (N,) each."""
        chunks = rows.split(max(1, CACHED // self.target_size))
        parts = [largest_symbols(self.penalised(self.project(some), penalty), never) for some in chunks]
        log_probs, best = (torch.cat(part) for part in zip(*parts, strict=True))
        return log_probs, best

    def penalised(self, logits: Tensor, penalty: float) -> Tensor:
        """The logits with the penalty of the skipping symbol, in place."""
        if penalty and self.skipping is not None:
            logits[..., self.skipping] -= penalty
        return logits

    def distribution(self, hidden: Tensor, lengths: Tensor, never: list[int]) -> tuple[Tensor | Output, Tensor | None]:
        """The output that is decoded, and a mask of its positions if EOS ends it."""
        raise NotImplementedError

    def allowed(self, hidden: Tensor, never: list[int]) -> Tensor:
        """Logits (B, T, V) in float32 or finer, with the penalty, and -inf for symbols that are never chosen."""
        logits = self.penalised(self.project(hidden), self.skip_penalty)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logits[..., never] = -torch.inf
        return logits

    def several(self, output: Any, lengths: Tensor) -> list[list[list[int]]]:
        """``SAMPLES`` translations of each sentence, drawn from the :meth:`distribution`."""
        probs = (getattr(output, "logits", output) / TEMPERATURE).softmax(-1)
        symbols = torch.multinomial(probs.flatten(0, 1), SAMPLES, replacement=True).unflatten(0, probs.shape[:2])
        rows = zip(symbols.mT.tolist(), lengths.tolist(), strict=True)
        return [[self.tokens(row[:length])[0] for row in several] for several, length in rows]

    def evaluated(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states and lengths of :meth:`decode`, without dropout in any mode."""
        training = self.training
        if training:  # a walk over all modules takes as long as a layer
            self.eval()
        found = self.decode(self.encode(source, source_lengths))
        if training:
            self.train()
        return found

    def never(self, forbid_unk: bool) -> list[int]:
        """The symbols that are never chosen."""
        return [BOS, UNK] if forbid_unk else [BOS]


class RowModel(OnePassModel):
    """Kind "nat": one token per position, and EOS ends the sentence.

    A source of S tokens has ``ceil(position_factor * S) + position_extra`` positions. Position t starts from the
    encoded source token ``t / position_factor``, and the decoder layers read the whole source.

    Example:
        >>> import torch
        >>> model = RowModel(ModelConfig("nat", hidden=8, heads=2), source_size=30, target_size=40)
        >>> logits, positions = model(torch.tensor([[7, 9, 3], [5, 3, 0]]), torch.tensor([3, 2]))
        >>> logits.shape, positions
        (torch.Size([2, 7, 40]), tensor([7, 6]))
    """

    reads = True
    skipping = EOS

    def distribution(self, hidden: Tensor, lengths: Tensor, never: list[int]) -> tuple[Tensor, Tensor]:
        """Rows, of which EOS ends the sentence."""
        return self.allowed(hidden, never), places(lengths, hidden.shape[1])

    def positions(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The encoded token at the same place of the source, or the last one."""
        config = self.config
        lengths = (encoded.lengths * config.position_factor).ceil().long() + config.position_extra
        longest = int(lengths.max()) if len(lengths) else 1
        place = (torch.arange(longest, device=lengths.device) / config.position_factor).long()
        place = torch.minimum(place, encoded.lengths[:, None] - 1)
        return encoded.states.gather(1, place[..., None].expand(-1, -1, encoded.states.shape[-1])), lengths

    def tokens(self, best: list[int]) -> tuple[list[int], int]:
        """The tokens before the first EOS."""
        end = best.index(EOS) if EOS in best else len(best)
        return best[:end], min(end + 1, len(best))

    def never(self, forbid_unk: bool) -> list[int]:
        """Never PAD, BOS, and UNK if it is forbidden."""
        return [PAD, *super().never(forbid_unk)]


class UpsampledModel(OnePassModel):
    """Each source token has ``copies`` positions side by side, each a projection of its own of the encoded token."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int, copies: int) -> None:
        super().__init__(config, source_size, target_size)
        self.copies = copies
        self.upsample = nn.Linear(config.hidden, copies * config.hidden)

    def positions(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The positions of each encoded token, side by side."""
        apart = self.upsample(encoded.states).unflatten(-1, (self.copies, -1))
        return apart.flatten(1, 2), encoded.lengths * self.copies


class FrameModel(UpsampledModel):
    """Kind "ctc": ``upsampling`` frames per source token, each a token or blank; see :func:`collapsed`.

    The id of blank is that of padding.

    Example:
        >>> import torch
        >>> model = FrameModel(ModelConfig("ctc", hidden=8, heads=2), source_size=30, target_size=40)
        >>> logits, frames = model(torch.tensor([[7, 9, 3], [5, 3, 0]]), torch.tensor([3, 2]))
        >>> logits.shape, frames
        (torch.Size([2, 9, 40]), tensor([9, 6]))
    """

    skipping = BLANK

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size, config.upsampling)

    def distribution(self, hidden: Tensor, lengths: Tensor, never: list[int]) -> tuple[CTC, None]:
        """Frames."""
        return CTC(self.allowed(hidden, never), blank_id=BLANK, lengths=lengths), None

    def tokens(self, best: list[int]) -> tuple[list[int], int]:
        """The collapsed frames."""
        return collapsed(best), len(best)

    @torch.inference_mode()
    def beam(
        self, source: Tensor, source_lengths: Tensor, maximum: Tensor, width: int, n_best: int, forbid_unk: bool = False
    ) -> list[list[Hypothesis]]:
        """The ``n_best`` translations of :func:`prefix_beam`; the score is the log-probability per frame."""
        hidden, lengths = self.evaluated(source, source_lengths)
        log_probs = symbol_log_probs(self.penalised(self.project(hidden), self.skip_penalty), self.never(forbid_unk))
        found = []
        for rows, length, longest in zip(log_probs, lengths.tolist(), maximum.tolist(), strict=True):
            best = prefix_beam(rows[:length], BLANK, width, longest)[:n_best]
            found.append([Hypothesis(list(prefix), log_prob, log_prob / length) for prefix, log_prob in best])
        return found

    def never(self, forbid_unk: bool) -> list[int]:
        """Never EOS, BOS, and UNK if it is forbidden."""
        return [EOS, *super().never(forbid_unk)]


def symbol_log_probs(logits: Tensor, never: list[int]) -> Tensor:
    """Log-probabilities of the symbols, in float32 or finer, -inf for those that are ``never`` chosen."""
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    log_probs[..., never] = -torch.inf
    return log_probs


def largest_symbols(logits: Tensor, never: list[int]) -> tuple[Tensor, Tensor]:
    """The highest log-probability of each row of logits (N, V), and its symbol, (N,) each."""
    log_probs, symbols = largest(symbol_log_probs(logits, never), 1)
    return log_probs[:, 0], symbols[:, 0]


def collapsed(frames: list[int]) -> list[int]:
    """The output of CTC frames: equal neighbours are merged, then blanks removed.

    Example:
        >>> collapsed([5, 5, 0, 5, 7, 7, 0])
        [5, 5, 7]
    """
    return [token for token, _ in groupby(frames) if token != BLANK]
