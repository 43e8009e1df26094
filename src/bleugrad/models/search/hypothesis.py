"""A translation with its probability, and which tokens may continue one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad.special_ids import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Hypothesis:
    """A translation.

    Attributes:
        tokens: ids, without EOS.
        log_prob: of the tokens and the EOS.
        score: what hypotheses are ranked by.
    """

    tokens: list[int]
    log_prob: float
    score: float


@dataclass(frozen=True)
class Rules:
    """Which tokens may come next: never PAD or BOS.

    Attributes:
        project: from what the decoder gives to logits.
        minimum: fewest tokens before EOS.
        forbid_unk: never UNK.
    """

    project: Callable[[Tensor], Tensor]
    minimum: int = 0
    forbid_unk: bool = False

    def log_probs(self, hidden: Tensor, length: int, limits: Tensor) -> Tensor:
        """Log-probabilities (B, V) of the token after ``length`` others, in float32 at least; -inf if it may not come.

        Args:
            hidden: (B, H), of the decoder.
            length: tokens so far.
            limits: (B,), most tokens; where they are reached EOS must come.
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
