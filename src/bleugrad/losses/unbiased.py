"""The unbiased gradient of expected BLEU with little variance: exact expectations as the control variate of samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import check_logits
from bleugrad.core.certificates import matches_by_length
from bleugrad.core.expected_statistics import ScoreOptions, expected_statistics
from bleugrad.core.lengths import Lengths
from bleugrad.core.match_probabilities import Gathered
from bleugrad.core.sequences import IdLists, References
from bleugrad.losses.draws import token_log_probs
from bleugrad.losses.labels import Targets
from bleugrad.losses.rewards import RewardedSamples, RewardOptions, score_matches
from bleugrad.losses.sampling import SampledLossBase, with_gradient_of


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


def linearise(joint_matches: Tensor, lengths: Lengths, references: References, options: RewardOptions) -> LinearBLEU:
    """The line that follows BLEU best where matches come in rare events, for each length l with e = E[O | length l].

    A match of order k brings one of every lower order with it: an *event* adds 1 to O_1..O_k, written O + v_k, and
    their expected number is mu_k = e_k - e_{k+1}. If they were independent and Poisson, the least-squares slope in the
    number of events would be E[f(O + v_k) - f(O)], and to second order in them E[f] is the level below::

        slope_k = f(e + v_k) - f(e),           alpha_n = slope_n - slope_{n-1}
        level   = f(e) + sum_k mu_k / 2 (f(e + 2 v_k) - 2 f(e + v_k) + f(e))
        S(x)    = level + sum_n alpha_n (O_n - e_n)

    Any constants leave the gradient unbiased; these make BLEU - S small, also where matches are rare, and there the
    tangent of BLEU would not (it is that of a curve of which only whole numbers of matches are seen).

    The one division is by P(length), clamped to the smallest normal number. O(B N^2 S) time.
    """
    probs = lengths.probs.detach()
    expected = (joint_matches.detach() / probs.clamp(min=torch.finfo(probs.dtype).tiny)[:, None]).transpose(1, 2)
    events = torch.ones(options.max_order, options.max_order, dtype=probs.dtype, device=probs.device).tril()
    closest = references.closest_lengths(lengths.support)
    value, one, two = (
        score_matches(expected[..., None, :] + count * events, lengths.support[..., None], closest[..., None], options)
        for count in (0, 1, 2)
    )
    slopes = (one - value).diff(dim=2, prepend=torch.zeros_like(value[..., :1]))
    numbers = -expected.diff(dim=2, append=torch.zeros_like(expected[..., :1]))
    level = value[..., 0] + (numbers / 2 * (two - 2 * one + value)).sum(2)
    return LinearBLEU(level - (slopes * expected).sum(2), slopes.transpose(1, 2))


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
    expectations of matches and length.

    Args:
        samples: of each sentence.
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: added to matches and totals of every order. Without it BLEU is far from linear where an order has few
            matches, and the variance is larger.
        eos_id: samples end before their first EOS, and so do labels and references.
        ignore_index: labels equal to it do not count.
        reduction: "mean" over sentences with a position that counts, "sum", or "none" for (B,), 0 where nothing counts.
        generator: where the random numbers come from: a ``torch.Generator`` on the device of the logits, a seed for one
            of the loss's own, or None for torch's default.

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

    def __init__(
        self,
        samples: int = 1,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        generator: torch.Generator | int | None = None,
    ) -> None:
        super().__init__(samples, max_order, weights, smoothing, eos_id, ignore_index, reduction, generator)

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            logits: (B, T, V).
            labels: (B, T), as for cross-entropy. May be left out where ``references`` are given.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count; by default those with a label.
        """
        check_logits(logits)
        with torch.autocast(logits.device.type, enabled=False):
            targets, rows = self._prepare(logits, labels, references, mask)
            samples = self._reward(self._draw(rows), targets)
            gathered, of_tokens = self._gather(logits, rows, samples.tokens, targets)
            joint, lengths = self._joint_matches(gathered, targets)
            linear = linearise(joint, lengths, targets.references, self.options)
            return self._loss(samples, samples.log_probs(of_tokens), linear, joint, lengths, targets.mask.any(1))

    def _gather(self, logits: Tensor, rows: Tensor, tokens: Tensor, targets: Targets) -> tuple[Gathered, Tensor]:
        """Match probabilities, and the sampled tokens' log-probabilities (B, S, T), in one pass."""
        columns = targets.counted.columns()
        everywhere = columns[:, None].expand(-1, rows.shape[1], -1)
        log_probs = token_log_probs(logits, rows, torch.cat([everywhere, tokens.transpose(1, 2)], 2))
        of_columns, of_tokens = log_probs.split([columns.shape[1], tokens.shape[1]], 2)
        nothing = of_columns.new_empty(0)
        return Gathered(of_columns.exp(), nothing, nothing), of_tokens.transpose(1, 2)

    def _joint_matches(self, gathered: Gathered, targets: Targets) -> tuple[Tensor, Lengths]:
        """Exact E[O_n; length] (B, N, S), and the lengths."""
        options = self.options
        exact = ScoreOptions("exact", options.max_order, options.weights, options.smoothing, "sentence")
        statistics = expected_statistics(gathered, targets.counted, targets.mask, exact)
        assert statistics.new_matches is not None
        return matches_by_length(statistics.new_matches, statistics.windows.ending), statistics.lengths

    def _loss(
        self,
        samples: RewardedSamples,
        log_probs: Tensor,
        linear: LinearBLEU,
        joint: Tensor,
        lengths: Lengths,
        counted: Tensor,
    ) -> Tensor:
        expected = linear.expectation(lengths.probs, joint)
        stand_in = linear.of_samples(samples, random_length=self.options.eos_id is not None)
        self._watch(samples, stand_in, counted)
        residuals = (samples.rewards - stand_in).to(expected.dtype)
        value = 1 - expected - residuals.mean(1)
        return self._reduce(with_gradient_of(value, -expected - (residuals * log_probs).mean(1)), counted)
