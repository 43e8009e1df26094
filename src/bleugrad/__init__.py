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

Data flows one way: ``output -> match probabilities -> window probabilities -> expected matches -> score -> loss``.
Masks are True where a position counts. BLEU lies in 0..1.

Names are resolved on first use, so that ``import bleugrad`` costs nothing before one of them is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bleugrad.consensus import MBRResult, mbr
    from bleugrad.expectation import Expectation, expected_bleu, expected_score
    from bleugrad.explanation.explain import explain
    from bleugrad.lab.training.system import load
    from bleugrad.losses.candidates import CandidateBLEULoss
    from bleugrad.losses.expected import ExpectedBLEULoss, ExpectedScoreLoss
    from bleugrad.losses.minimum_risk import MinimumRiskLoss
    from bleugrad.losses.reinforce import ReinforceLoss
    from bleugrad.losses.unbiased import UnbiasedBLEULoss
    from bleugrad.outputs.ctc import CTC
    from bleugrad.outputs.graph import Graph
    from bleugrad.outputs.rows import Projection
    from bleugrad.scores.bleu import BLEU
    from bleugrad.scores.gleu import GLEU
    from bleugrad.scores.nist import NIST
    from bleugrad.scores.results import BLEUResult, ExpectedBLEUResult, ExpectedScoreResult
    from bleugrad.scores.rouge import ROUGE, ROUGEL
    from bleugrad.scores.token_score import bleu, token_rewards, token_score
    from bleugrad.tokenizers import word_start_mask

__version__ = "0.1.0"

_HOMES = {
    "BLEU": "bleugrad.scores.bleu",
    "BLEUResult": "bleugrad.scores.results",
    "CTC": "bleugrad.outputs.ctc",
    "CandidateBLEULoss": "bleugrad.losses.candidates",
    "Expectation": "bleugrad.expectation",
    "ExpectedBLEULoss": "bleugrad.losses.expected",
    "ExpectedBLEUResult": "bleugrad.scores.results",
    "ExpectedScoreLoss": "bleugrad.losses.expected",
    "ExpectedScoreResult": "bleugrad.scores.results",
    "GLEU": "bleugrad.scores.gleu",
    "Graph": "bleugrad.outputs.graph",
    "MBRResult": "bleugrad.consensus",
    "MinimumRiskLoss": "bleugrad.losses.minimum_risk",
    "NIST": "bleugrad.scores.nist",
    "Projection": "bleugrad.outputs.rows",
    "ROUGE": "bleugrad.scores.rouge",
    "ROUGEL": "bleugrad.scores.rouge",
    "ReinforceLoss": "bleugrad.losses.reinforce",
    "UnbiasedBLEULoss": "bleugrad.losses.unbiased",
    "bleu": "bleugrad.scores.token_score",
    "expected_bleu": "bleugrad.expectation",
    "expected_score": "bleugrad.expectation",
    "explain": "bleugrad.explanation.explain",
    "load": "bleugrad.lab.training.system",
    "mbr": "bleugrad.consensus",
    "token_rewards": "bleugrad.scores.token_score",
    "token_score": "bleugrad.scores.token_score",
    "word_start_mask": "bleugrad.tokenizers",
}

__all__ = [
    "BLEU",
    "CTC",
    "GLEU",
    "NIST",
    "ROUGE",
    "ROUGEL",
    "BLEUResult",
    "CandidateBLEULoss",
    "Expectation",
    "ExpectedBLEULoss",
    "ExpectedBLEUResult",
    "ExpectedScoreLoss",
    "ExpectedScoreResult",
    "Graph",
    "MBRResult",
    "MinimumRiskLoss",
    "Projection",
    "ReinforceLoss",
    "UnbiasedBLEULoss",
    "__version__",
    "bleu",
    "expected_bleu",
    "expected_score",
    "explain",
    "load",
    "mbr",
    "token_rewards",
    "token_score",
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
