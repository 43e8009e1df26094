"""What the sampled losses share: options, random numbers, statistics, and the way from sentences to the loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bleugrad.core.arguments import (
    check_batch,
    check_choice,
    check_eos,
    check_finite_rows,
    check_ids,
    check_int,
    check_logits,
    check_range,
)
from bleugrad.core.sequences import IdLists, References, prepare_references
from bleugrad.losses.draws import draw_tokens, softmax_rows
from bleugrad.losses.expected import REDUCTIONS
from bleugrad.losses.labels import Targets, prepare_targets
from bleugrad.losses.rewards import RewardedSamples, RewardOptions, reward_samples


@dataclass(frozen=True)
class SampleStatistics:
    """What a sampled loss saw in its last call, detached. S samples a sentence.

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


class SampledLossBase(nn.Module):
    """What the sampled losses share. ``statistics`` describes the last call, None before the first."""

    statistics: SampleStatistics | None

    def __init__(
        self,
        samples: int,
        max_order: int,
        weights: Sequence[float] | None,
        smoothing: float,
        eos_id: int | None,
        ignore_index: int,
        reduction: str,
        generator: torch.Generator | int | None,
    ) -> None:
        super().__init__()
        self.samples = check_samples(samples)
        self.options = RewardOptions.checked(max_order, weights, smoothing, eos_id)
        self.ignore_index = check_int("ignore_index", ignore_index)
        check_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction
        self.seed, self.generator = _check_generator(generator)
        self.statistics = None

    def extra_repr(self) -> str:
        """The options, as they were given."""
        options = self.options
        return (
            f"samples={self.samples}, max_order={options.max_order}, smoothing={options.smoothing}, "
            f"eos_id={options.eos_id}, ignore_index={self.ignore_index}, reduction={self.reduction!r}"
        )

    def _prepare(
        self, logits: Tensor, labels: Tensor | None, references: Tensor | IdLists | None, mask: Tensor | None
    ) -> tuple[Targets, Tensor]:
        """The targets and the softmax of the logits, both checked."""
        batch, steps, vocabulary = check_logits(logits).shape
        check_eos(self.options.eos_id, vocabulary)
        targets = prepare_targets(
            labels,
            references,
            mask,
            batch=batch,
            steps=steps,
            vocabulary=vocabulary,
            device=logits.device,
            eos_id=self.options.eos_id,
            ignore_index=self.ignore_index,
        )
        rows = softmax_rows(logits)
        check_finite_rows(rows, targets.mask)
        return targets, rows

    def _draw(self, rows: Tensor) -> Tensor:
        if self.seed is not None and (self.generator is None or self.generator.device.type != rows.device.type):
            self.generator = torch.Generator(rows.device).manual_seed(self.seed)
        return draw_tokens(rows, self.samples, self.generator)

    def _reward(self, tokens: Tensor, targets: Targets) -> RewardedSamples:
        return reward_samples(tokens, targets.mask[:, None], targets.references, self.options)

    def _watch(self, samples: RewardedSamples, baselines: Tensor, counted: Tensor) -> None:
        baselines = baselines.detach().expand_as(samples.rewards)
        self.statistics = SampleStatistics(samples.tokens, samples.lengths, samples.rewards, baselines, counted)

    def _reduce(self, per_sentence: Tensor, counted: Tensor) -> Tensor:
        per_sentence = torch.where(counted, per_sentence, 0)
        if self.reduction == "none":
            return per_sentence
        total = per_sentence.sum()
        return total if self.reduction == "sum" else total / counted.sum().clamp(min=1)


@dataclass(frozen=True)
class GivenSamples:
    """Sequences of a decoder: rewarded, the log-probabilities (B, S) of each, references, and who counts (B,)."""

    samples: RewardedSamples
    log_probs: Tensor
    references: References
    counted: Tensor


def prepare_given_samples(
    tokens: Tensor,
    log_probs: Tensor,
    references: Tensor | IdLists,
    mask: Tensor | None,
    options: RewardOptions,
    ignore_index: int,
) -> GivenSamples:
    """Check and reward what a decoder sampled: tokens and their log-probabilities (B, S, T), or (B, T) for S = 1."""
    ids = check_given_tokens("tokens", tokens)
    of_tokens = _check_log_probs(log_probs, tokens).view_as(ids)
    valid = (ids != ignore_index) & _check_given_mask(mask, tokens).view_as(ids)
    check_range("tokens", ids, valid, None, ignore_index)
    prepared = prepare_references(
        references,
        batch=ids.shape[0],
        of="tokens",
        device=ids.device,
        eos_id=options.eos_id,
        ignore_index=ignore_index,
    )
    samples = reward_samples(torch.where(valid, ids, 0), valid, prepared, options)
    return GivenSamples(samples, samples.log_probs(of_tokens), prepared, valid.any(2).any(1))


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
    return mask


def _check_generator(generator: object) -> tuple[int | None, torch.Generator | None]:
    """The seed of a generator yet to be made, or a generator, or neither."""
    if generator is None or isinstance(generator, torch.Generator):
        return None, generator
    if isinstance(generator, bool) or not isinstance(generator, int):
        raise TypeError(f"generator is a {type(generator).__name__}; expected a torch.Generator, a seed (int) or None")
    return check_int("generator", generator), None
