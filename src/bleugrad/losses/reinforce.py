"""REINFORCE: the gradient of expected BLEU from the rewards of samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_choice
from bleugrad.losses.sampling import (
    RewardedSamples,
    SampledLossBase,
    SampledRows,
    check_given_tokens,
    check_samples,
)
from bleugrad.references.sequences import IdLists, check_batch
from bleugrad.references.targets import Targets

BASELINES = ("none", "greedy", "leave-one-out")


@dataclass(kw_only=True, eq=False, repr=False)
class ReinforceLoss(SampledLossBase):
    """REINFORCE on 1 - BLEU: an **estimate** of 1 - E[BLEU] whose gradient is unbiased.

    For S samples x of each sentence, drawn from the rows of the logits, with BLEU r and baseline b::

        value    = mean over samples of 1 - r
        gradient = mean over samples of -(r - b) grad log p(x)

    Both are averaged over sentences and not divided by length. BLEU is smoothed sentence BLEU. No baseline depends on
    the sample it is subtracted from, so all have the same mean gradient; they differ in its variance.

    Args:
        samples: number S of samples per sentence.
        baseline: "greedy" is the BLEU of the most likely token of each row (self-critical training), "leave-one-out"
            the mean BLEU of the other samples of the sentence, which needs two or more, "none" is 0.
        generator: source of the random numbers: a ``torch.Generator`` on the device of the logits, a seed for a
            generator of the loss, or None for the default generator of torch.
        max_order: this and the other options are those of :class:`bleugrad.ExpectedBLEULoss`. With ``eos_id`` the
            probability of a sample is that of its tokens and its EOS; rows after it have no effect.

    After a call, ``statistics`` holds samples, rewards and baselines, as
    :class:`~bleugrad.losses.sampling.SampleStatistics`. Memory: one tensor of the size of the logits, for any S.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits, labels = torch.randn(2, 5, 100), torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> criterion = bleugrad.ReinforceLoss(samples=4, baseline="leave-one-out", generator=0)
        >>> round(criterion(logits, labels).item(), 3), round(criterion.statistics.mean_reward.item(), 3)
        (0.638, 0.362)
    """

    baseline: str = "greedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("baseline", self.baseline, BASELINES)
        if self.baseline == "leave-one-out":
            check_samples(self.samples, 2, " for the leave-one-out baseline")

    def estimate(self, drawn: SampledRows, targets: Targets) -> Tensor:
        """Return the loss from samples of the rows."""
        greedy = [drawn.greedy[:, None]] if self.baseline == "greedy" else []
        rewarded = self.reward_rows(torch.cat([drawn.tokens, *greedy], 1), targets)
        samples, of_greedy = rewarded.first(self.samples), rewarded.rewards[:, self.samples :]
        return self._of_rewards(samples, samples.log_probs(drawn.log_probs), of_greedy, targets.limits > 0)

    def _of_rewards(self, samples: RewardedSamples, log_probs: Tensor, greedy: Tensor, counted: Tensor) -> Tensor:
        """Return the loss from log-probabilities (B, S), and rewards (B, 1) of greedy output for that baseline."""
        rewards, kind = samples.rewards, log_probs.dtype
        baselines = greedy if self.baseline == "greedy" else torch.zeros_like(rewards)
        if self.baseline == "leave-one-out":
            baselines = leave_one_out(rewards)
        surrogate = -((rewards - baselines).to(kind) * log_probs).mean(1)
        return self.finish((1 - rewards.to(kind)).mean(1), surrogate, samples, baselines, counted)

    def from_samples(
        self,
        tokens: Tensor,
        log_probs: Tensor,
        references: Tensor | IdLists,
        *,
        mask: Tensor | None = None,
        greedy: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of sequences that a decoder has sampled, with each token fed back to it.

        ``generator`` and ``samples`` have no effect: S is that of ``tokens``.

        Args:
            tokens: (B, S, T), or (B, T) for one sample per sentence, padded with ``ignore_index``. Tokens after the
                first ``eos_id`` do not count.
            log_probs: as ``tokens``, the log-probability of each token, with its gradient; that of EOS counts.
            references: (B, R), (B, K, R) or nested lists.
            mask: as ``tokens``, bool, True where a token counts, EOS included.
            greedy: (B, T'), the greedy output of the decoder. Needed for the baseline "greedy", an error for others.
        """
        samples, of_samples, prepared, counted = self.reward_given(tokens, log_probs, references, mask)
        baseline, reward = self.baseline, samples.rewards[:, :0]
        if baseline == "leave-one-out":
            check_samples(of_samples.shape[1], 2, ", as tokens (B, S, T), for the leave-one-out baseline")
        if greedy is None and baseline == "greedy":
            raise TypeError("greedy is None; expected the decoder's greedy output (B, T), since baseline is 'greedy'")
        if greedy is not None and baseline != "greedy":
            raise TypeError(f"greedy is given, but baseline is {baseline!r}; expected None")
        if greedy is not None:
            ids = check_given_tokens("greedy", greedy)
            check_batch("greedy", len(ids), len(of_samples), "tokens")
            reward = self.reward(ids, prepared, ids != self.ignore_index).rewards
        return self._of_rewards(samples, of_samples, reward, counted)


def leave_one_out(values: Tensor) -> Tensor:
    """The mean of the other samples of the same sentence: (B, S) to (B, S), for S of at least 2."""
    return (values.sum(1, keepdim=True) - values) / (values.shape[1] - 1)
