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

from typing import TYPE_CHECKING

from bleugrad.extras import resolver

if TYPE_CHECKING:
    from bleugrad.consensus import MBRResult as MBRResult
    from bleugrad.consensus import mbr as mbr
    from bleugrad.expectation import Expectation as Expectation
    from bleugrad.expectation import expected_bleu as expected_bleu
    from bleugrad.expectation import expected_score as expected_score
    from bleugrad.explanation.explain import explain as explain
    from bleugrad.lab.training.system import load as load
    from bleugrad.losses.candidates import CandidateBLEULoss as CandidateBLEULoss
    from bleugrad.losses.expected import ExpectedBLEULoss as ExpectedBLEULoss
    from bleugrad.losses.expected import ExpectedScoreLoss as ExpectedScoreLoss
    from bleugrad.losses.minimum_risk import MinimumRiskLoss as MinimumRiskLoss
    from bleugrad.losses.reinforce import ReinforceLoss as ReinforceLoss
    from bleugrad.losses.unbiased import UnbiasedBLEULoss as UnbiasedBLEULoss
    from bleugrad.outputs.ctc import CTC as CTC
    from bleugrad.outputs.graph import Graph as Graph
    from bleugrad.outputs.rows import Projection as Projection
    from bleugrad.scores.bleu import BLEU as BLEU
    from bleugrad.scores.gleu import GLEU as GLEU
    from bleugrad.scores.nist import NIST as NIST
    from bleugrad.scores.results import BLEUResult as BLEUResult
    from bleugrad.scores.results import ExpectedBLEUResult as ExpectedBLEUResult
    from bleugrad.scores.results import ExpectedScoreResult as ExpectedScoreResult
    from bleugrad.scores.rouge import ROUGE as ROUGE
    from bleugrad.scores.rouge import ROUGEL as ROUGEL
    from bleugrad.scores.token_score import bleu as bleu
    from bleugrad.scores.token_score import token_rewards as token_rewards
    from bleugrad.scores.token_score import token_score as token_score
    from bleugrad.tokenizers import word_start_mask as word_start_mask

__version__ = "0.1.0"

_HOMES = {
    "BLEU": "scores.bleu",
    "BLEUResult": "scores.results",
    "CTC": "outputs.ctc",
    "CandidateBLEULoss": "losses.candidates",
    "Expectation": "expectation",
    "ExpectedBLEULoss": "losses.expected",
    "ExpectedBLEUResult": "scores.results",
    "ExpectedScoreLoss": "losses.expected",
    "ExpectedScoreResult": "scores.results",
    "GLEU": "scores.gleu",
    "Graph": "outputs.graph",
    "MBRResult": "consensus",
    "MinimumRiskLoss": "losses.minimum_risk",
    "NIST": "scores.nist",
    "Projection": "outputs.rows",
    "ROUGE": "scores.rouge",
    "ROUGEL": "scores.rouge",
    "ReinforceLoss": "losses.reinforce",
    "UnbiasedBLEULoss": "losses.unbiased",
    "bleu": "scores.token_score",
    "expected_bleu": "expectation",
    "expected_score": "expectation",
    "explain": "explanation.explain",
    "load": "lab.training.system",
    "mbr": "consensus",
    "token_rewards": "scores.token_score",
    "token_score": "scores.token_score",
    "word_start_mask": "tokenizers",
}

__all__ = ["__version__", *_HOMES]

__getattr__, __dir__ = resolver("bleugrad", {name: (f"bleugrad.{home}", "", ()) for name, home in _HOMES.items()})
