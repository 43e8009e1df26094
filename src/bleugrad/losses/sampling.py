"""What the sampled losses share: options, random numbers, statistics, and the samples of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_int
from bleugrad.backends import operations
from bleugrad.backends.dtypes import widest_float
from bleugrad.expectation import Expectation
from bleugrad.losses.base import LossBase, LossOptions
from bleugrad.losses.rewards import RewardedSamples, reward_samples
from bleugrad.matches.statistics import check_rows
from bleugrad.outputs.rows import Rows
from bleugrad.references.sequences import (
    IdLists,
    References,
    check_batch,
    check_ids,
    check_range,
    prepare_references,
)
from bleugrad.references.targets import Targets, prepare_targets
from bleugrad.scores.bleu import BLEU


@dataclass(frozen=True)
class SampleStatistics:
    """What a sampled loss saw in its last call, detached. S samples per sentence.

    Attributes:
        tokens: (B, S, T), the samples where they were drawn, with what follows their EOS or does not count.
        lengths: (B, S), of the sequences that were rewarded.
        rewards: (B, S), smoothed sentence BLEU.
        baselines: (B, S), what was subtracted from the rewards.
        counted: (B,), False where a sentence has no position that counts; the means below leave it out.
    """

    tokens: Tensor
    lengths: Tensor
    rewards: Tensor
    baselines: Tensor
    counted: Tensor

    @property
    def advantages(self) -> Tensor:
        """Rewards less baselines, (B, S)."""
        return self.rewards - self.baselines

    @property
    def mean_reward(self) -> Tensor:
        """Mean BLEU of the samples, a scalar."""
        return self._mean(self.rewards)

    @property
    def mean_baseline(self) -> Tensor:
        """Mean of the baselines, a scalar."""
        return self._mean(self.baselines)

    @property
    def advantage_spread(self) -> Tensor:
        """Root mean square of the advantages, a scalar."""
        return self._mean(self.advantages.square()).sqrt()

    def _mean(self, values: Tensor) -> Tensor:
        number = (self.counted.sum() * values.shape[1]).clamp(min=1)
        return torch.where(self.counted[:, None], values, 0).sum() / number


@dataclass(frozen=True)
class GivenSamples:
    """Rewarded sequences of a decoder, their log-probabilities (B, S), references, and the counted sentences (B,)."""

    samples: RewardedSamples
    log_probs: Tensor
    references: References
    counted: Tensor


@dataclass(frozen=True)
class SampledRows:
    """Samples drawn from the rows of a batch, with log-probabilities of chosen tokens from the same softmax.

    ``tokens`` (B, S, T) with ``log_probs`` (B, S, T). ``greedy`` (B, T) is the most likely token of each row.
    ``chosen_log_probs`` (B, T, J) are those of the tokens that were asked for, ``label_log_probs`` (B, T) those of the
    labels where cross-entropy is wanted, and ``opening`` (B, T) the probability that a token opens a word.
    """

    targets: Targets
    tokens: Tensor
    log_probs: Tensor
    greedy: Tensor
    chosen_log_probs: Tensor
    label_log_probs: Tensor | None
    opening: Tensor


class SampledLossBase(LossBase, ABC):
    """A loss from samples of each sentence.

    ``statistics`` describes the last call; it is None before the first, and is not recorded under torch.compile.
    """

    statistics: SampleStatistics | None
    patterns = False
    """Whether the targets need the n-grams of the references."""

    def __init__(self, samples: int, generator: torch.Generator | int | None, options: LossOptions) -> None:
        rest: dict[str, Any] = dict(options)
        score = {name: rest.pop(name) for name in ("max_order", "weights", "smoothing") if name in rest}
        ids = {name: rest.pop(name) for name in ("eos_id", "ignore_index") if name in rest}
        super().__init__(Expectation(BLEU(**score), "exact", "sentence", **ids), **rest)
        self.samples = check_samples(samples)
        self.seed, self.generator = _check_generator(generator)
        self.statistics = None

    def extra_repr(self) -> str:
        """The options."""
        return f"samples={self.samples}, {super().extra_repr()}"

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss, of samples drawn from the rows of the logits.

        Args:
            logits: (B, T, V).
            labels: (B, T), as for cross-entropy. May be left out where ``references`` are given, unless the
                cross-entropy or a candidate is made of them.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count; by default those with a label.
        """
        with torch.autocast(Rows(logits).device.type, enabled=False):
            drawn = self._sample(logits, labels, references, mask)
            return self.add_cross_entropy(self._drawn_loss(drawn), drawn.label_log_probs, drawn.targets)

    @abstractmethod
    def _drawn_loss(self, drawn: SampledRows) -> Tensor:
        """The loss without cross-entropy."""

    def _sample(
        self,
        logits: Tensor,
        labels: Tensor | None,
        references: Tensor | IdLists | None,
        mask: Tensor | None,
    ) -> SampledRows:
        """Samples of the rows of the logits, with the targets; all is checked."""
        rows, expectation = Rows(logits), self.expectation
        targets = prepare_targets(
            rows.shape,
            rows.device,
            labels,
            references,
            mask,
            eos_id=expectation.eos_id,
            ignore_index=expectation.ignore_index,
            word_start=self.word_start,
            max_order=expectation.score.max_order if self.patterns else None,
        )
        batch, steps, _ = rows.shape
        chosen = self._chosen(targets, (batch, steps))
        if self.cross_entropy_weight > 0:
            if targets.labels is None:
                raise TypeError("labels is None; expected (B, T) token ids, since cross_entropy_weight is above 0")
            chosen = torch.cat([chosen, targets.labels[..., None]], 2)
        uniform = self._uniform(batch, steps, rows.device)
        tokens, log_probs, greedy, opening = operations.sampled_rows(
            logits, uniform, chosen, targets.word_start if self.patterns else None
        )
        check_rows(log_probs, targets)
        of_tokens, of_chosen = log_probs[..., : self.samples], log_probs[..., self.samples :]
        of_labels = None
        if self.cross_entropy_weight > 0:
            of_chosen, of_labels = of_chosen[..., :-1], of_chosen[..., -1]
        return SampledRows(
            targets, tokens.transpose(1, 2), of_tokens.transpose(1, 2), greedy, of_chosen, of_labels, opening
        )

    def _chosen(self, targets: Targets, shape: tuple[int, int]) -> Tensor:
        """Tokens (B, T, J) whose log-probabilities are wanted besides those of the samples."""
        return targets.columns.new_empty(*shape, 0)

    def _uniform(self, batch: int, steps: int, device: torch.device) -> Tensor:
        """Random numbers of each row, (B, T, S) in 0..1."""
        shape, kind = (batch, steps, self.samples), widest_float(device)
        if self.seed is None and self.generator is None:
            return torch.rand(shape, dtype=kind, device=device)
        if torch.compiler.is_compiling():
            raise RuntimeError("a generator or seed cannot be compiled; expected generator=None under torch.compile")
        if self.seed is not None and (self.generator is None or self.generator.device.type != device.type):
            self.generator = torch.Generator(device).manual_seed(self.seed)
        return torch.rand(shape, generator=self.generator, dtype=kind, device=device)

    def _reward(self, tokens: Tensor, valid: Tensor, references: References) -> RewardedSamples:
        expectation = self.expectation
        word_start = self.word_start
        if word_start is not None:
            word_start = word_start.to(tokens.device)
        return reward_samples(tokens, valid, references, expectation.score, expectation.eos_id, word_start)

    def _reward_rows(self, tokens: Tensor, targets: Targets) -> RewardedSamples:
        """Rewards of tokens (B, S, T) that stand at the positions of the targets."""
        valid = torch.ones_like(tokens[:, :1], dtype=torch.bool) if targets.mask is None else targets.mask[:, None]
        return self._reward(tokens, valid, targets.tokens)

    def _record(self, samples: RewardedSamples, baselines: Tensor, counted: Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        baselines = baselines.detach().expand_as(samples.rewards)
        self.statistics = SampleStatistics(samples.tokens, samples.lengths, samples.rewards, baselines, counted)

    def _given(
        self, tokens: Tensor, log_probs: Tensor, references: Tensor | IdLists, mask: Tensor | None
    ) -> GivenSamples:
        """Check and reward the samples of a decoder: tokens and log-probabilities (B, S, T), or (B, T) for S = 1."""
        if self.cross_entropy_weight > 0:
            raise ValueError(
                "cross_entropy_weight is above 0, but samples come without logits; add cross-entropy yourself"
            )
        ignore_index = self.expectation.ignore_index
        ids = check_given_tokens("tokens", tokens)
        of_tokens = _check_log_probs(log_probs, tokens).view_as(ids)
        valid = (ids != ignore_index) & _check_given_mask(mask, tokens).view_as(ids)
        check_range("tokens", ids, valid, None, ignore_index)
        prepared = prepare_references(
            references,
            batch=ids.shape[0],
            of="tokens",
            device=ids.device,
            eos_id=self.expectation.eos_id,
            ignore_index=ignore_index,
        )
        samples = self._reward(torch.where(valid, ids, 0), valid, prepared)
        of_samples = samples.log_probs(of_tokens)
        if not torch.compiler.is_compiling() and not of_samples.detach().sum().isfinite():
            raise ValueError("log_probs holds NaN or an infinity where a token counts; expected a finite sum")
        return GivenSamples(samples, of_samples, prepared, valid.any(2).any(1))


def check_given_tokens(name: str, tokens: object, batch: int | None = None) -> Tensor:
    """Return ids (B, T) or (B, S, T) as (B, S, T)."""
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name} is a {type(tokens).__name__}; expected a tensor of token ids, (B, S, T) or (B, T)")
    ids = check_ids(name, tokens)
    if ids.dim() not in (2, 3) or 0 in ids.shape[1:-1]:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}; expected (B, S, T) or (B, T)")
    if batch is not None:
        check_batch(name, ids.shape[0], batch, "tokens")
    return ids if ids.dim() == 3 else ids.unsqueeze(1)


