"""Settings of a training run; ``experiments/paper/protocols.py`` has those of the paper."""

from dataclasses import dataclass, fields, replace
from typing import Literal

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.settings.stage import RunStage, Stage, option, stage

EXPECTED = ("bound", "exact", "clipped_mean")
SCORED_ROWS = (*EXPECTED, "candidates")
"""Objectives that score the distribution at each position."""
SAMPLED = ("reinforce", "mrt", "unbiased")
RECIPE = frozenset({"level", "units", "cross_entropy_weight", "feeding", "length", "end_positions", "sharpness"})
"""Options of the objective that the recommended recipe sets."""
OWN_TOKENS = ("greedy", "sample", "gumbel")
SOFT_BEAM = "soft-beam"


@dataclass(frozen=True)
class ObjectiveConfig(Stage):
    """The training objective, and the inputs of the decoder."""

    name: Literal["ce", "bound", "exact", "clipped_mean", "candidates", "reinforce", "mrt", "unbiased"] = option(
        "ce",
        "ce: likelihood (cross-entropy, or the CTC loss); bound: the paper's; exact: exact expected BLEU; "
        "clipped_mean: min(E[count], c) of the highest order only; candidates: exact expected BLEU of the candidates "
        "of a beam; reinforce: REINFORCE; mrt: minimum risk; unbiased: unbiased gradient of expected BLEU",
    )
    level: Literal["corpus", "sentence"] = option(
        "corpus",
        "bound and exact: corpus pools the matches of the batch, sentence averages sentence scores (beams: always)",
    )
    max_order: int = option(4, "highest n-gram order", minimum=1, maximum=100)
    smoothing: float = option(1.0, "added to matches and totals of every order", minimum=0)
    units: Literal["tokens", "words"] = option("tokens", "bound and exact: units of n-grams")
    label_smoothing: float = option(
        0.0, "ce: probability of the label that is spread over the vocabulary", minimum=0, maximum=0.9
    )
    cross_entropy_weight: float = option(0.0, "weight of the cross-entropy in other objectives", minimum=0)
    likelihood_epochs: int = option(
        0, "bound, exact and clipped_mean: first epochs with the likelihood alone, for training from scratch", minimum=0
    )
    samples: int = option(4, "reinforce, mrt, unbiased and input_gradient: samples per sentence", minimum=1)
    baseline: Literal["greedy", "leave-one-out", "none"] = option("leave-one-out", "reinforce: baseline of the rewards")
    alpha: float = option(0.005, "mrt: sharpness of the distribution over candidates", above=0)
    candidates: int = option(5, "candidates and soft-beam: width of the beam search", minimum=1, maximum=100)
    candidate_loss: Literal["expected", "risk", "ranking"] = option(
        "expected", "candidates: expected is the exact expected BLEU of their rows; risk and ranking are baselines"
    )
    candidate_alpha: float = option(1.0, "candidates and soft-beam: sharpness of their weights", minimum=0)
    include_reference: bool = option(True, "mrt: the reference is a candidate; with reference feeding only")
    feeding: Literal["reference", "greedy", "sample", "mixture", "gumbel", "soft-beam"] = option(
        "reference",
        "decoder inputs: the reference; its own greedy or sampled tokens; a mixture of reference and own tokens; "
        "straight-through Gumbel samples; the mixtures of a relaxed beam search",
    )
    input_gradient: bool = option(
        False, "bound and exact with feeding sample or soft-beam: gradient through what the decoder is fed, too"
    )
    tau_first: float = option(1.0, "soft-beam: sharpness of its choices in the first epoch", above=0, maximum=1e6)
    tau_last: float = option(10.0, "soft-beam: sharpness of its choices in the last epoch", above=0, maximum=1e6)
    beam_tokens: int = option(32, "soft-beam: tokens of a member that it weighs, the most likely ones", minimum=1)
    beam_rows: Literal["model", "choices"] = option(
        "model", "soft-beam: distributions that are scored, those of the model or the soft choices"
    )
    length: Literal["given", "random"] = option(
        "given", "bound and exact with reference feeding; given: EOS is a word to match; random: EOS ends the sentence"
    )
    end_positions: int = option(
        0, "bound and exact: extra positions after EOS, which show the cost of a wrong end", minimum=0
    )
    sharpness: float = option(1.0, "bound and exact: factor of the logits before the loss", above=0, maximum=1e6)
    recommended: bool = option(
        False, "exact: the recommended recipe, which sets level, units, length, end, sharpness and cross-entropy"
    )
    own_first: float = option(0.0, "mixture: share of own tokens in the first epoch", minimum=0, maximum=1)
    own_last: float = option(0.25, "mixture: share of own tokens in the last epoch", minimum=0, maximum=1)
    temperature: float = option(1.0, "temperature of the decoder's samples and of Gumbel", above=0)
    length_factor: float = option(
        1.2, "own tokens: positions per token of the longest reference", minimum=1, maximum=1000
    )
    length_extra: int = option(3, "own tokens: additional positions", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == "ce" and self.feeding in OWN_TOKENS:
            raise UsageError(
                f"feeding is {self.feeding!r}, and cross-entropy needs the reference's tokens at their positions; "
                "expected 'reference' or 'mixture' with 'ce'"
            )
        if self.units == "words" and self.name in SAMPLED:
            raise UsageError(f"units is 'words', which bound and exact can count; expected 'tokens' with {self.name!r}")
        if self.name == "reinforce" and self.baseline == "leave-one-out" and self.samples < 2:
            raise UsageError("samples is 1; expected 2 or more for the leave-one-out baseline")
        if self.candidate_loss != "expected" and (self.sharpness != 1 or self.end_positions or self.candidates < 2):
            raise UsageError(
                f"candidate_loss is {self.candidate_loss!r}, which scores whole candidates; expected sharpness 1, "
                "end_positions 0 and at least 2 candidates"
            )
        if self.feeding == SOFT_BEAM:
            self._check_soft_beam()
        fed = self.feeding in ("sample", SOFT_BEAM) and self.temperature == 1
        if self.input_gradient and (self.name not in EXPECTED or not fed):
            raise UsageError(
                f"input_gradient is true with {self.name!r}, feeding {self.feeding!r} and temperature "
                f"{self.temperature}; expected {' or '.join(EXPECTED)}, 'sample' or 'soft-beam', and 1"
            )
        if self.name == "candidates" and self.feeding != "reference":
            raise UsageError(f"feeding is {self.feeding!r} with 'candidates', which are fed; expected 'reference'")
        if self.end_positions and (self.name not in SCORED_ROWS or self.feeding == "gumbel"):
            raise UsageError(
                f"end_positions is {self.end_positions} with {self.name!r} and feeding {self.feeding!r}; expected 0, "
                "or bound or exact with any feeding but 'gumbel'"
            )
        if self.sharpness != 1 and self.name not in SCORED_ROWS:
            raise UsageError(f"sharpness is {self.sharpness} with {self.name!r}; expected 1, or bound or exact")
        if self.likelihood_epochs and (self.name not in EXPECTED or self.feeding in OWN_TOKENS):
            raise UsageError(
                f"likelihood_epochs is {self.likelihood_epochs} with {self.name!r} and feeding {self.feeding!r}; "
                f"expected 0, or {' or '.join(EXPECTED)} with feeding 'reference' or 'mixture'"
            )
        if self.length == "random" and self.name not in EXPECTED:
            raise UsageError(f"length is 'random' with {self.name!r}; expected 'given', or bound or exact")
        if self.recommended:
            self._check_recipe()
        if self.name == "mrt" and self.samples < 2:
            raise UsageError("samples is 1; expected 2 or more for mrt")

    def _check_soft_beam(self) -> None:
        if self.name not in EXPECTED or self.likelihood_epochs:
            raise UsageError(
                f"feeding is 'soft-beam' with {self.name!r} and likelihood_epochs {self.likelihood_epochs}; expected "
                f"{' or '.join(EXPECTED)}, and 0"
            )
        if self.beam_rows == "choices" and self.sharpness != 1:
            raise UsageError(
                f"sharpness is {self.sharpness} with beam_rows 'choices'; expected 1, because tau makes them sharp"
            )
        if self.beam_tokens < self.candidates:
            raise UsageError(
                f"beam_tokens is {self.beam_tokens}; expected at least candidates = {self.candidates}, the width"
            )

    def _check_recipe(self) -> None:
        options = [each for each in fields(self) if each.name in RECIPE]
        changed = [
            f"{one.name} {getattr(self, one.name)!r}" for one in options if getattr(self, one.name) != one.default
        ]
        if self.name != "exact" or changed:
            found = changed[0] if changed else f"objective {self.name!r}"
            raise UsageError(f"recommended is true with {found}; expected 'exact', and no option that the recipe sets")


@dataclass(frozen=True)
class OptimizerConfig(Stage):
    """Adam, its learning rate schedule, validation and early stopping."""

    learning_rate: float = option(1e-3, "learning rate of Adam; with a warm-up, its highest value", above=0)
    epochs: int = option(20, "largest number of passes over the training data", minimum=1)
    clip: float = option(5.0, "largest norm of the gradient; 0: no clipping", minimum=0)
    weight_decay: float = option(0.0, "decoupled weight decay of matrices (AdamW); 0: Adam", minimum=0, maximum=1)
    beta2: float = option(0.999, "Adam's decay of squared gradients", above=0, maximum=0.999999)
    warmup: int = option(0, "steps in which the learning rate rises from 0", minimum=0)
    decay: Literal["plateau", "step", "inverse_sqrt", "cosine", "none"] = option(
        "plateau",
        "when the learning rate falls; plateau: validation BLEU stops rising; step: every few validations; "
        "inverse_sqrt: with the root of the step; cosine: to 0 after the last epoch; none: never",
    )
    decay_factor: float = option(0.5, "plateau and step: factor of the learning rate at a decay", above=0, maximum=1)
    patience: int = option(
        2, "validations before a decay: those without a better BLEU (plateau), or all (step)", minimum=1
    )
    validate_every: int = option(0, "steps between validations; 0: after each epoch", minimum=0)
    average: int = option(
        1, "validate and keep the mean of the weights at this many last validations", minimum=1, maximum=100
    )
    early_stopping: int = option(
        0, "stop after this many validations without a better validation BLEU; 0: never", minimum=0
    )
    accumulation: int = option(1, "batches per optimizer step", minimum=1)
    precision: Literal["32", "bf16"] = option(
        "32", "32: float32; bf16: bfloat16 where it is safe and the device supports it"
    )


@dataclass(frozen=True)
class EvaluationConfig(Stage):
    """How translations are made and scored."""

    batch_size: int = option(128, "sentences translated at once", minimum=1)
    tokenize: Literal["none", "13a", "intl", "char"] = option(
        "none", "tokenizer of sacreBLEU; none suits tokenised text, and becomes 13a with --data-raw"
    )
    validation_beam: int = option(1, "beam width that validation uses to choose weights", minimum=1, maximum=1000)
    length_penalty: float = option(1.0, "beam search divides log-probabilities by length to this power", minimum=0)
    maximum_factor: float = option(2.0, "longest translation: tokens per source token", above=0, maximum=1000)
    maximum_extra: int = option(10, "longest translation: additional tokens", minimum=1)
    forbid_unknown: bool = option(True, "never generate the unknown token")


@dataclass(frozen=True)
class TrainingStage(RunStage):
    """Settings that a training run and a protocol of training runs share."""

    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute; auto uses a GPU if there is one")
    threads: int = option(1, "CPU threads per process; 0: torch's default", minimum=0, maximum=1024)
    checkpoint_every: int = option(1000, "steps between checkpoints in an epoch; 0: only at its end", minimum=0)
    data: DataConfig = stage(DataConfig, "corpus and batches")
    model: ModelConfig = stage(ModelConfig, "encoder and decoder")
    evaluation: EvaluationConfig = stage(EvaluationConfig, "translation and scores")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.one_pass and self.evaluation.validation_beam > 1:
            found = f"evaluation.validation_beam is {self.evaluation.validation_beam}"
            raise UsageError(f"{found} with model.kind {self.model.kind!r}, which needs no search; expected 1")
        if self.data.raw and self.evaluation.tokenize == "none":  # scores of ordinary text split punctuation off
            object.__setattr__(self, "evaluation", replace(self.evaluation, tokenize="13a"))
        if self.model.tied == "all" and not self.data.joint:
            raise UsageError("model.tied is 'all' with two vocabularies; expected data.joint, one for both languages")


@dataclass(frozen=True)
class TrainConfig(TrainingStage):
    """A whole training run."""

    record_every: int = option(50, "steps between records of loss and gradient norm", minimum=1)
    tensorboard: bool = option(False, "also write curves for TensorBoard")
    wandb: bool = option(False, "also send curves to Weights & Biases")
    optimizer: OptimizerConfig = stage(OptimizerConfig, "optimizer")
    objective: ObjectiveConfig = stage(ObjectiveConfig, "objective")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.one_pass:
            _check_one_pass(self.model.kind, self.objective)
        if self.objective.label_smoothing and self.model.kind == "ctc":
            raise UsageError("objective.label_smoothing is given with model.kind 'ctc'; expected 0 with the CTC loss")


def _check_one_pass(kind: str, objective: ObjectiveConfig) -> None:
    """Raise where the objective needs a decoder that is fed tokens."""
    model = f"with model.kind {kind!r}, which is fed no tokens"
    listed = ", ".join(map(repr, ("ce", *EXPECTED)))
    if objective.name in (*SAMPLED, "candidates"):
        raise UsageError(f"objective.name is {objective.name!r} {model}; expected one of {listed}")
    for name, usual in (("feeding", "reference"), ("length", "given"), ("end_positions", 0), ("recommended", False)):
        found = getattr(objective, name)
        if found != usual:
            raise UsageError(f"objective.{name} is {found!r} {model}; expected {usual!r}, its default")
    if kind == "ctc" and objective.name == "bound":
        raise UsageError("objective.name is 'bound' with model.kind 'ctc'; expected 'exact', which is known for frames")
    if kind == "ctc" and objective.units == "words":
        raise UsageError("objective.units is 'words' with model.kind 'ctc'; expected 'tokens', which it can count")
