"""A translation with its probability, and the rules for the next token."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad.lab.special_ids import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ids without EOS, the log-probability with EOS, and the score for ranking."""

    tokens: list[int]
    log_prob: float
    score: float


@dataclass(frozen=True)
class Rules:
    """Rules for the next token: no PAD, no BOS, no EOS before ``minimum`` tokens, no UNK with ``forbid_unk``.

    ``project`` turns hidden states into logits.
    """

    project: Callable[[Tensor], Tensor]
    minimum: int = 0
    forbid_unk: bool = False

    def log_probs(self, hidden: Tensor, length: int, limits: Tensor) -> Tensor:
        """Log-probabilities (B, V) of the next token, in float32 or finer; -inf for forbidden tokens.

        ``length`` tokens are there already. Where that reaches ``limits`` (B,), only EOS is allowed.
        """
        logits = self.project(hidden)
        with torch.autocast(logits.device.type, enabled=False):
            log_probs = F.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        log_probs[:, PAD] = -torch.inf
        log_probs[:, BOS] = -torch.inf
        if self.forbid_unk:
            log_probs[:, UNK] = -torch.inf
        if length < self.minimum:
            log_probs[:, EOS] = -torch.inf
        full = limits <= length
        if bool(full.any()):
            ends = log_probs[full, EOS]
            log_probs[full] = -torch.inf
            log_probs[full, EOS] = ends
        return log_probs
