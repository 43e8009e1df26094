"""The distribution of the number of tokens that CTC frames leave, by a chain over the frames."""

import math

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS, widest_float


def frame_length_distribution(blank: Tensor, again: Tensor) -> Tensor:
    """(B, T + 1), from the probabilities (B, T) of blank, and that a symbol is repeated after a symbol.

    See :func:`bleugrad.lengths.frames.frame_lengths`. Asynchronous devices (GPUs) evaluate the generating function,
    which takes few operations.
    """
    batch, steps = blank.shape
    if steps and blank.device.type not in SYNCHRONOUS:
        return _by_transforms(blank, again)
    after_blank = torch.nn.functional.pad(blank.new_ones(batch, 1), (0, steps))
    after_symbol = torch.zeros_like(after_blank)
    for t in range(steps):
        silent, same = blank[:, t, None], again[:, t, None]
        new = (after_blank * (1 - silent) + after_symbol * (1 - silent - same))[:, :-1]
        after_blank = (after_blank + after_symbol) * silent
        after_symbol = after_symbol * same + torch.nn.functional.pad(new, (1, 0))
    return after_blank + after_symbol


def _by_transforms(blank: Tensor, again: Tensor) -> Tensor:
    """The distribution (B, T + 1) from its generating function at all roots of unity z: log2 T rounds.

    A frame multiplies the row (S, B) by the matrix ((again + (1 - blank - again) z, blank), ((1 - blank) z, blank)).
    Frames are multiplied in pairs; those that are added are blank. O(B T^2) memory.
    """
    (batch, steps), pad = blank.shape, torch.nn.functional.pad
    wide, more = widest_float(blank.device), 2 ** (steps - 1).bit_length() - steps
    silent, same = pad(blank.to(wide), (0, more), value=1.0), pad(again.to(wide), (0, more))
    symbol, nothing = 1 - silent, torch.zeros_like(silent)
    angle = torch.arange((steps + 1) // 2 + 1, device=blank.device, dtype=wide) * (-2j * math.pi / (steps + 1))
    constant = torch.stack([same, silent, nothing, silent], 2)
    linear = torch.stack([symbol - same, nothing, symbol, nothing], 2)
    frames = constant[:, None] + linear[:, None] * angle.exp()[:, None, None]
    frames = frames.view(batch, len(angle), -1, 2, 2)
    while frames.shape[2] > 1:
        left, right = frames.unflatten(2, (-1, 2)).unbind(3)
        frames = left @ right
    probs: Tensor = torch.fft.irfft(frames[:, :, 0, 1].sum(2), steps + 1)
    return probs.to(blank.dtype)
