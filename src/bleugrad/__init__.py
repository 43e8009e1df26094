"""Train sequence models directly on BLEU, without sampling.

Dimensions, everywhere in this package:

========  ==========================================================
``B``     sentences in the batch
``T``     positions of the hypothesis
``R``     positions of a reference
``K``     references of a sentence
``L``     columns of a sentence's references laid end to end, K * R
``V``     vocabulary
``N``     highest n-gram order (``max_order``)
========  ==========================================================

Data flows one way: ``logits -> match probabilities -> window probabilities -> expected matches -> BLEU -> loss``.
Masks are True where a position counts. BLEU lies in 0..1.

Names are resolved on first use, so that ``import bleugrad`` costs nothing before one of them is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bleugrad.core.expected_bleu import expected_bleu
    from bleugrad.core.linear_expected_bleu import linear_expected_bleu
    from bleugrad.core.matrix_bleu import bleu
    from bleugrad.core.score import BLEUResult, ExpectedBLEUResult
    from bleugrad.explanation.explain import explain
    from bleugrad.explanation.page import explanation_page
    from bleugrad.explanation.result import Explanation
    from bleugrad.losses.expected import ExpectedBLEULoss
    from bleugrad.losses.linear import LinearExpectedBLEULoss
    from bleugrad.losses.minimum_risk import MinimumRiskLoss
    from bleugrad.losses.reinforce import ReinforceLoss
    from bleugrad.losses.unbiased import UnbiasedBLEULoss
    from bleugrad.tokenizers import word_start_mask
    from bleugrad.training.system import load

__version__ = "0.1.0"

_HOMES = {
    "BLEUResult": "bleugrad.core.score",
    "ExpectedBLEULoss": "bleugrad.losses.expected",
    "ExpectedBLEUResult": "bleugrad.core.score",
    "Explanation": "bleugrad.explanation.result",
    "LinearExpectedBLEULoss": "bleugrad.losses.linear",
    "MinimumRiskLoss": "bleugrad.losses.minimum_risk",
    "ReinforceLoss": "bleugrad.losses.reinforce",
    "UnbiasedBLEULoss": "bleugrad.losses.unbiased",
    "bleu": "bleugrad.core.matrix_bleu",
    "expected_bleu": "bleugrad.core.expected_bleu",
    "explain": "bleugrad.explanation.explain",
    "explanation_page": "bleugrad.explanation.page",
    "linear_expected_bleu": "bleugrad.core.linear_expected_bleu",
    "load": "bleugrad.training.system",
    "word_start_mask": "bleugrad.tokenizers",
}

__all__ = [
    "BLEUResult",
    "ExpectedBLEULoss",
    "ExpectedBLEUResult",
    "Explanation",
    "LinearExpectedBLEULoss",
    "MinimumRiskLoss",
    "ReinforceLoss",
    "UnbiasedBLEULoss",
    "__version__",
    "bleu",
    "expected_bleu",
    "explain",
    "explanation_page",
    "linear_expected_bleu",
    "load",
    "word_start_mask",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bleugrad' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