def check_samples(samples: object, least: int = 1, reason: str = "") -> int:
    """Return ``samples`` as an int of at least ``least``."""
    number = check_int("samples", samples)
    if not least <= number < 2**31:
        raise ValueError(f"samples is {number}; expected {least} or more{reason}, and below 2**31")
    return number


def with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """What equals ``value`` and has the gradient of ``surrogate``."""
    return value.detach() + (surrogate - surrogate.detach())


def _check_log_probs(log_probs: object, tokens: Tensor) -> Tensor:
    if not isinstance(log_probs, Tensor) or not log_probs.is_floating_point():
        found = log_probs.dtype if isinstance(log_probs, Tensor) else type(log_probs).__name__
        raise TypeError(f"log_probs is {found}; expected a floating tensor, the log-probability of each token")
    if log_probs.shape != tokens.shape:
        raise ValueError(
            f"log_probs has shape {tuple(log_probs.shape)}; expected that of tokens, {tuple(tokens.shape)}"
        )
    return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))


def _check_given_mask(mask: object, tokens: Tensor) -> Tensor:
    if mask is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask is {found}; expected a bool tensor, True where a token counts")
    if mask.shape != tokens.shape:
        raise ValueError(f"mask has shape {tuple(mask.shape)}; expected that of tokens, {tuple(tokens.shape)}")
    return mask.to(tokens.device)


def _check_generator(generator: object) -> tuple[int | None, torch.Generator | None]:
    """The seed of a generator yet to be made, or a generator, or neither."""
    if generator is None or isinstance(generator, torch.Generator):
        return None, generator
    if isinstance(generator, bool) or not isinstance(generator, int):
        raise TypeError(f"generator is a {type(generator).__name__}; expected a torch.Generator, a seed (int) or None")
    return check_int("generator", generator), None
