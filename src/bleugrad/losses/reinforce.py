"""REINFORCE: the gradient of expected BLEU from the rewards of samples."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bleugrad.arguments import check_choice
from bleugrad.losses.base import LossOptions
from bleugrad.losses.rewards import RewardedSamples, leave_one_out
from bleugrad.losses.sampling import (
    SampledLossBase,
    SampledRows,
    check_given_tokens,
    check_samples,
    with_gradient_of,
)
from bleugrad.references.sequences import IdLists

if TYPE_CHECKING:
    from typing_extensions import Unpack

BASELINES = ("none", "greedy", "leave-one-out")


class ReinforceLoss(SampledLossBase):
    """REINFORCE on 1 - BLEU: an **estimate**, whose gradient has the gradient of 1 - E[BLEU] as its mean.

    For S samples x of each sentence, drawn from the rows of the logits, with BLEU r and baseline b::

        value    = mean over samples of 1 - r
        gradient = mean over samples of -(r - b) grad log p(x)

    averaged over sentences and not divided by length. BLEU is that of the sentence, smoothed. The mean of the gradient
    is the same for every baseline, since none depends on the sample it is subtracted from; its variance is not.

    Args:
        samples: S, of each sentence.
        baseline: "greedy" is the BLEU of the most likely token of each row (self-critical training), "leave-one-out"
            the mean BLEU of the sentence's other samples, which needs two or more, "none" is 0.
        generator: where the random numbers come from: a ``torch.Generator`` on the device of the logits, a seed for one
            of the loss's own, or None for torch's default.
        options: those of :class:`bleugrad.ExpectedBLEULoss` but ``method`` and ``level``, by name. With ``eos_id`` the
            probability of a sample is that of its tokens and the EOS; the rows after it do not enter.

    After a call ``statistics`` holds the samples, rewards and baselines it used, as
    :class:`~bleugrad.losses.sampling.SampleStatistics`.

    Time is one softmax, its running sum, one scaling of it backward, and counting the samples' n-grams; memory one
    tensor of the logits' size, whatever S is.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits = torch.randn(2, 5, 100, requires_grad=True)
        >>> labels = torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> criterion = bleugrad.ReinforceLoss(samples=4, baseline="leave-one-out", generator=0)
        >>> loss = criterion(logits, labels)
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.638, torch.Size([2, 5, 100]))
        >>> round(criterion.statistics.mean_reward.item(), 3)
        0.362
    """

    def __init__(
        self,
        *,
        samples: int = 1,
        baseline: str = "greedy",
        generator: torch.Generator | int | None = None,
        **options: "Unpack[LossOptions]",
    ) -> None:
        super().__init__(samples, generator, options)
        check_choice("baseline", baseline, BASELINES)
        if baseline == "leave-one-out":
            check_samples(samples, 2, " for the leave-one-out baseline")
        self.baseline = baseline

    def extra_repr(self) -> str:
        """The options, as they were given."""
        return f"baseline={self.baseline!r}, {super().extra_repr()}"

    def _drawn_loss(self, drawn: SampledRows) -> Tensor:
        tokens = drawn.tokens
        if self.baseline == "greedy":
            tokens = torch.cat([tokens, drawn.greedy[:, None]], 1)
        rewarded = self._reward_rows(tokens, drawn.targets)
        samples = rewarded.first(self.samples)
        greedy, log_probs = rewarded.rewards[:, self.samples :], samples.log_probs(drawn.log_probs)
        return self._loss(samples, log_probs, greedy, drawn.targets.limits > 0)

    def from_samples(
        self,
        tokens: Tensor,
        log_probs: Tensor,
        references: Tensor | IdLists,
        *,
        mask: Tensor | None = None,
        greedy: Tensor | None = None,
    ) -> Tensor:
        """The loss of sequences a decoder has sampled, each token fed back to it.

        Args:
            tokens: (B, S, T), or (B, T) for one sample per sentence; ``ignore_index`` where nothing counts, and what
                follows the first ``eos_id`` does not count either.
            log_probs: as ``tokens``, the log-probability the decoder gave each of them, with its gradient; that of the
                EOS belongs to it.
            references: (B, R), (B, K, R) or nested lists.
            mask: as ``tokens``, bool, True where a token counts (or is the EOS).
            greedy: (B, T'), the decoder's greedy output, for the baseline "greedy".

        S need not be ``samples``.
        """
        given = self._given(tokens, log_probs, references, mask)
        if self.baseline == "leave-one-out":
            check_samples(given.log_probs.shape[1], 2, ", as tokens (B, S, T), for the leave-one-out baseline")
        reward = given.samples.rewards[:, :0]
        if self.baseline == "greedy":
            if greedy is None:
                raise TypeError(
                    "greedy is None; expected the decoder's greedy output (B, T), since baseline is 'greedy'"
                )
            ids = check_given_tokens("greedy", greedy, batch=given.log_probs.shape[0])
            valid = ids != self.expectation.ignore_index
            reward = self._reward(torch.where(valid, ids, 0), valid, given.references).rewards
        return self._loss(given.samples, given.log_probs, reward, given.counted)

    def _loss(self, samples: RewardedSamples, log_probs: Tensor, greedy: Tensor, counted: Tensor) -> Tensor:
        baselines = self._baselines(samples.rewards, greedy)
        self._record(samples, baselines, counted)
        rewards = samples.rewards.to(log_probs.dtype)
        advantages = (samples.rewards - baselines).to(log_probs.dtype)
        return self.reduce(with_gradient_of((1 - rewards).mean(1), -(advantages * log_probs).mean(1)), counted)

    def _baselines(self, rewards: Tensor, greedy: Tensor) -> Tensor:
        if self.baseline == "greedy":
            return greedy
        return leave_one_out(rewards) if self.baseline == "leave-one-out" else torch.zeros_like(rewards)
