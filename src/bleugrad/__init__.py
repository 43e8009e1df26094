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
    from bleugrad.core.matrix_bleu import bleu
    from bleugrad.core.score import BLEUResult, ExpectedBLEUResult
    from bleugrad.losses.expected import ExpectedBLEULoss

__version__ = "0.1.0"

_HOMES = {
    "BLEUResult": "bleugrad.core.score",
    "ExpectedBLEULoss": "bleugrad.losses.expected",
    "ExpectedBLEUResult": "bleugrad.core.score",
    "bleu": "bleugrad.core.matrix_bleu",
    "expected_bleu": "bleugrad.core.expected_bleu",
}

__all__ = ["BLEUResult", "ExpectedBLEULoss", "ExpectedBLEUResult", "__version__", "bleu", "expected_bleu"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bleugrad' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
