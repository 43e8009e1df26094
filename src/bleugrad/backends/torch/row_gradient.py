"""The gradient of rows of logits: a softmax times one number per row, plus a few single tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS


class RowGradient(NamedTuple):
    """p[t, v] * (scale_t + opening_scale_t * word_start_v), plus ``pull`` at the ids and ``own`` at the targets.

    ``pull`` (..., T, L) is the gradient of the gathered log-probabilities, ``own`` (..., T, J) that of the targets'.
    Rows without a softmax (NaN among their logits) pass the checks only if they do not count. They are ``broken``
    (..., T), and their gradient is 0.
    """

    scale: Tensor
    opening_scale: Tensor | None
    pull: Tensor
    own: Tensor | None
    broken: Tensor

    @classmethod
    def of(cls, grads: tuple[Tensor | None, ...], matched: Tensor, opening: Tensor) -> "RowGradient":
        """From the gradients of match and target log-probabilities and word openings, None or empty if unused."""
        grad_matched, grad_log_probs, grad_opening = (None if g is None or not g.numel() else g for g in grads)
        pull = torch.zeros_like(matched) if grad_matched is None else grad_matched * matched
        total = pull.sum(-1)
        if grad_log_probs is not None:
            total = total + grad_log_probs.sum(-1)
        if grad_opening is not None:
            total = torch.addcmul(total, grad_opening, opening)
        broken = total.isnan()
        if pull.shape[-1] == 0:  # NaN shows nowhere else: clear every row that no gradient reaches
            unused = total == 0
            if grad_log_probs is not None:
                unused = unused & (grad_log_probs == 0).all(-1)
            broken = broken | unused
        return cls(-total, grad_opening, pull, grad_log_probs, broken)

    def times(self, factor: Tensor) -> "RowGradient":
        """The scales multiplied by one number per row."""
        opened = None if self.opening_scale is None else self.opening_scale * factor
        return self._replace(scale=self.scale * factor, opening_scale=opened)

    def factors(self, rows: tuple[int, slice] | slice, word_start: Tensor | None) -> Tensor:
        """scale_t + opening_scale_t * word_start_v for some rows: (rows, V), or (rows, 1) where it is the same."""
        scale = self.scale[rows][:, None]
        if self.opening_scale is None or word_start is None:
            return scale
        starts = word_start.to(scale.dtype)[None]
        return torch.addmm(scale.expand(-1, starts.shape[1]), self.opening_scale[rows][:, None], starts)

    def flat(self) -> "RowGradient":
        """The scales of all rows on one axis, (B T,)."""
        opened = None if self.opening_scale is None else self.opening_scale.reshape(-1)
        return self._replace(scale=self.scale.reshape(-1), opening_scale=opened)

    def add_sparse(self, grad: Tensor, ids: Tensor, targets: Tensor | None) -> None:
        """Add the single tokens, and clear the broken rows: (..., T, V) in place."""
        grad.scatter_add_(-1, ids.unsqueeze(-2).expand_as(self.pull), self.pull)
        if targets is not None and self.own is not None:
            grad.scatter_add_(-1, targets, self.own)
        if grad.device.type not in SYNCHRONOUS or self.broken.any():
            grad.masked_fill_(self.broken[..., None], 0)
