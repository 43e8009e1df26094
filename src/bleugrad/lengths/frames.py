"""Lengths of the outputs of CTC frames."""

import math

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dtypes import widest_float
from bleugrad.lengths.lengths import Lengths


def frame_lengths(blank: Tensor, repeated: Tensor, limits: Tensor) -> Lengths:
    """Lengths from the probabilities of blank and of a repetition at each frame, (B, T) each.

    A frame adds a token unless it is blank or repeats the frame before it, so the mean,
    ``E[length] = sum_t (1 - blank_t - repeated_t)``, and the probability of no token are exact. The distribution is a
    **surrogate**: the true one depends on which symbol the last frame held. This one is of a chain that knows whether
    the last frame was blank, and otherwise repeats its symbol with the mean probability given that it was not::

        S_t[l] = S_{t-1}[l] c_t + B_{t-1}[l-1] (1 - blank_t) + S_{t-1}[l-1] (1 - blank_t - c_t)
        B_t[l] = (S_{t-1}[l] + B_{t-1}[l]) blank_t,                c_t = repeated_t / (1 - blank_{t-1})

    It is exact for certain frames, and where the vocabulary is one token and blank. O(B T^2) time and memory. Where a
    frame is certainly blank, c_t = 0 instead of 0 / 0. Devices that are not waited for compute the generating functions
    instead.
    """
    batch, steps = blank.shape
    after = torch.arange(steps, device=limits.device) >= limits[:, None]
    blank, repeated = blank.masked_fill(after, 1), repeated.masked_fill(after, 0)
    symbol = 1 - blank
    eps = torch.finfo(blank.dtype).eps
    before = torch.nn.functional.pad(symbol[:, :-1], (1, 0))
    again = (repeated / before.clamp(min=eps)).masked_fill(before <= eps, 0)
    again = torch.minimum(again, symbol)
    if steps and blank.device.type not in SYNCHRONOUS:
        return Lengths(_by_transforms(blank, again))
    after_blank = torch.nn.functional.pad(blank.new_ones(batch, 1), (0, steps))
    after_symbol = torch.zeros_like(after_blank)
    for t in range(steps):
        silent, same, other = blank[:, t, None], again[:, t, None], symbol[:, t, None]
        new = (after_blank * other + after_symbol * (other - same))[:, :-1]
        after_blank = (after_blank + after_symbol) * silent
        after_symbol = after_symbol * same + torch.nn.functional.pad(new, (1, 0))
    return Lengths(after_blank + after_symbol)


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
