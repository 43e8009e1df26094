"""Lengths of the outputs of CTC frames."""

import torch
from torch import Tensor

from bleugrad.backends.torch.frame_lengths import frame_length_distribution
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
    frame is certainly blank, c_t = 0 instead of 0 / 0.
    """
    after = torch.arange(blank.shape[1], device=limits.device) >= limits[:, None]
    blank, repeated = blank.masked_fill(after, 1), repeated.masked_fill(after, 0)
    symbol = 1 - blank
    eps = torch.finfo(blank.dtype).eps
    before = torch.nn.functional.pad(symbol[:, :-1], (1, 0))
    again = (repeated / before.clamp(min=eps)).masked_fill(before <= eps, 0)
    again = torch.minimum(again, symbol)
    return Lengths(frame_length_distribution(blank, again))
