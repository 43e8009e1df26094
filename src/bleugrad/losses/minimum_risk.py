"""Minimum risk training: expected BLEU over a set of candidates whose probabilities are renormalised."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative
from bleugrad.losses.base import LossOptions
from bleugrad.losses.rewards import RewardedSamples
from bleugrad.losses.sampling import SampledLossBase, SampledRows, check_samples, with_gradient_of
from bleugrad.references.sequences import IdLists
from bleugrad.references.targets import Targets

if TYPE_CHECKING:
    from typing_extensions import Unpack


class MinimumRiskLoss(SampledLossBase):
    """Minimum risk training (Shen et al., 2016) on 1 - BLEU: an **estimate**, biased unless the candidates are all.

    For the distinct candidates x of each sentence, with BLEU r::

        q(x)     = p(x) ^ alpha / sum over candidates of p ^ alpha
        value    = sum over candidates of q(x) (1 - r(x))
        gradient = sum over candidates of -q(x) (r(x) - sum of q r) grad log p(x)

    averaged over sentences and not divided by length. The gradient is that of the value over alpha, so that its size
    does not shrink with alpha and compares with the other losses': for alpha = 1 and every possible sequence among the
    candidates both are exactly those of 1 - E[BLEU]; for a small alpha and S distinct samples the gradient is
    (S - 1) / S times REINFORCE's with the leave-one-out baseline.

    Args:
        samples: drawn from the rows of the logits for each sentence; what is drawn twice counts once.
        alpha: sharpness of q, above 0.
        include_reference: whether the labels are a candidate too; a sentence without a label at each of its positions
            goes without.
        scale_by_alpha: gives the value's own gradient, alpha times the one above.
        generator: where the random numbers come from: a ``torch.Generator`` on the device of the logits, a seed for one
            of the loss's own, or None for torch's default.
        options: those of :class:`bleugrad.ExpectedBLEULoss` but ``method`` and ``level``, by name.

    After a call ``statistics`` holds the samples, their rewards and, as baseline, the mean reward under q, as
    :class:`~bleugrad.losses.sampling.SampleStatistics`; the reference is not among them.

    Cost as :class:`bleugrad.ReinforceLoss`, and O(S^2 T) comparisons per sentence to find equal candidates.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits = torch.randn(2, 5, 100, requires_grad=True)
        >>> labels = torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> loss = bleugrad.MinimumRiskLoss(samples=8, include_reference=True, generator=0)(logits, labels)
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.58, torch.Size([2, 5, 100]))
    """

    def __init__(
        self,
        *,
        samples: int = 8,
        alpha: float = 0.005,
        include_reference: bool = False,
        scale_by_alpha: bool = False,
        generator: torch.Generator | int | None = None,
        **options: "Unpack[LossOptions]",
    ) -> None:
        super().__init__(samples, generator, options)
        check_samples(samples, 1 if include_reference else 2, ": one candidate alone has no gradient")
        self.alpha = check_nonnegative("alpha", alpha)
        if self.alpha == 0:
            raise ValueError("alpha is 0; expected a number above 0")
        self.include_reference = include_reference
        self.scale_by_alpha = scale_by_alpha

    def extra_repr(self) -> str:
        """The options, as they were given."""
        return (
            f"alpha={self.alpha}, include_reference={self.include_reference}, scale_by_alpha={self.scale_by_alpha}, "
            f"{super().extra_repr()}"
        )

    def _drawn_loss(self, drawn: SampledRows) -> Tensor:
        tokens, of_tokens, targets = drawn.tokens, drawn.log_probs, drawn.targets
        if self.include_reference:
            assert targets.labels is not None
            tokens = torch.cat([tokens, targets.labels[:, None]], 1)
            of_tokens = torch.cat([of_tokens, drawn.chosen_log_probs.transpose(1, 2)], 1)
        candidates = self._reward_rows(tokens, targets)
        chosen = distinct(candidates) & self._labelled(candidates, targets)
        log_probs = candidates.log_probs(of_tokens)
        return self._loss(candidates, chosen, log_probs, self.samples, targets.limits > 0)

    def _chosen(self, targets: Targets, shape: tuple[int, int]) -> Tensor:
        if not self.include_reference:
            return super()._chosen(targets, shape)
        if targets.labels is None:
            raise TypeError("labels is None; expected (B, T) token ids, since include_reference is True")
        return targets.labels[..., None]

    def from_samples(
        self, tokens: Tensor, log_probs: Tensor, references: Tensor | IdLists, *, mask: Tensor | None = None
    ) -> Tensor:
        """The loss of candidates a decoder has made, by sampling or search; those equal to an earlier one are left out.

        Args:
            tokens: (B, S, T); ``ignore_index`` where nothing counts, and what follows the first ``eos_id`` does not
                count either. S need not be ``samples``. The reference is a candidate only if it is among them.
            log_probs: (B, S, T), the log-probability the decoder gave each token, with its gradient; that of the EOS
                belongs to it.
            references: (B, R), (B, K, R) or nested lists.
            mask: (B, S, T) bool, True where a token counts (or is the EOS).
        """
        given = self._given(tokens, log_probs, references, mask)
        number = check_samples(given.log_probs.shape[1], 2, ", as tokens (B, S, T): one alone has no gradient")
        return self._loss(given.samples, distinct(given.samples), given.log_probs, number, given.counted)

    def _labelled(self, candidates: RewardedSamples, targets: Targets) -> Tensor:
        """Which candidates (B, S) have a token at each position they are scored at: all, but for the reference."""
        whole = torch.ones_like(candidates.lengths, dtype=torch.bool)
        if self.include_reference and targets.labelled is not None:
            whole[:, -1] = ~(candidates.scored[:, -1] & ~targets.labelled).any(1)
        return whole

    def _loss(
        self, candidates: RewardedSamples, chosen: Tensor, log_probs: Tensor, drawn: int, counted: Tensor
    ) -> Tensor:
        shares = (self.alpha * log_probs).masked_fill(~chosen, -torch.inf).softmax(1)
        expected_reward = (shares * candidates.rewards.to(shares.dtype)).sum(1)
        self._record(candidates.first(drawn), expected_reward[:, None], counted)
        risk = 1 - expected_reward
        return self.reduce(with_gradient_of(risk, risk if self.scale_by_alpha else risk / self.alpha), counted)


def distinct(candidates: RewardedSamples) -> Tensor:
    """Which candidates differ from all before them, (B, S). O(B S^2 T) time and memory."""
    canonical = torch.where(candidates.scored, candidates.tokens, -1)
    equal = (canonical[:, :, None] == canonical[:, None, :]).all(3)
    return ~equal.tril(-1).any(2)
