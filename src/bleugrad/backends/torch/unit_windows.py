"""Window probabilities of all orders at once, for devices that are not waited for."""

import torch
from torch import Tensor

from bleugrad.backends.torch.scans import running_product_gradient


class UnitWindows:
    """Probability that the window ending at e is the last j units up to a column, j = 1..J: ``probs`` (T, B, L, J).

    ``units`` (T, B, L) are those of the units alone. Unit i before a column ends where the i units after it begin,
    ``offsets`` (B, L, J + 1) tokens before e. Without ``spans`` (B, L) every unit is one token.
    """

    def __init__(self, units: Tensor, spans: Tensor | None, longest: int) -> None:
        device, before, self.shape = units.device, longest - 1, units.shape
        self.index = None
        if spans is None:
            padded = torch.nn.functional.pad(units, (before, 0, 0, 0, before, 0))
            self.factors = _diagonals(padded, longest).flip(3)
        else:
            padded = torch.nn.functional.pad(units, (before, 0))  # columns of zeros before the first
            row = padded.shape[1] * padded.shape[2]
            self.offsets = _running_spans(spans, longest)
            back = torch.arange(longest, device=device).add(self.offsets[..., :-1], alpha=row)
            cell = torch.arange(padded.numel(), device=device).view(padded.shape)[..., before:, None]
            index = (cell - back).clamp_(min=0)
            self.index = index.reshape(-1)  # few columns change the strides
            self.factors = padded.view(-1).index_select(0, self.index).view(index.shape)
        self.probs = self.factors.cumprod(3)

    def backward(self, grad: Tensor) -> Tensor:
        """The gradient of the units, from that of ``probs``."""
        of_factors = running_product_gradient(self.factors, self.probs, grad)
        (steps, batch, columns), longest = self.shape, self.factors.shape[3]
        if self.index is None:
            padded = torch.nn.functional.pad(of_factors, (0, 0, 0, longest - 1, 0, 0, 0, longest - 1))
            return _diagonals(padded, longest).diagonal(0, 3, 4).sum(3)
        shape = (steps, batch, columns + longest - 1)
        found = grad.new_zeros(shape).view(-1).index_add_(0, self.index, of_factors.view(-1))
        return found.view(shape)[..., longest - 1 :]


def _diagonals(padded: Tensor, longest: int) -> Tensor:
    """The entries 0..J - 1 positions and columns ahead: (T + J - 1, B, L + J - 1, ..) to (T, B, L, .., J), a view."""
    return padded.unfold(0, longest, 1).unfold(2, longest, 1).diagonal(0, -2, -1)


def _running_spans(spans: Tensor, longest: int) -> Tensor:
    """The tokens of the last 0..J units up to each column: (B, L) to (B, L, J + 1)."""
    ends = torch.nn.functional.pad(spans.cumsum(1), (longest + 1, 0))
    return ends[:, longest + 1 :, None] - ends.unfold(1, longest + 1, 1)[:, 1:].flip(2)
