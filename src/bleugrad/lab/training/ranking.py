"""Contrastive ranking: a candidate with a higher BLEU should have a higher probability."""

from collections.abc import Sequence

import torch
from torch import Tensor

import bleugrad


def ranking_loss(
    tokens: Tensor,
    log_probs: Tensor,
    references: Tensor | Sequence[Sequence[Sequence[int]]],
    *,
    eos_id: int,
    mask: Tensor,
    max_order: int = 4,
    smoothing: float = 1.0,
    margin: float = 0.01,
) -> Tensor:
    """Margins between candidates ranked by BLEU, the contrastive loss of BRIO (Liu et al., 2022). A **baseline**.

    For the candidates of a sentence with mean log-probability per token s and ranks 0, 1, ... by BLEU, the best first::

        loss = sum over pairs with BLEU_i > BLEU_j of max(0, s_j - s_i + margin (rank_j - rank_i))

    Candidates of equal BLEU are not compared, nor those without tokens. It is not an estimate of expected BLEU.

    Args:
        tokens: (B, S, T) candidates, ended by EOS.
        log_probs: (B, S, T), the log-probability that the decoder gave each token.
        references: (B, R) ids ended by EOS and padded with -100, or all references of each sentence without EOS.
        eos_id: id of EOS.
        mask: (B, S, T) bool, True at the tokens of a candidate and at its EOS.
        max_order: highest n-gram order of BLEU.
        smoothing: smoothing of BLEU.
        margin: margin of neighbours in the ranking.

    Returns the loss of each sentence, (B,).

    Example:
        >>> tokens = torch.tensor([[[5, 6, 2], [5, 7, 2]]])
        >>> log_probs = torch.tensor([[[-1.0, -1.0, -1.0], [-0.5, -0.5, -0.5]]])
        >>> everywhere = torch.ones_like(tokens, dtype=torch.bool)
        >>> ranking_loss(tokens, log_probs, [[[5, 6]]], eos_id=2, mask=everywhere, margin=0.1)  # -0.5 + 1 + 0.1
        tensor([0.6000])
    """
    if isinstance(references, Tensor):
        ended = references.masked_fill(references == eos_id, -100)[:, None]
        again: Tensor | list[Sequence[Sequence[int]]] = ended.repeat_interleave(tokens.shape[1], 0)
    else:
        again = [one for one in references for _ in range(tokens.shape[1])]
    words = tokens.masked_fill(~mask | (tokens == eos_id), -100).flatten(0, 1)
    scored = bleugrad.bleu(words, again, max_order=max_order, smoothing=smoothing, level="sentence")
    rewards, number = scored.value.view(tokens.shape[:2]), mask.sum(2)
    there = number > 0
    better = (rewards[:, :, None] > rewards[:, None]) & there[:, :, None] & there[:, None]  # (B, i, j)
    ranks = better.transpose(1, 2).sum(2).to(log_probs.dtype)
    scores = torch.where(mask, log_probs, 0).sum(2) / number.clamp(min=1)
    gaps = scores[:, None] - scores[:, :, None] + margin * (ranks[:, None] - ranks[:, :, None])
    return torch.where(better, gaps.clamp(min=0), 0).sum((1, 2))
