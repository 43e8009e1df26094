"""The way from a model's output to expected statistics and the score made of them: the one entrance to the core."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from bleugrad.arguments import LEVELS, METHODS, check_choice, check_int, check_nonnegative
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.pooling import Pool
from bleugrad.references.sequences import IdLists
from bleugrad.references.targets import Targets, prepare_targets
from bleugrad.scores.score import Score

S = TypeVar("S", bound=Score)


@dataclass(frozen=True)
class Expectation(Generic[S]):
    """What is expected, and how: checked options.

    Attributes:
        score: what is made of the statistics.
        method: "exact", "bound" for the paper's bound of the matches, or "clipped_mean" for min(E[count], c).
        level: "corpus" pools the statistics of the batch before the score, "sentence" scores each sentence.
        eos_id: makes the length random: the hypothesis is the tokens before the first EOS.
        ignore_index: the padding id of labels and references.
        sharpness: scores distributions proportional to p ^ sharpness; cross-entropy stays that of the model.
        end_positions: with ``eos_id``, positions after the last one that counts, with tokens that match nothing. A
            hypothesis that does not end there has this many tokens more. "half": half as many as its reference.
    """

    score: S
    method: str = "exact"
    level: str = "corpus"
    eos_id: int | None = None
    ignore_index: int = -100
    sharpness: float = 1.0
    end_positions: int | str = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("level", self.level, LEVELS)
        check_int("ignore_index", self.ignore_index)
        if self.eos_id is not None:
            check_int("eos_id", self.eos_id)
        if check_nonnegative("sharpness", self.sharpness) == 0:
            raise ValueError("sharpness is 0; expected a number above 0 (1 leaves the distributions as they are)")
        number = 1 if self.end_positions == "half" else check_int("end_positions", self.end_positions)
        if number < 0:
            raise ValueError(f"end_positions is {self.end_positions}; expected 0 or more, or 'half'")
        if number and self.eos_id is None:
            raise ValueError(f"end_positions is {self.end_positions} without eos_id; expected the id of EOS as eos_id")


def expected_statistics(
    logits: Tensor | Output,
    expectation: Expectation[S],
    labels: Tensor | None = None,
    references: Tensor | IdLists | None = None,
    mask: Tensor | None = None,
    word_start: Tensor | None = None,
    label_log_probs: bool = False,
    leave_out: bool = True,
) -> tuple[ExpectedStatistics, Targets]:
    """The expected statistics of an output, and the targets they are of; outside autocast."""
    output = as_output(logits)
    if expectation.sharpness != 1:
        output = output.sharpened(expectation.sharpness)
    device = output.device
    with torch.autocast(device.type, enabled=False):
        targets = prepare_targets(
            output.shape,
            device,
            labels,
            references,
            mask,
            eos_id=expectation.eos_id,
            ignore_index=expectation.ignore_index,
            word_start=word_start,
            max_order=expectation.score.max_order,
            leave_out=leave_out,
            end_positions=expectation.end_positions,
            aligned=output.aligned,
            lengths=output.lengths,
            of=output.name,
        )
        return output.statistics(targets, expectation.method, label_log_probs), targets


def expected_score(
    logits: Tensor | Output,
    expectation: Expectation[S],
    pool: Pool | None = None,
    labels: Tensor | None = None,
    references: Tensor | IdLists | None = None,
    mask: Tensor | None = None,
    word_start: Tensor | None = None,
    label_log_probs: bool = False,
) -> tuple[Tensor, ExpectedStatistics, Targets]:
    """The score of an output against labels or references, with its statistics and targets."""
    statistics, targets = expected_statistics(
        logits, expectation, labels, references, mask, word_start, label_log_probs
    )
    with torch.autocast(statistics.matches.device.type, enabled=False):
        return expectation.score.value(statistics, expectation.level, pool), statistics, targets
