"""Settings of the translation model; the defaults are those of the paper's IWSLT'14 runs."""

from dataclasses import dataclass
from typing import Literal

from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.config import Config, option

ONE_PASS = ("nat", "ctc", "graph")
"""Kinds that emit all positions at once."""


@dataclass(frozen=True)
class ModelConfig(Config):
    """Kind of model, and sizes of encoder and decoder."""

    kind: Literal["lstm", "transformer", "nat", "ctc", "graph"] = option(
        "lstm",
        "lstm: the paper's model; transformer: token by token like it; nat: Transformer, all tokens at once, ended by "
        "EOS; ctc: the same with CTC; graph: the same along a path of a graph (DA-Transformer)",
    )
    embedding: int = option(256, "lstm: width of the embeddings of source and target tokens", minimum=1)
    hidden: int = option(256, "units of the decoder, and of each direction of the LSTM encoder", minimum=1)
    encoder_layers: int = option(1, "layers of the encoder", minimum=1)
    decoder_layers: int = option(1, "layers of the decoder", minimum=1)
    dropout: float = option(0.2, "dropout of embeddings, between layers and after them", minimum=0, maximum=0.95)
    initial_range: float = option(0.1, "lstm: initial parameters are uniform between minus this and this", above=0)
    heads: int = option(4, "all but lstm: attention heads; a divisor of hidden", minimum=1)
    inner_factor: float = option(2.0, "all but lstm: units of the feed-forward parts per hidden unit", above=0)
    tied: Literal["none", "output", "all"] = option(
        "none",
        "transformer: one matrix for target embeddings and output, or for source embeddings too (joint vocabulary)",
    )
    position_factor: float = option(1.0, "nat: positions per source token", above=0, maximum=1000)
    position_extra: int = option(4, "nat: additional positions", minimum=1)
    upsampling: int = option(3, "ctc: frames per source token", minimum=1, maximum=1000)
    vertices: int = option(3, "graph: vertices per source token", minimum=1, maximum=1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "lstm" and self.hidden % self.heads:
            raise UsageError(f"heads is {self.heads}; expected a divisor of hidden = {self.hidden}")
        if self.tied != "none" and self.kind != "transformer":
            raise UsageError(f"tied is {self.tied!r} with kind {self.kind!r}; expected 'none', or kind 'transformer'")

    @property
    def one_pass(self) -> bool:
        """Whether the model emits all positions at once."""
        return self.kind in ONE_PASS
