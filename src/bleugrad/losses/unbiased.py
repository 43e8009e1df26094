"""The unbiased gradient of expected BLEU with low variance: exact expectations as the control variate of samples."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bleugrad.lengths.lengths import FixedLengths
from bleugrad.losses.sampling import RewardedSamples, SampledLossBase, SampledRows
from bleugrad.matches.exact import Exact, matches_by_length
from bleugrad.matches.statistics import ExpectedStatistics, row_statistics
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU, penalty_by_length, totals_of


@dataclass(kw_only=True, eq=False, repr=False)
class UnbiasedBLEULoss(SampledLossBase):
    """1 - E[BLEU] with an unbiased gradient of low variance: an **estimate** that is mostly exact expectations.

    For a linear function of the matches ``C(x) = c + sum_n alpha_n O_n(x)`` that is close to BLEU, the exact expected
    matches e_n = E[O_n], and samples x of each sentence::

        value    = 1 - E[C] - mean over samples of BLEU(x) - C(x)
        gradient = -sum_n alpha_n grad e_n - mean over samples of (BLEU(x) - C(x)) grad log p(x)

    Both are averaged over sentences and not divided by length. Their means are 1 - E[BLEU] and its gradient for any c
    and alpha, because these are held constant and E[C] is exact. BLEU is smoothed sentence BLEU. Without smoothing it
    is less linear, and the variance is larger. With ``eos_id`` the length is random, and c and alpha are fitted to each
    length; in words alpha is the same for all lengths. Rows must be independent, as in teacher forcing.

    Args:
        samples, generator: as for :class:`bleugrad.ReinforceLoss`.
        max_order: this and the other options are those of :class:`bleugrad.ExpectedBLEULoss`.

    After a call, ``statistics`` holds the samples, rewards and, as baselines, C(x), as
    :class:`~bleugrad.losses.sampling.SampleStatistics`. Memory: one tensor of the size of the logits.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits, labels = torch.randn(2, 5, 100), torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> loss = bleugrad.UnbiasedBLEULoss(generator=0)(logits, labels)
        >>> round(loss.item(), 3)
        0.654
    """

    needs_patterns: ClassVar[bool] = True

    def chosen_tokens(self, targets: Targets, steps: int) -> Tensor:
        """Return the tokens of the references at every position, (B, T, L)."""
        return targets.columns[:, None].expand(-1, steps, -1)

    def estimate(self, drawn: SampledRows, targets: Targets) -> Tensor:
        """Return the loss from samples of the rows and from exact expectations."""
        samples = self.reward_rows(drawn.tokens, targets)
        statistics = row_statistics(drawn.chosen_log_probs.exp(), drawn.opening, targets, Exact())
        linear, joint = linearise(statistics, self.expectation.score)
        expected = (linear.intercepts * statistics.lengths.probs).sum(1) + (linear.slopes * joint).sum((1, 2))  # exact
        approximate = linear.of_samples(samples, random_length=not isinstance(statistics.lengths, FixedLengths))
        residuals = (samples.rewards - approximate).to(expected.dtype)
        surrogate = -expected - (residuals * samples.log_probs(drawn.log_probs)).mean(1)
        return self.finish(1 - expected - residuals.mean(1), surrogate, samples, approximate, targets.limits > 0)


@dataclass(frozen=True)
class LinearBLEU:
    """A linear approximation of BLEU at each length l: ``intercepts[l] + sum_n slopes[n, l] O_n``, constants."""

    intercepts: Tensor  #: (B, S), over the support of the lengths.
    slopes: Tensor  #: (B, N, S)

    def of_samples(self, samples: RewardedSamples, random_length: bool) -> Tensor:
        """Its value for each sample, (B, S), in the dtype of the rewards."""
        kind = samples.rewards.dtype
        index = samples.lengths if random_length else torch.zeros_like(samples.lengths)
        intercepts = self.intercepts.gather(1, index).to(kind)
        slopes = self.slopes.transpose(1, 2).gather(1, index[..., None].expand_as(samples.matches)).to(kind)
        return intercepts + (slopes * samples.matches).sum(2)


def linearise(statistics: ExpectedStatistics, score: BLEU) -> tuple[LinearBLEU, Tensor]:
    """Fit a linear function to BLEU f for each length l, at e = E[O | length l]; accurate also if matches are rare.

    An *event* of order k adds 1 to O_1..O_k, written O + v_k; the expected number of them is mu_k = e_k - e_{k+1}::

        slope_k = f(e + v_k) - f(e),           alpha_n = slope_n - slope_{n-1}
        level   = f(e) + sum_k mu_k / 2 (f(e + 2 v_k) - 2 f(e + v_k) + f(e))
        C(x)    = level + sum_n alpha_n (O_n - e_n)

    Any constants leave the gradient unbiased; these make BLEU - C small. In words E[O | length] is not known. E[O]
    replaces it, and the slopes are averaged over lengths, so that the expectation of C needs no joint expectation.

    Returns the function, and E[O_n; length] (B, N, S); in words the product of the two expectations, which is enough if
    slopes do not depend on the length. The only division is by P(length), clamped to the smallest normal number.
    O(B N^2 S) time.
    """
    lengths, windows, orders = statistics.lengths, statistics.windows, score.max_order
    assert windows is not None
    probs, in_words = lengths.probs.detach(), windows.opening is not None
    if in_words:
        joint = statistics.matches[..., None] * lengths.probs[:, None]
        expected = statistics.matches.detach()[:, None].expand(-1, probs.shape[1], -1)
    else:
        joint = matches_by_length(windows)
        expected = (joint.detach() / probs.clamp(min=torch.finfo(probs.dtype).tiny)[:, None]).transpose(1, 2)
    events = torch.ones(orders, orders, dtype=probs.dtype, device=probs.device).tril()
    totals = totals_of(lengths.support[..., None, None], orders).to(probs.dtype)
    penalty = penalty_by_length(lengths, statistics.references)[..., None]
    value, one, two = (
        score.combine(expected[..., None, :] + count * events, totals, penalty)[0] for count in (0, 1, 2)
    )
    slopes = (one - value).diff(dim=2, prepend=torch.zeros_like(value[..., :1]))
    if in_words:
        slopes = (slopes * probs[..., None]).sum(1, keepdim=True).expand_as(slopes)
    numbers = -expected.diff(dim=2, append=torch.zeros_like(expected[..., :1]))
    level = value[..., 0] + (numbers / 2 * (two - 2 * one + value)).sum(2)
    return LinearBLEU(level - (slopes * expected).sum(2), slopes.transpose(1, 2)), joint
