"""Contrastive ranking: a candidate with a higher BLEU should have a higher probability."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative
from bleugrad.losses.base import LossOptions
from bleugrad.losses.rewards import RewardedSamples
from bleugrad.losses.sampling import SampledLossBase, SampledRows, check_samples
from bleugrad.references.sequences import IdLists

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RankingLoss(SampledLossBase):
    """Margins between candidates ranked by BLEU, the contrastive loss of BRIO (Liu et al., 2022). A **baseline**.

    For the candidates of a sentence with mean log-probability per token s and ranks 0, 1, ... by BLEU, the best first::

        loss = sum over pairs with BLEU_i > BLEU_j of max(0, s_j - s_i + margin (rank_j - rank_i))

    Candidates of equal BLEU are not compared. It is not an estimate of expected BLEU, and its value says nothing of it.

    Args:
        samples: drawn from the rows of the logits for each sentence.
        margin: of neighbours in the ranking.
        generator: as for :class:`bleugrad.MinimumRiskLoss`.
        options: those of :class:`bleugrad.ExpectedBLEULoss` but ``method`` and ``level``, by name.

    O(S^2) per sentence beyond the cost of :class:`bleugrad.ReinforceLoss`.

    Example:
        >>> import torch
        >>> tokens = torch.tensor([[[5, 6, 2], [5, 7, 2]]])
        >>> log_probs = torch.tensor([[[-1.0, -1.0, -1.0], [-0.5, -0.5, -0.5]]], requires_grad=True)
        >>> loss = RankingLoss(eos_id=2, margin=0.1).from_samples(tokens, log_probs, [[5, 6]])
        >>> round(loss.item(), 3)  # the second is worse and more likely: -0.5 + 1 + 0.1
        0.6
    """

    def __init__(
        self,
        *,
        samples: int = 8,
        margin: float = 0.01,
        generator: torch.Generator | int | None = None,
        **options: "Unpack[LossOptions]",
    ) -> None:
        super().__init__(samples, generator, options)
        check_samples(samples, 2, ": one candidate alone has no rank")
        self.margin = check_nonnegative("margin", margin)

    def extra_repr(self) -> str:
        """The options."""
        return f"margin={self.margin}, {super().extra_repr()}"

    def from_samples(
        self, tokens: Tensor, log_probs: Tensor, references: Tensor | IdLists, *, mask: Tensor | None = None
    ) -> Tensor:
        """The loss of candidates of a decoder; arguments as for :meth:`bleugrad.MinimumRiskLoss.from_samples`.

        A candidate without tokens is not compared.
        """
        given = self._given(tokens, log_probs, references, mask)
        return self._loss(given.samples, given.log_probs, given.counted)

    def _drawn_loss(self, drawn: SampledRows) -> Tensor:
        samples = self._reward_rows(drawn.tokens, drawn.targets)
        return self._loss(samples, samples.log_probs(drawn.log_probs), drawn.targets.limits > 0)

    def _loss(self, samples: RewardedSamples, log_probs: Tensor, counted: Tensor) -> Tensor:
        number = samples.scored.sum(2)
        there, rewards = number > 0, samples.rewards
        self._record(samples, rewards.mean(1, keepdim=True), counted)
        better = (rewards[:, :, None] > rewards[:, None]) & there[:, :, None] & there[:, None]  # (B, i, j)
        ranks = (rewards[:, None] > rewards[:, :, None]).sum(2).to(log_probs.dtype)
        scores = log_probs / number.clamp(min=1)
        gaps = scores[:, None] - scores[:, :, None] + self.margin * (ranks[:, None] - ranks[:, :, None])
        return self.reduce(torch.where(better, gaps.clamp(min=0), 0).sum((1, 2)), counted)
