"""Minimum risk training: expected BLEU over a set of candidates whose probabilities are renormalised."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bleugrad.core.arguments import check_logits, check_nonnegative
from bleugrad.core.sequences import IdLists
from bleugrad.losses.draws import token_log_probs
from bleugrad.losses.labels import Targets
from bleugrad.losses.rewards import RewardedSamples
from bleugrad.losses.sampling import SampledLossBase, check_samples, prepare_given_samples, with_gradient_of


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
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: added to matches and totals of every order.
        eos_id: candidates end before their first EOS, and so do labels and references.
        ignore_index: labels equal to it do not count.
        reduction: "mean" over sentences with a position that counts, "sum", or "none" for (B,), 0 where nothing counts.
        generator: where the random numbers come from: a ``torch.Generator`` on the device of the logits, a seed for one
            of the loss's own, or None for torch's default.

    After a call ``statistics`` holds the samples, their rewards and, as baseline, the mean reward under q, as
    :class:`~bleugrad.losses.sampling.SampleStatistics`; the reference is not among them.

    Cost as :class:`bleugrad.ReinforceLoss`, and O(S^2 T) comparisons a sentence to find equal candidates.

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
        samples: int = 8,
        alpha: float = 0.005,
        include_reference: bool = False,
        scale_by_alpha: bool = False,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        generator: torch.Generator | int | None = None,
    ) -> None:
        super().__init__(samples, max_order, weights, smoothing, eos_id, ignore_index, reduction, generator)
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

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss, of candidates drawn from the rows of the logits.

        Args:
            logits: (B, T, V).
            labels: (B, T), as for cross-entropy. May be left out where ``references`` are given and the labels are not
                to be a candidate.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count; by default those with a label.
        """
        check_logits(logits)
        with torch.autocast(logits.device.type, enabled=False):
            targets, rows = self._prepare(logits, labels, references, mask)
            tokens = self._draw(rows)
            if self.include_reference:
                if targets.labels is None:
                    raise TypeError("labels is None; expected (B, T) token ids, since include_reference is True")
                tokens = torch.cat([tokens, targets.labels[:, None]], 1)
            candidates = self._reward(tokens, targets)
            of_tokens = token_log_probs(logits, rows, tokens.transpose(1, 2)).transpose(1, 2)
            chosen = distinct(candidates) & self._labelled(candidates, targets)
            return self._loss(candidates, chosen, candidates.log_probs(of_tokens), self.samples, targets.mask.any(1))

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
        given = prepare_given_samples(tokens, log_probs, references, mask, self.options, self.ignore_index)
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
        self._watch(candidates.first(drawn), expected_reward[:, None], counted)
        risk = 1 - expected_reward
        return self._reduce(with_gradient_of(risk, risk if self.scale_by_alpha else risk / self.alpha), counted)


def distinct(candidates: RewardedSamples) -> Tensor:
    """Which candidates differ from all before them, (B, S). O(B S^2 T) time and memory."""
    canonical = torch.where(candidates.scored, candidates.tokens, -1)
    equal = (canonical[:, :, None] == canonical[:, None, :]).all(3)
    return ~equal.tril(-1).any(2)
