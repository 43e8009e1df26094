"""Metrics for evaluation loops, with states that sync over processes.

==================  ===================================================================================================
``ExpectedBLEU``    a ``torchmetrics`` metric: mean expected BLEU of sentences, with its certified interval
``TokenBLEU``       a ``torchmetrics`` metric: BLEU of token ids, equal to sacreBLEU's
``ExpectedScore``   a ``torchmetrics`` metric: expected ROUGE, GLEU or NIST of a corpus
``TokenScore``      a ``torchmetrics`` metric: ROUGE, GLEU or NIST of token ids, equal to those of rouge-score and nltk
``BLEUCallback``    the Lightning callback that computes both in validation and logs them
==================  ===================================================================================================

Names are resolved on first use, and a library that is missing is named with the command that installs it.
"""

from typing import TYPE_CHECKING

from bleugrad.extras import resolver

if TYPE_CHECKING:
    from bleugrad.metrics.expected import ExpectedBLEU as ExpectedBLEU
    from bleugrad.metrics.lightning import BLEUCallback as BLEUCallback
    from bleugrad.metrics.scores import ExpectedScore as ExpectedScore
    from bleugrad.metrics.scores import TokenScore as TokenScore
    from bleugrad.metrics.tokens import TokenBLEU as TokenBLEU

_HOMES = {
    "BLEUCallback": ("bleugrad.metrics.lightning", "lightning", ["lightning"]),
    "ExpectedBLEU": ("bleugrad.metrics.expected", "metrics", ["torchmetrics"]),
    "ExpectedScore": ("bleugrad.metrics.scores", "metrics", ["torchmetrics"]),
    "TokenBLEU": ("bleugrad.metrics.tokens", "metrics", ["torchmetrics"]),
    "TokenScore": ("bleugrad.metrics.scores", "metrics", ["torchmetrics"]),
}

__all__ = sorted(_HOMES)


__getattr__ = resolver("bleugrad.metrics", _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
