"""The loss from hidden states and the output projection, never holding the logits of the whole batch."""

import torch
from torch import Tensor

from bleugrad.core.arguments import check_projection
from bleugrad.core.linear_match_probabilities import linear_match_probabilities
from bleugrad.core.sequences import IdLists
from bleugrad.losses.expected import ExpectedLossBase


class LinearExpectedBLEULoss(ExpectedLossBase):
    """:class:`bleugrad.ExpectedBLEULoss` of ``logits = hidden @ weight.T + bias``: ``loss(hidden, weight, labels)``.

    The same options, value and gradients to rounding, in chunks of rows, so that (B, T, V) logits never exist. The peer
    of ``torch.nn.functional.linear_cross_entropy``.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> head = torch.nn.Linear(8, 50)
        >>> hidden, labels = torch.randn(2, 4, 8), torch.randint(50, (2, 4))
        >>> fused = bleugrad.LinearExpectedBLEULoss()(hidden, head.weight, labels, bias=head.bias)
        >>> plain = bleugrad.ExpectedBLEULoss()(head(hidden), labels)
        >>> torch.allclose(fused, plain)
        True
    """

    def forward(
        self,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            hidden: (B, T, H).
            weight: (V, H), the output projection.
            labels: (B, T), as for cross-entropy. May be left out where ``references`` are given.
            bias: (V,), or None.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count; by default those with a label.
        """
        check_projection(hidden, weight, bias)
        batch, steps, _ = hidden.shape
        targets = self._prepare((batch, steps, weight.shape[0]), hidden.device, labels, references, mask)
        with torch.autocast(hidden.device.type, enabled=False):
            gathered = linear_match_probabilities(hidden, weight, bias, *self._wanted(targets))
            return self._loss(gathered, targets, "hidden @ weight.T")
