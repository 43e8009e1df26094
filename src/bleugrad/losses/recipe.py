"""The recommended recipe: cross-entropy plus expected BLEU whose weight rises with the quality of the model.

:meth:`bleugrad.ExpectedBLEULoss.recommended`, :class:`bleugrad.hf.BLEULoss` and ``bleugrad tune`` use these values:

* ``LEVEL``: matches are pooled over the batch before the score is computed, so that a match has the same worth in every
  sentence. At sentence level it is worth more in sentences that are good already.
* ``END_POSITIONS``: the length is random. A hypothesis that ends too early loses matches and brevity; one that does not
  end in time has this many units more. If outputs are too short the gradient lowers EOS, if they are too long it raises
  EOS, for references of 3 to 35 tokens, in tokens and in words.
* ``SHARPNESS``: the loss scores sharper rows, so that the model need not become certain.
* ``MOST`` and ``HALF``: see :func:`bleu_weight`. A weak model is trained by cross-entropy, at the usual learning rate.

``results/recipe`` compares the recipe with cross-entropy from models of several qualities.
"""

import torch
from torch import Tensor

from bleugrad.distributed import Pool

__all__ = ["adaptive_weight", "bleu_weight"]

LEVEL = "corpus"
END_POSITIONS = 3
SHARPNESS = 2.0
MOST = 12.0
HALF = 0.15


def bleu_weight(nll: Tensor) -> Tensor:
    """The weight w of BLEU in ``CE + w (1 - BLEU)``, a function of the mean cross-entropy of the labels.

    ``w = MOST q^2 / (q^2 + HALF^2)`` with ``q = exp(-nll)``, the geometric mean of the probabilities of the labels. It
    rises smoothly from 0 for a model that knows nothing, to half of its limit at ``q = HALF``. It has no gradient, is
    bounded, and finite for infinite ``nll``.

    >>> bleu_weight(torch.tensor([0.1, 1.0, 2.0, 4.0]))
    tensor([3.8930, 3.4298, 1.7950, 0.0588])
    """
    squared = (-2 * nll.detach()).exp()
    return MOST * squared / (squared + HALF**2)


def adaptive_weight(label_log_probs: Tensor, labelled: Tensor, level: str, pool: Pool | None) -> Tensor:
    """:func:`bleu_weight` of each sentence (B,), or of the whole batch and all processes, a scalar.

    A weight that depends on the sentence alone does not depend on micro-batches, processes and batch-mates.
    """
    nll = torch.where(labelled, -label_log_probs.detach(), 0)
    sums = torch.stack([nll.sum(1), labelled.sum(1).to(nll.dtype)])
    if level == "corpus":
        sums = sums.sum(1) if pool is None else pool.sum(sums.sum(1))
    return bleu_weight(sums[0] / sums[1].clamp(min=1))


def smoothed_log_probs(label_log_probs: Tensor, mean_log_probs: Tensor | None, smoothing: float) -> Tensor:
    """``(1 - e) log p[label] + e mean_v log p[v]`` with e = ``smoothing``, (B, T)."""
    if smoothing == 0:
        return label_log_probs
    if mean_log_probs is None:
        raise TypeError(f"label_smoothing is {smoothing}, but this kind of output does not support it; expected 0")
    return (1 - smoothing) * label_log_probs + smoothing * mean_log_probs
