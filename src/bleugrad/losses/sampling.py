"""The base of losses from samples, which are drawn from the rows of logits or given by a decoder."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bleugrad.arguments import check_int, check_nonnegative
from bleugrad.backends import operations
from bleugrad.backends.devices import widest_float
from bleugrad.losses.base import BLEULossBase
from bleugrad.matches.statistics import check_rows
from bleugrad.outputs.rows import Rows, check_floating
from bleugrad.references.sequences import (
    IdLists,
    References,
    before_eos,
    check_ids,
    check_range,
    close_up,
    prepare_references,
)
from bleugrad.references.targets import Targets, check_bool, prepare_targets
from bleugrad.scores.token_matches import token_matches


@dataclass(frozen=True)
class SampleStatistics:
    """Samples and rewards of the last call of a sampled loss, detached. S samples per sentence."""

    #: (B, S, T), the samples at their positions, including tokens after EOS and tokens that do not count.
    tokens: Tensor
    lengths: Tensor  #: (B, S), lengths of the rewarded sequences.
    rewards: Tensor  #: (B, S), smoothed sentence BLEU.
    baselines: Tensor  #: (B, S), subtracted from the rewards.
    counted: Tensor  #: (B,), False for a sentence without a position that counts. The means below leave it out.

    @property
    def advantages(self) -> Tensor:
        """Rewards minus baselines, (B, S)."""
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
class RewardedSamples:
    """S sequences of each sentence and their rewards, of the tokens before EOS, or of the words they make."""

    tokens: Tensor  #: (B, S, T), where they were drawn.
    scored: Tensor  #: (B, S, T) bool, tokens whose probabilities multiply to that of the sequence, up to EOS.
    matches: Tensor  #: (B, S, N)
    lengths: Tensor  #: (B, S)
    rewards: Tensor  #: (B, S)

    def first(self, number: int) -> "RewardedSamples":
        """The first samples of each sentence."""
        return RewardedSamples(*(part[:, :number] for part in vars(self).values()))

    def log_probs(self, of_tokens: Tensor) -> Tensor:
        """Log-probabilities of the sequences (B, S) from those of their tokens (B, S, T)."""
        return torch.where(self.scored, of_tokens, 0).sum(2)


@dataclass(frozen=True)
class SampledRows:
    """Samples of the rows of a batch, and log-probabilities of chosen tokens."""

    tokens: Tensor  #: (B, S, T)
    log_probs: Tensor  #: (B, S, T), of the tokens.
    greedy: Tensor  #: (B, T), the most likely token of each row.
    chosen_log_probs: Tensor  #: (B, T, J), of the chosen tokens.
    label_log_probs: Tensor | None  #: (B, T), of the labels; None without cross-entropy.
    opening: Tensor  #: (B, T), the probability that a token opens a word.


@dataclass(kw_only=True, eq=False, repr=False)
class SampledLossBase(BLEULossBase):
    """A loss from samples of each sentence.

    ``statistics`` describes the last call. It is None before the first call, and not recorded under torch.compile.
    """

    samples: int = 1
    generator: torch.Generator | int | None = None
    cross_entropy_weight: float = 0.0
    needs_patterns: ClassVar[bool] = False  # whether the targets need the n-grams of the references

    def __post_init__(self) -> None:
        super().__post_init__()
        check_nonnegative("cross_entropy_weight", self.cross_entropy_weight)
        check_samples(self.samples)
        given = self.generator
        if isinstance(given, bool) or not isinstance(given, torch.Generator | int | None):
            found = f"generator is a {type(given).__name__}"
            raise TypeError(f"{found}; expected a torch.Generator, a seed (int) or None")
        if isinstance(given, int):
            check_int("generator", given)
        self.seeded: torch.Generator | None = None
        self.statistics: SampleStatistics | None = None

    def chosen_tokens(self, targets: Targets, steps: int) -> Tensor:
        """Return more tokens (B, T, J) whose log-probabilities the estimate needs."""
        return targets.columns.new_empty(targets.columns.shape[0], steps, 0)

    def estimate(self, drawn: SampledRows, targets: Targets) -> Tensor:
        """Return the loss from samples of the rows, see :meth:`finish`."""
        raise NotImplementedError

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of samples that are drawn from the rows of the logits (B, T, V).

        ``labels``, ``references`` and ``mask`` are those of :class:`bleugrad.ExpectedBLEULoss`. Labels are needed if
        cross-entropy is added or if they are a candidate.
        """
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
            max_order=self.max_order if self.needs_patterns else None,
        )
        with torch.autocast(logits.device.type, enabled=False):
            drawn = self._draw(logits, targets)
            loss = self.estimate(drawn, targets)
            if drawn.label_log_probs is not None:
                loss = loss + self.cross_entropy(drawn.label_log_probs, targets, self.cross_entropy_weight)
        return loss

    def uniform(self, batch: int, steps: int, device: torch.device) -> Tensor:
        """Return random numbers for each row, (B, T, S) in 0..1."""
        shape, kind, source = (batch, steps, self.samples), widest_float(device), self.generator
        if source is None:
            return torch.rand(shape, dtype=kind, device=device)
        if torch.compiler.is_compiling():
            raise RuntimeError("a generator or seed cannot be compiled; expected generator=None under torch.compile")
        if isinstance(source, int):
            if self.seeded is None or self.seeded.device.type != device.type:
                self.seeded = torch.Generator(device).manual_seed(source)
            source = self.seeded
        return torch.rand(shape, generator=source, dtype=kind, device=device)

    def _draw(self, logits: Tensor, targets: Targets) -> SampledRows:
        """Sample the rows of the logits."""
        (batch, steps, _), number = logits.shape, self.samples
        chosen, with_labels = self.chosen_tokens(targets, steps), self.cross_entropy_weight > 0
        if with_labels:
            chosen = torch.cat([chosen, targets.given_labels()[0][..., None]], 2)
        opening_of = None if targets.patterns is None else targets.word_start
        uniform = self.uniform(batch, steps, logits.device)
        tokens, greedy = operations.sampled_tokens(logits.detach(), uniform)
        every = torch.cat([tokens, chosen], 2)
        _, log_probs, opening, *_ = operations.row_probabilities(
            logits, targets.columns[:, :0], every, opening_of, 1.0, False
        )
        check_rows(log_probs, targets)
        of_tokens, of_chosen, of_labels = log_probs[..., :number], log_probs[..., number:], None
        if with_labels:
            of_chosen, of_labels = of_chosen[..., :-1], of_chosen[..., -1]
        return SampledRows(tokens.transpose(1, 2), of_tokens.transpose(1, 2), greedy, of_chosen, of_labels, opening)

    def finish(
        self, value: Tensor, surrogate: Tensor, samples: RewardedSamples, baselines: Tensor, counted: Tensor
    ) -> Tensor:
        """Reduce ``value`` (B,), with the gradient of ``surrogate`` (B,), over the counted sentences (B,).

        The samples are recorded with their baselines, (B, S) or (B, 1).
        """
        if not torch.compiler.is_compiling():
            baselines = baselines.detach().expand_as(samples.rewards)
            self.statistics = SampleStatistics(samples.tokens, samples.lengths, samples.rewards, baselines, counted)
        return self.reduce(value.detach() + (surrogate - surrogate.detach()), counted)

    def reward(self, tokens: Tensor, references: References, valid: Tensor) -> RewardedSamples:
        """Return smoothed sentence BLEU of sequences: exact, equal to :func:`bleugrad.bleu`.

        A sequence is the tokens (B, S, T) at ``valid`` (B, S, T) or (B, 1, T) positions before EOS.
        """
        (batch, number, _), score, eos_id = tokens.shape, self.expectation.score, self.expectation.eos_id
        valid = valid.expand_as(tokens)
        kept = scored = before_eos(tokens, valid, eos_id)
        if eos_id is not None:
            ends = (tokens == eos_id) & valid
            scored = kept | (ends & (ends.cumsum(-1) == 1))
        ids, lengths = close_up(torch.where(kept, tokens, 0).flatten(0, 1), kept.flatten(0, 1))
        folded = References(*(part.repeat_interleave(number, 0) for part in (references.ids, references.lengths)))
        statistics = token_matches(ids, lengths, folded, score.max_order, self.word_start).statistics()
        return RewardedSamples(
            tokens=tokens,
            scored=scored,
            matches=statistics.matches.view(batch, number, score.max_order),
            lengths=statistics.lengths.support.view(batch, number),
            rewards=score.value(statistics, "sentence", None).view(batch, number),
        )

    def reward_rows(self, tokens: Tensor, targets: Targets) -> RewardedSamples:
        """Return the rewards of tokens (B, S, T) at the positions of the targets."""
        valid = torch.ones_like(tokens[:, :1], dtype=torch.bool) if targets.mask is None else targets.mask[:, None]
        return self.reward(tokens, targets.tokens, valid)

    def reward_given(
        self, tokens: Tensor, log_probs: Tensor, references: Tensor | IdLists, mask: Tensor | None
    ) -> tuple[RewardedSamples, Tensor, References, Tensor]:
        """Check and reward the samples of a decoder: tokens and log-probabilities (B, S, T), or (B, T) for S = 1.

        Returns the samples, their log-probabilities (B, S), the references, and the counted sentences (B,).
        """
        expectation = self.expectation
        if self.cross_entropy_weight > 0:
            raise ValueError(
                "cross_entropy_weight is above 0, but samples come without logits; add cross-entropy yourself"
            )
        ids = check_given_tokens("tokens", tokens)
        of_tokens = check_floating("log_probs", log_probs, "(B, S, T) or (B, T)", tokens.dim()).to(ids.device)
        if of_tokens.shape != tokens.shape:
            found = f"log_probs has shape {tuple(of_tokens.shape)}"
            raise ValueError(f"{found}; expected {tuple(tokens.shape)}, that of tokens")
        of_tokens = of_tokens.to(torch.promote_types(of_tokens.dtype, torch.float32)).view_as(ids)
        valid = ids != expectation.ignore_index
        if mask is not None:
            mask = check_bool("mask", mask, tokens.shape, "that of tokens", "where a token counts")
            valid &= mask.to(ids.device).view_as(ids)
        check_range("tokens", ids, valid, None, expectation.ignore_index)
        prepared = prepare_references(
            references,
            batch=ids.shape[0],
            of="tokens",
            device=ids.device,
            eos_id=expectation.eos_id,
            ignore_index=expectation.ignore_index,
        )
        samples = self.reward(torch.where(valid, ids, 0), prepared, valid)
        of_samples = samples.log_probs(of_tokens)
        if not torch.compiler.is_compiling() and not of_samples.detach().sum().isfinite():
            raise ValueError("log_probs holds NaN or an infinity where a token counts; expected a finite sum")
        return samples, of_samples, prepared, valid.any(2).any(1)


def check_given_tokens(name: str, tokens: object) -> Tensor:
    """Return ids (B, T) or (B, S, T) as (B, S, T)."""
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name} is a {type(tokens).__name__}; expected a tensor of token ids, (B, S, T) or (B, T)")
    ids = check_ids(name, tokens)
    if ids.dim() not in (2, 3) or 0 in ids.shape[1:-1]:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}; expected (B, S, T) or (B, T)")
    return ids if ids.dim() == 3 else ids.unsqueeze(1)


def check_samples(samples: object, least: int = 1, reason: str = "") -> None:
    """Raise unless ``samples`` is an int of at least ``least``."""
    number = check_int("samples", samples)
    if not least <= number < 2**31:
        raise ValueError(f"samples is {number}; expected {least} or more{reason}, and below 2**31")
