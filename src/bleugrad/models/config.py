"""Settings of the translation model; the defaults are those of the paper's IWSLT'14 runs."""

from dataclasses import dataclass

from bleugrad.configuration.stage import Stage, option


@dataclass(frozen=True)
class ModelConfig(Stage):
    """Sizes of encoder and decoder."""

    embedding: int = option(256, "width of the embeddings of source and target tokens", minimum=1)
    hidden: int = option(256, "units of the decoder, and of each direction of the encoder", minimum=1)
    encoder_layers: int = option(1, "bidirectional LSTM layers of the encoder", minimum=1)
    decoder_layers: int = option(1, "LSTM layers of the decoder", minimum=1)
    dropout: float = option(
        0.2, "dropout of embeddings, between layers and of the attentional vector", minimum=0, maximum=0.95
    )
    initial_range: float = option(0.1, "initial parameters are uniform between minus this and this", above=0)
