"""The recommended recipe: how the end of a sentence is weighed, and how much cross-entropy the loss contains."""

import torch
from torch import Tensor

from bleugrad.pooling import Pool

LEVEL = "sentence"
END_POSITIONS = "half"
SHARPNESS = 1.5
MOST = 4.0
HALF = 0.15


def bleu_weight(nll: Tensor) -> Tensor:
    """The weight w of BLEU in ``CE + w (1 - BLEU)``, a function of the mean cross-entropy of the labels.

    ``w = MOST q^2 / (q^2 + HALF^2)`` with ``q = exp(-nll)``, the geometric mean of the probabilities of the labels. It
    rises smoothly with q, from 0 for a model that knows nothing. It has no gradient.

    Example:
        >>> import torch
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


def smoothed_log_probs(label_log_probs: Tensor, margins: Tensor, label_smoothing: float) -> Tensor:
    """``(1 - e) log p[label] + e mean_v log p[v]``, from the margins of :meth:`bleugrad.outputs.output.Output`."""
    return label_log_probs - label_smoothing * margins
