"""From settings to a model of their kind."""

from collections.abc import Mapping
from types import MappingProxyType

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.graph import GraphModel
from bleugrad.lab.models.lstm.model import AttentionLSTM
from bleugrad.lab.models.one_pass import FrameModel, RowModel
from bleugrad.lab.models.protocol import TranslationModel
from bleugrad.lab.models.translation_transformer import TranslationTransformer

KINDS: Mapping[str, type[TranslationModel]] = MappingProxyType(
    {
        "lstm": AttentionLSTM,
        "transformer": TranslationTransformer,
        "nat": RowModel,
        "ctc": FrameModel,
        "graph": GraphModel,
    }
)


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """A model with initial parameters, for vocabularies of these sizes."""
    return KINDS[config.kind](config, source_size, target_size)
