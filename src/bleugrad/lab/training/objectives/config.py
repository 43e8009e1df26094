"""Settings of the objectives, one class each; the modules beside this one compute them.

``name`` chooses the objective. Each class has the settings of its objective and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.config import Config, option, settings

OWN_TOKENS = ("greedy", "sample")
Method = Literal["bound", "exact", "clipped_mean"]
ALPHA = "minimum risk: sharpness of the distribution over candidates"
FEEDING = "decoder inputs: the reference; a mixture of reference and own tokens; its own greedy or sampled tokens"
GLANCING = "one-pass models: shown share of the reference, times the share of wrong tokens,"
LEVEL = "corpus pools the matches of the batch, sentence averages sentence scores"
SMOOTHING = "probability of the label that is spread over the vocabulary"
METHOD = "expected matches: exact, the paper's bound, or min(E[count], c) of the highest order only"


@dataclass(frozen=True)
class ObjectiveConfig(Config):
    """Base of all objectives. A one-pass model has no decoder that is fed tokens, and not all objectives."""

    name: str = option("", "objective")
    one_pass: ClassVar[tuple[str, ...]] = ()  # kinds of one-pass models that can be trained with it


@dataclass(frozen=True)
class Mixture(ObjectiveConfig):
    """Settings of decoders that are fed a mixture of the reference and their own tokens."""

    own_first: float = option(0.0, "mixture: share of own tokens in the first epoch", minimum=0, maximum=1)
    own_last: float = option(0.25, "mixture: share of own tokens in the last epoch", minimum=0, maximum=1)
    temperature: float = option(1.0, "temperature of the decoder's samples", above=0)


@dataclass(frozen=True)
class OwnLength(ObjectiveConfig):
    """Settings of decoders that choose their own tokens, and so their length."""

    length_factor: float = option(
        1.2, "own tokens: positions per token of the longest reference", minimum=1, maximum=1000
    )
    length_extra: int = option(3, "own tokens: additional positions", minimum=0)

    @property
    def own_tokens(self) -> bool:
        """Whether the decoder is fed its own tokens only."""
        return getattr(self, "feeding", "greedy") in OWN_TOKENS


@dataclass(frozen=True)
class Fed(OwnLength, Mixture):
    """Settings of decoders with any kind of inputs."""

    feeding: Literal["reference", "mixture", "greedy", "sample"] = option(
        "reference", FEEDING, removed=("gumbel", "fed_samples")
    )


@dataclass(frozen=True)
class BLEUScore(ObjectiveConfig):
    """Settings of objectives with a BLEU score."""

    max_order: int = option(4, "highest n-gram order", minimum=1, maximum=100)
    smoothing: float = option(1.0, "added to matches and totals of every order", minimum=0)
    cross_entropy_weight: float = option(0.0, "weight of the cross-entropy that is added", minimum=0)


@dataclass(frozen=True)
class ScoredRows(BLEUScore):
    """Settings of objectives that score the distribution at each position."""

    units: Literal["tokens", "words"] = option("tokens", "units of n-grams")
    end_positions: int = option(0, "extra positions after EOS, which show the cost of a wrong end", minimum=0)
    sharpness: float = option(1.0, "factor of the logits before the loss", above=0, maximum=1e6)


@dataclass(frozen=True)
class CrossEntropyConfig(Mixture):
    """Cross-entropy of the reference, the CTC loss, or the likelihood of all paths."""

    name: Literal["ce"] = option("ce", "ce: likelihood (cross-entropy, the CTC loss, or all paths of a graph)")
    label_smoothing: float = option(0.0, SMOOTHING, minimum=0, maximum=0.9)
    feeding: Literal["reference", "mixture"] = option("reference", FEEDING)
    glancing_first: float = option(0.0, f"{GLANCING} in the first epoch", minimum=0, maximum=1)
    glancing_last: float = option(0.0, f"{GLANCING} in the last epoch", minimum=0, maximum=1)
    one_pass = ("nat", "ctc", "graph")


@dataclass(frozen=True)
class ExpectedBase(ScoredRows):
    """Settings of expected BLEU of the rows of one sequence per sentence."""

    level: Literal["corpus", "sentence"] = option("corpus", LEVEL)
    likelihood_epochs: int = option(0, "first epochs with the likelihood alone, for training from scratch", minimum=0)
    adaptive: ClassVar[bool] = False


@dataclass(frozen=True)
class ExpectedConfig(ExpectedBase, Fed):
    """Expected BLEU: :class:`bleugrad.ExpectedBLEULoss` with its own defaults."""

    name: Method = option(
        "exact",
        "bound: the paper's; exact: exact expected BLEU; clipped_mean: min(E[count], c) of the highest order only",
    )
    length: Literal["given", "random"] = option(
        "given", "with reference feeding; given: EOS is a word to match; random: EOS ends the sentence"
    )
    one_pass = ("nat", "ctc", "graph")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.likelihood_epochs and self.own_tokens:
            raise UsageError(
                f"likelihood_epochs is {self.likelihood_epochs} with feeding {self.feeding!r}; expected 0, or feeding "
                "'reference' or 'mixture'"
            )

    @property
    def method(self) -> str:
        """How matches are expected."""
        return self.name

    @property
    def random_length(self) -> bool:
        """Whether EOS ends the sentence where it is likely."""
        return self.own_tokens or self.length == "random"


@dataclass(frozen=True)
class RecommendedConfig(ExpectedBase, OwnLength):
    """The recommended recipe, :meth:`bleugrad.ExpectedBLEULoss.recommended`; a test compares both.

    If the decoder is fed its own tokens, it has ``end_positions`` real positions after its end.
    """

    name: Literal["recommended"] = option(
        "recommended", "recommended: cross-entropy and exact expected BLEU, whose share rises with the model's quality"
    )
    cross_entropy_weight: float = option(1.0, "weight of the cross-entropy that is added", above=0)
    units: Literal["tokens", "words"] = option("words", "units of n-grams")
    end_positions: int = option(3, "words after an end that is not in time", minimum=0, removed=("half",))
    sharpness: float = option(2.0, "factor of the logits before the loss", above=0, maximum=1e6)
    method: ClassVar[str] = "exact"
    label_smoothing: float = option(0.0, SMOOTHING, minimum=0, maximum=0.9)
    feeding: Literal["reference", "greedy"] = option("reference", FEEDING)
    adaptive = True
    random_length: ClassVar[bool] = True
    one_pass = ("nat",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own_tokens and (self.level == "sentence" or self.likelihood_epochs):
            raise UsageError(
                f"level is {self.level!r} and likelihood_epochs is {self.likelihood_epochs} with feeding 'greedy'; "
                "expected 'corpus' and 0"
            )


@dataclass(frozen=True)
class SampledConfig(BLEUScore, Fed):
    """Settings of objectives of samples."""

    samples: int = option(4, "samples per sentence", minimum=1)


@dataclass(frozen=True)
class ReinforceConfig(SampledConfig):
    """REINFORCE."""

    name: Literal["reinforce"] = option("reinforce", "reinforce: REINFORCE")
    baseline: Literal["greedy", "leave-one-out", "none"] = option("leave-one-out", "baseline of the rewards")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline == "leave-one-out" and self.samples < 2:
            raise UsageError("samples is 1; expected 2 or more for the leave-one-out baseline")


@dataclass(frozen=True)
class MinimumRiskConfig(SampledConfig):
    """Minimum risk."""

    name: Literal["mrt"] = option("mrt", "mrt: minimum risk")
    samples: int = option(4, "samples per sentence", minimum=2)
    alpha: float = option(0.005, ALPHA, above=0)
    include_reference: bool = option(True, "the reference is a candidate; with reference feeding only")


@dataclass(frozen=True)
class UnbiasedConfig(SampledConfig):
    """Expected BLEU with an unbiased gradient."""

    name: Literal["unbiased"] = option("unbiased", "unbiased: unbiased gradient of expected BLEU")


@dataclass(frozen=True)
class CandidatesConfig(ScoredRows, OwnLength):
    """Candidates of a beam search, which the decoder is fed."""

    name: Literal["candidates"] = option("candidates", "candidates: exact expected BLEU of the candidates of a beam")
    candidates: int = option(5, "width of the beam search", minimum=1, maximum=100)
    candidate_loss: Literal["expected", "risk"] = option(
        "expected",
        "expected: exact expected BLEU of the rows of candidates; risk: minimum risk",
        removed=("ranking",),
    )
    candidate_alpha: float = option(1.0, "sharpness of the weights of candidates", minimum=0)
    alpha: float = option(0.005, ALPHA, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidate_loss != "expected" and (self.sharpness != 1 or self.end_positions or self.candidates < 2):
            raise UsageError(
                f"candidate_loss is {self.candidate_loss!r}, which scores whole candidates; expected sharpness 1, "
                "end_positions 0 and at least 2 candidates"
            )


@dataclass(frozen=True)
class SoftBeamConfig(ScoredRows, OwnLength):
    """A relaxed beam search: the decoder is fed mixtures."""

    name: Literal["soft_beam"] = option("soft_beam", "soft_beam: expected BLEU of the members of a relaxed beam search")
    method: Method = option("exact", METHOD)
    candidates: int = option(5, "width of the beam search", minimum=1, maximum=100)
    candidate_alpha: float = option(1.0, "sharpness of the weights of candidates", minimum=0)
    tau_first: float = option(1.0, "sharpness of its choices in the first epoch", above=0, maximum=1e6)
    tau_last: float = option(10.0, "sharpness of its choices in the last epoch", above=0, maximum=1e6)
    beam_tokens: int = option(32, "tokens of a member that it weighs, the most likely ones", minimum=1)
    beam_rows: Literal["model", "choices"] = option(
        "model", "distributions that are scored, those of the model or the soft choices"
    )
    input_gradient: bool = option(False, "gradient through the mixtures that the decoder is fed, too")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam_rows == "choices" and self.sharpness != 1:
            raise UsageError(
                f"sharpness is {self.sharpness} with beam_rows 'choices'; expected 1, because tau makes them sharp"
            )
        if self.beam_tokens < self.candidates:
            raise UsageError(
                f"beam_tokens is {self.beam_tokens}; expected at least candidates = {self.candidates}, the width"
            )


KINDS = (
    *(CrossEntropyConfig, ExpectedConfig, RecommendedConfig, CandidatesConfig, SoftBeamConfig),
    *(ReinforceConfig, MinimumRiskConfig, UnbiasedConfig),
)
OBJECTIVES: Mapping[str, type[ObjectiveConfig]] = MappingProxyType(
    {name: kind for kind in KINDS for name in settings(kind)[0].choices}
)
"""The settings of each objective by its name, the default first."""


LISTED = {"baseline", "alpha", "own_first"}
"""Options of three different objectives; only a table that lists the options of all objectives has all three."""
RECIPE = (
    *("level", "units", "cross_entropy_weight", "feeding", "length", "end_positions", "sharpness"),
    "label_smoothing",
)
"""Options that the recipe set, at their defaults, or did not have."""


def current(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table ``[objective]`` of an earlier version in current names; a current table is unchanged.

    Earlier, one table had the options of all objectives, and a saved run lists each of them. ``recommended``,
    ``feeding = "soft-beam"`` and ``input_gradient`` turned "exact" into objectives that have names now. ``fed_samples``
    was removed: such a table can be read, and training with it is refused.

    Example:
        >>> current({"name": "exact", "recommended": True, "max_order": 2})
        {'name': 'recommended', 'max_order': 2}
        >>> current({"name": "bound", "feeding": "soft-beam", "candidates": 3})
        {'name': 'soft_beam', 'candidates': 3, 'method': 'bound'}
    """
    values = dict(table)
    name, feeding = values.get("name", "ce"), values.get("feeding")
    if values.pop("recommended", False):
        values = {key: value for key, value in values.items() if key not in RECIPE} | {"name": "recommended"}
    elif feeding == "soft-beam":
        del values["feeding"]
        values |= {"name": "soft_beam", "method": name}
    elif name == "fed_samples" or (values.get("input_gradient") and feeding == "sample"):
        expected = values.get("method", "exact") if name == "fed_samples" else name
        values = {key: value for key, value in values.items() if key not in ("input_gradient", "method", "samples")}
        values |= {"name": expected, "feeding": "fed_samples"}
    if values.keys() >= LISTED and values.get("name") in OBJECTIVES:
        known = {field.name for kind in OBJECTIVES.values() for field in fields(kind)}
        others = known - {field.name for field in fields(OBJECTIVES[values["name"]])}
        values = {key: value for key, value in values.items() if key not in others}
    return values
