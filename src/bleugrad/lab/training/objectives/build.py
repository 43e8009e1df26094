"""From settings and a model to its objective."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Optional

from torch import Tensor

from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.graph import GraphModel
from bleugrad.lab.models.one_pass import FrameModel, RowModel
from bleugrad.lab.models.protocol import AutoregressiveModel, TranslationModel
from bleugrad.lab.settings.config import values
from bleugrad.lab.training.objectives import config as settings
from bleugrad.lab.training.objectives.base import FedObjective, Objective
from bleugrad.lab.training.objectives.beams import Candidates, SoftBeam
from bleugrad.lab.training.objectives.one_pass import Frames, Positions, Vertices
from bleugrad.lab.training.objectives.rows import CrossEntropy, ExpectedBLEU, RecommendedOwnTokens
from bleugrad.lab.training.objectives.samples import SampledSequences, SampledTokens

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

AUTOREGRESSIVE: Mapping[type[settings.ObjectiveConfig], type[FedObjective]] = MappingProxyType(
    {
        settings.CrossEntropyConfig: CrossEntropy,
        settings.ExpectedConfig: ExpectedBLEU,
        settings.RecommendedConfig: ExpectedBLEU,
        settings.ReinforceConfig: SampledTokens,
        settings.MinimumRiskConfig: SampledTokens,
        settings.UnbiasedConfig: SampledTokens,
        settings.CandidatesConfig: Candidates,
        settings.SoftBeamConfig: SoftBeam,
    }
)


def build_objective(
    model: TranslationModel,
    config: settings.ObjectiveConfig,
    group: Optional["ProcessGroup"] = None,
    word_start: Tensor | None = None,
) -> Objective:
    """The objective of the settings.

    ``group`` shares each batch. ``word_start`` (V,) marks tokens that open a word, for ``units = "words"``; None if
    each token is a word.
    """
    for path, setting, value in values(config):
        if value in setting.field.metadata["removed"]:
            expected = " or ".join(map(repr, setting.choices)) or "a number"
            raise UsageError(f"objective.{path[0]} is {value!r}, which was removed; expected {expected}")
    word_start = word_start if isinstance(config, settings.ScoredRows) and config.units == "words" else None
    kind: type[Objective]
    if isinstance(model, RowModel):
        kind = Positions
    elif isinstance(model, FrameModel):
        kind = Frames
    elif isinstance(model, GraphModel):
        kind = Vertices
    elif not isinstance(model, AutoregressiveModel):
        raise TypeError(f"model is a {type(model).__name__}, which has no objective")
    elif isinstance(config, settings.ReinforceConfig | settings.MinimumRiskConfig) and config.feeding == "sample":
        kind = SampledSequences
    elif isinstance(config, settings.RecommendedConfig) and config.own_tokens:
        kind = RecommendedOwnTokens
    else:
        kind = AUTOREGRESSIVE[type(config)]
    return kind(model, config, group, word_start)
