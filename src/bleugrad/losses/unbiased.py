"""The unbiased gradient of expected BLEU with little variance: exact expectations as the control variate of samples."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bleugrad.lengths.lengths import FixedLengths
from bleugrad.losses.base import LossOptions
from bleugrad.losses.rewards import RewardedSamples, score_matches
from bleugrad.losses.sampling import SampledLossBase, SampledRows, with_gradient_of
from bleugrad.matches.exact import Exact, matches_by_length
from bleugrad.matches.statistics import ExpectedStatistics, row_statistics
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU, closest_lengths

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class LinearBLEU:
    """A linear stand-in for BLEU at every possible length: ``intercepts[l] + sum_n slopes[n, l] O_n``, constants.

    ``intercepts`` (B, S) and ``slopes`` (B, N, S) over the support of the lengths.
    """

    intercepts: Tensor
    slopes: Tensor

    def of_samples(self, samples: RewardedSamples, random_length: bool) -> Tensor:
        """Its value at each sample, (B, S), in the dtype of the rewards."""
        kind = samples.rewards.dtype
        index = samples.lengths if random_length else torch.zeros_like(samples.lengths)
        intercepts = self.intercepts.gather(1, index).to(kind)
        slopes = self.slopes.transpose(1, 2).gather(1, index[..., None].expand_as(samples.matches)).to(kind)
        return intercepts + (slopes * samples.matches).sum(2)

    def expectation(self, probs: Tensor, joint_matches: Tensor) -> Tensor:
        """Its exact expectation (B,), from P(length) (B, S) and E[O_n; length] (B, N, S)."""
        return (self.intercepts * probs).sum(1) + (self.slopes * joint_matches).sum((1, 2))


def linearise(statistics: ExpectedStatistics, score: BLEU) -> tuple[LinearBLEU, Tensor]:
    """The line that follows BLEU best where matches come in rare events, for each length l with e = E[O | length l].

    A match of order k brings one of every lower order with it: an *event* adds 1 to O_1..O_k, written O + v_k, and
    their expected number is mu_k = e_k - e_{k+1}. If they were independent and Poisson, the least-squares slope in the
    number of events would be E[f(O + v_k) - f(O)], and to second order in them E[f] is the level below::

        slope_k = f(e + v_k) - f(e),           alpha_n = slope_n - slope_{n-1}
        level   = f(e) + sum_k mu_k / 2 (f(e + 2 v_k) - 2 f(e + v_k) + f(e))
        S(x)    = level + sum_n alpha_n (O_n - e_n)

    Any constants leave the gradient unbiased; these make BLEU - S small, also where matches are rare, and there the
    tangent of BLEU would not (it is that of a curve of which only whole numbers of matches are seen).

    In words E[O | length] is not known. There e = E[O] stands in for it, and the slopes are their mean over lengths, so
    that the expectation of S needs no joint expectation.

    Returns the line, and E[O_n; length] (B, N, S) (in words the product of the two expectations, which does as well
    where slopes do not depend on the length). The one division is by P(length), clamped to the smallest normal number.
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
    support, closest = lengths.support[..., None], closest_lengths(statistics.references, lengths.support)[..., None]
    value, one, two = (
        score_matches(expected[..., None, :] + count * events, support, closest, score) for count in (0, 1, 2)
    )
    slopes = (one - value).diff(dim=2, prepend=torch.zeros_like(value[..., :1]))
    if in_words:
        slopes = (slopes * probs[..., None]).sum(1, keepdim=True).expand_as(slopes)
    numbers = -expected.diff(dim=2, append=torch.zeros_like(expected[..., :1]))
    level = value[..., 0] + (numbers / 2 * (two - 2 * one + value)).sum(2)
    return LinearBLEU(level - (slopes * expected).sum(2), slopes.transpose(1, 2)), joint


class UnbiasedBLEULoss(SampledLossBase):
    """1 - E[BLEU] with an unbiased gradient of little variance: an **estimate**, mostly of exact expectations.

    The expectation of BLEU has no closed form, but that of a linear function C of the matches has, and BLEU is close to
    one: ``C(x) = c + sum_n alpha_n O_n(x)``, fitted at the exact expected matches e_n = E[O_n]. For samples x of each
    sentence::

        value    = 1 - E[C] - mean over samples of BLEU(x) - C(x)
        gradient = -sum_n alpha_n grad e_n - mean over samples of (BLEU(x) - C(x)) grad log p(x)

    averaged over sentences and not divided by length. Their means are 1 - E[BLEU] and its gradient whatever c and alpha
    are, since they are held constant and E[C] is exact. BLEU is that of the sentence, smoothed. Only what is not linear
    in BLEU is left to the samples.

    With ``eos_id`` the length is random, and c and alpha are fitted to each length; E[C] follows from the exact joint
    expectations of matches and length. In words these are not known, so c is fitted to each length and alpha to all.

    Args:
        samples: of each sentence.
        generator: where the random numbers come from: a ``torch.Generator`` on the device of the logits, a seed for one
            of the loss's own, or None for torch's default.
        options: those of :class:`bleugrad.ExpectedBLEULoss` but ``method`` and ``level``, by name. Without smoothing
            BLEU is far from linear where an order has few matches, and the variance is larger.

    After a call ``statistics`` holds the samples, rewards and, as baselines, C(x), as
    :class:`~bleugrad.losses.sampling.SampleStatistics`.

    Rows must be independent, as teacher forcing makes them: the expectations are of tokens drawn from the rows given.

    Time is that of ``ExpectedBLEULoss`` and of :class:`bleugrad.ReinforceLoss` without the greedy
    baseline, on one softmax; memory one tensor of the logits' size.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits = torch.randn(2, 5, 100, requires_grad=True)
        >>> labels = torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> loss = bleugrad.UnbiasedBLEULoss(generator=0)(logits, labels)
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.654, torch.Size([2, 5, 100]))
    """

    patterns = True

    def __init__(
        self,
        *,
        samples: int = 1,
        generator: torch.Generator | int | None = None,
        **options: "Unpack[LossOptions]",
    ) -> None:
        super().__init__(samples, generator, options)

    def _drawn_loss(self, drawn: SampledRows) -> Tensor:
        targets = drawn.targets
        samples = self._reward_rows(drawn.tokens, targets)
        statistics = row_statistics(drawn.chosen_log_probs.exp(), drawn.opening, targets, Exact())
        linear, joint = linearise(statistics, self.expectation.score)
        expected = linear.expectation(statistics.lengths.probs, joint)
        stand_in = linear.of_samples(samples, random_length=not isinstance(statistics.lengths, FixedLengths))
        self._record(samples, stand_in, targets.limits > 0)
        residuals = (samples.rewards - stand_in).to(expected.dtype)
        value = 1 - expected - residuals.mean(1)
        surrogate = -expected - (residuals * samples.log_probs(drawn.log_probs)).mean(1)
        return self.reduce(with_gradient_of(value, surrogate), targets.limits > 0)

    def _chosen(self, targets: Targets, shape: tuple[int, int]) -> Tensor:
        return targets.columns[:, None].expand(*shape, -1)
