"""Each loss as a function: the module with these options, called once.

``expected_bleu_loss(logits, labels, level="sentence")`` equals
``ExpectedBLEULoss(level="sentence")(logits, labels)``. Random numbers of the sampled losses come from ``generator``; a
seed gives the same samples in every call.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from bleugrad.losses.base import LossBase
from bleugrad.losses.candidates import CandidateBLEULoss
from bleugrad.losses.expected import ExpectedBLEULoss
from bleugrad.losses.minimum_risk import MinimumRiskLoss
from bleugrad.losses.reinforce import ReinforceLoss
from bleugrad.losses.unbiased import UnbiasedBLEULoss
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists


def _functional(name: str, module: type[LossBase]) -> Callable[..., Tensor]:
    def function(
        logits: Tensor | Output,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        loss: Tensor = module(**options)(logits, labels, references=references, mask=mask)
        return loss

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f""":class:`bleugrad.{module.__name__}` as a function of logits and labels, with its options by name."""
    )
    return function


expected_bleu_loss = _functional("expected_bleu_loss", ExpectedBLEULoss)
reinforce_loss = _functional("reinforce_loss", ReinforceLoss)
minimum_risk_loss = _functional("minimum_risk_loss", MinimumRiskLoss)
unbiased_bleu_loss = _functional("unbiased_bleu_loss", UnbiasedBLEULoss)


def candidate_bleu_loss(
    logits: Tensor | Output,
    candidates: Tensor,
    references: Tensor | IdLists,
    *,
    mask: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """:class:`bleugrad.CandidateBLEULoss` as a function, with its options by name."""
    loss: Tensor = CandidateBLEULoss(**options)(logits, candidates, references, mask=mask)
    return loss
