"""Minimum risk training: expected BLEU over a set of candidates whose probabilities are renormalised."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative
from bleugrad.losses.sampling import RewardedSamples, SampledLossBase, SampledRows, check_samples
from bleugrad.references.sequences import IdLists
from bleugrad.references.targets import Targets


@dataclass(kw_only=True, eq=False, repr=False)
class MinimumRiskLoss(SampledLossBase):
    """Minimum risk training (Shen et al., 2016) on 1 - BLEU: an **estimate**, biased unless the candidates are all.

    For the distinct candidates x of each sentence, with BLEU r::

        q(x)     = p(x) ^ alpha / sum over candidates of p ^ alpha
        value    = sum over candidates of q(x) (1 - r(x))
        gradient = sum over candidates of -q(x) (r(x) - sum of q r) grad log p(x)

    Both are averaged over sentences and not divided by length. The gradient is that of the value divided by alpha, so
    its size does not shrink with alpha and can be compared with other losses.

    Args:
        samples: number S of samples per sentence, drawn from the rows of the logits. Equal samples count once.
        alpha: sharpness of q, above 0.
        include_reference: add the labels to the candidates, for sentences with a label at each position that counts.
        generator: as for :class:`bleugrad.ReinforceLoss`.
        max_order: this and the other options are those of :class:`bleugrad.ExpectedBLEULoss`.

    After a call, ``statistics`` holds the samples without the labels, their rewards, and as baseline the mean reward
    under q, as :class:`~bleugrad.losses.sampling.SampleStatistics`.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits, labels = torch.randn(2, 5, 100), torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> loss = bleugrad.MinimumRiskLoss(samples=8, include_reference=True, generator=0)(logits, labels)
        >>> round(loss.item(), 3)
        0.58
    """

    samples: int = 8
    alpha: float = 0.005
    include_reference: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, 1 if self.include_reference else 2, ": one candidate alone has no gradient")
        if check_nonnegative("alpha", self.alpha) == 0:
            raise ValueError("alpha is 0; expected a number above 0")

    def chosen_tokens(self, targets: Targets, steps: int) -> Tensor:
        """Return the labels (B, T, 1) if they are a candidate."""
        if not self.include_reference:
            return super().chosen_tokens(targets, steps)
        return targets.given_labels("include_reference is True")[0][..., None]

    def estimate(self, drawn: SampledRows, targets: Targets) -> Tensor:
        """Return the loss from samples of the rows."""
        tokens, of_tokens = drawn.tokens, drawn.log_probs
        if self.include_reference:
            tokens = torch.cat([tokens, self.chosen_tokens(targets, tokens.shape[2]).transpose(1, 2)], 1)
            of_tokens = torch.cat([of_tokens, drawn.chosen_log_probs.transpose(1, 2)], 1)
        candidates = self.reward_rows(tokens, targets)
        chosen = distinct(candidates)
        if self.include_reference and targets.labelled is not None:  # labels with gaps are no candidate
            chosen[:, -1] &= ~(candidates.scored[:, -1] & ~targets.labelled).any(1)
        return self._risk(candidates, chosen, candidates.log_probs(of_tokens), targets.limits > 0, self.samples)

    def _risk(
        self, candidates: RewardedSamples, chosen: Tensor, log_probs: Tensor, counted: Tensor, drawn: int
    ) -> Tensor:
        """Return the loss from chosen candidates (B, S), of which the first ``drawn`` are samples."""
        shares = (self.alpha * log_probs).masked_fill(~chosen, -torch.inf).softmax(1)
        reward = (shares * candidates.rewards.to(shares.dtype)).sum(1)
        risk = 1 - reward
        return self.finish(risk, risk / self.alpha, candidates.first(drawn), reward[:, None], counted)

    def from_samples(
        self, tokens: Tensor, log_probs: Tensor, references: Tensor | IdLists, *, mask: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of candidates of a decoder, from sampling or search. Equal candidates count once.

        The arguments are those of :meth:`bleugrad.ReinforceLoss.from_samples`, with S of at least 2.
        ``include_reference`` is an error: give the reference as one of the candidates.
        """
        if self.include_reference:
            raise ValueError("include_reference is True, but candidates are given; expected the reference among them")
        candidates, of_candidates, _, counted = self.reward_given(tokens, log_probs, references, mask)
        number = of_candidates.shape[1]
        check_samples(number, 2, ", as tokens (B, S, T): one alone has no gradient")
        return self._risk(candidates, distinct(candidates), of_candidates, counted, number)


def distinct(candidates: RewardedSamples) -> Tensor:
    """Return which candidates differ from all before them, (B, S). O(B S^2 T) time and memory."""
    canonical = torch.where(candidates.scored, candidates.tokens, -1)
    equal = (canonical[:, :, None] == canonical[:, None, :]).all(3)
    return ~equal.tril(-1).any(2)
