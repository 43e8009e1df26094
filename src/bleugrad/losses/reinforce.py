"""REINFORCE: the gradient of expected BLEU from the rewards of samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_choice
from bleugrad.expectation import Expectation
from bleugrad.losses import sampling
from bleugrad.losses.base import Group
from bleugrad.losses.rewards import RewardedSamples, leave_one_out, reward_rows
from bleugrad.losses.sampling import Draws, SampledLossBase, SampledOptions, SampleStatistics
from bleugrad.references.sequences import IdLists
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU

BASELINES = ("none", "greedy", "leave-one-out")


def reinforce_loss(
    logits: Tensor,
    labels: Tensor | None = None,
    *,
    references: Tensor | IdLists | None = None,
    mask: Tensor | None = None,
    samples: int = 1,
    baseline: str = "greedy",
    generator: torch.Generator | int | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    eos_id: int | None = None,
    ignore_index: int = -100,
    word_start: Tensor | None = None,
    reduction: str = "mean",
    cross_entropy_weight: float = 0.0,
    process_group: Group = None,
) -> Tensor:
    """REINFORCE on 1 - BLEU. :class:`bleugrad.ReinforceLoss` describes the arguments."""
    expectation = Expectation(BLEU(max_order, weights, smoothing), "exact", "sentence", eos_id, ignore_index)
    shared = (expectation, reduction, process_group, cross_entropy_weight)
    options = ReinforceOptions(*shared, Draws(samples, generator), baseline)
    targets = sampling.sampled_targets(logits, labels, references, mask, word_start, options)
    return _drawn_loss(logits, targets, options)[0]


@dataclass(frozen=True)
class ReinforceOptions(SampledOptions):
    """Validated options of :class:`bleugrad.ReinforceLoss`."""

    baseline: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("baseline", self.baseline, BASELINES)
        if self.baseline == "leave-one-out":
            sampling.check_samples(self.draws.samples, 2, " for the leave-one-out baseline")


def _drawn_loss(logits: Tensor, targets: Targets, options: ReinforceOptions) -> tuple[Tensor, SampleStatistics]:
    """The loss of samples of the rows, and their statistics."""
    with torch.autocast(logits.device.type, enabled=False):
        drawn, number = sampling.sample_rows(logits, targets, options), options.draws.samples
        greedy = [drawn.greedy[:, None]] if options.baseline == "greedy" else []
        rewarded = reward_rows(torch.cat([drawn.tokens, *greedy], 1), targets, options.expectation.score)
        samples, counted = rewarded.first(number), targets.limits > 0
        log_probs = samples.log_probs(drawn.log_probs)
        loss, statistics = _rewarded(samples, log_probs, rewarded.rewards[:, number:], counted, options)
        return options.add_cross_entropy(loss, drawn.label_log_probs, targets), statistics


def _rewarded(
    samples: RewardedSamples, log_probs: Tensor, greedy: Tensor, counted: Tensor, options: ReinforceOptions
) -> tuple[Tensor, SampleStatistics]:
    """The loss of samples with log-probabilities (B, S). ``greedy`` (B, 1) are rewards, used for that baseline."""
    rewards, kind = samples.rewards, log_probs.dtype
    baselines = greedy if options.baseline == "greedy" else torch.zeros_like(rewards)
    if options.baseline == "leave-one-out":
        baselines = leave_one_out(rewards)
    surrogate = -((rewards - baselines).to(kind) * log_probs).mean(1)
    loss = options.reduce(sampling.with_gradient_of((1 - rewards.to(kind)).mean(1), surrogate), counted)
    return loss, sampling.sample_statistics(samples, baselines, counted)


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
    :class:`~bleugrad.losses.sampling.SampleStatistics`.

    Time: one softmax and its cumulative sum, one scaling of it backward, and counting the n-grams of the samples.
    Memory: one tensor of the size of the logits, for any S.

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

    options: ReinforceOptions
    drawn_loss = staticmethod(_drawn_loss)

    def __init__(
        self,
        *,
        samples: int = 1,
        baseline: str = "greedy",
        generator: torch.Generator | int | None = None,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        ignore_index: int = -100,
        word_start: Tensor | None = None,
        reduction: str = "mean",
        cross_entropy_weight: float = 0.0,
        process_group: Group = None,
    ) -> None:
        expectation = Expectation(BLEU(max_order, weights, smoothing), "exact", "sentence", eos_id, ignore_index)
        shared = (expectation, reduction, process_group, cross_entropy_weight)
        super().__init__(ReinforceOptions(*shared, Draws(samples, generator), baseline), word_start)

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

        ``samples`` and ``generator`` concern drawn samples only: S is that of ``tokens``.

        Args:
            tokens: (B, S, T), or (B, T) for one sample per sentence, padded with ``ignore_index``. Tokens after the
                first ``eos_id`` do not count.
            log_probs: as ``tokens``, the log-probability of each token, with its gradient; that of EOS counts.
            references: (B, R), (B, K, R) or nested lists.
            mask: as ``tokens``, bool, True where a token counts, EOS included.
            greedy: (B, T'), the greedy output of the decoder. Needed for the baseline "greedy", an error for others.
        """
        given, baseline = self._given(tokens, log_probs, references, mask), self.options.baseline
        if baseline == "leave-one-out":
            sampling.check_samples(given.log_probs.shape[1], 2, ", as tokens (B, S, T), for the leave-one-out baseline")
        if greedy is None and baseline == "greedy":
            raise TypeError("greedy is None; expected the decoder's greedy output (B, T), since baseline is 'greedy'")
        if greedy is not None and baseline != "greedy":
            raise TypeError(f"greedy is given, but baseline is {baseline!r}; expected None")
        reward = given.samples.rewards[:, :0]
        if greedy is not None:
            ids = sampling.check_given_tokens("greedy", greedy, batch=given.log_probs.shape[0])
            reward = self._reward(ids, given.references, ids != self.options.expectation.ignore_index).rewards
        return self._record(*_rewarded(given.samples, given.log_probs, reward, given.counted, self.options))
