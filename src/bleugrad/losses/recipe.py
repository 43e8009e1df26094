"""The recommended recipe: cross-entropy and expected BLEU, whose share rises with the quality of the model.

:meth:`bleugrad.ExpectedBLEULoss.recommended`, :class:`bleugrad.hf.BLEULoss` and ``bleugrad tune`` use these values:

* ``LEVEL``: matches are pooled over the batch before the score is computed, so that a match has the same worth in every
  sentence. At sentence level it is worth more in sentences that are good already.
* ``END_POSITIONS``: the length is random. A hypothesis that ends too early loses matches and brevity; one that does not
  end in time has this many units more. If outputs are too short the gradient lowers EOS, if they are too long it raises
  EOS, for references of 3 to 35 tokens, in tokens and in words.
* ``SHARPNESS``: the loss scores sharper rows, so that the model need not become certain.
* ``MOST`` and ``HALF``: see :func:`bleu_share`. A weak model is trained by cross-entropy, at the usual learning rate.

``results/recipe`` compares the recipe with cross-entropy from models of several qualities.
"""

import math

import torch
from torch import Tensor

from bleugrad.distributed import Pool

__all__ = ["adaptive_share", "bleu_share"]

LEVEL = "corpus"
END_POSITIONS = 3
SHARPNESS = 2.0
MOST = 0.92
HALF = 0.04


def bleu_share(nll: Tensor) -> Tensor:
    """The share s of BLEU in ``(1 - s) CE + s (1 - BLEU)``, a function of the mean cross-entropy of the labels.

    ``s = MOST q^2 / (q^2 + HALF^2)`` with ``q = exp(-nll)``, the geometric mean of the probabilities of the labels. It
    rises smoothly from 0 for a model that knows nothing, to half of its limit at ``q = HALF``. It has no gradient.

    >>> bleu_share(torch.tensor([0.1, 1.0, 2.0, 4.0]))
    tensor([0.9182, 0.9093, 0.8461, 0.1595])
    """
    return MOST * torch.sigmoid(-2 * (nll.detach() + math.log(HALF)))


def adaptive_share(label_log_probs: Tensor, labelled: Tensor, level: str, pool: Pool | None) -> Tensor:
    """:func:`bleu_share` of each sentence (B,), or of the whole batch and all processes, a scalar."""
    dims, log_probs = None if level == "corpus" else 1, torch.where(labelled, label_log_probs.detach(), 0)
    total, number = log_probs.sum(dims), labelled.sum(dims)
    if pool is not None and level == "corpus":
        total, number = pool.sum(torch.stack([total, number.to(total.dtype)]))
    return bleu_share(-total / number.clamp(min=1))


def smoothed_log_probs(label_log_probs: Tensor, mean_log_probs: Tensor | None, smoothing: float) -> Tensor:
    """``(1 - e) log p[label] + e mean_v log p[v]`` with e = ``smoothing``, (B, T)."""
    if smoothing == 0:
        return label_log_probs
    if mean_log_probs is None:
        raise TypeError(f"label_smoothing is {smoothing}, but this kind of output does not support it; expected 0")
    return torch.add((1 - smoothing) * label_log_probs, mean_log_probs, alpha=smoothing)
