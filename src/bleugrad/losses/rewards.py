"""Rewards: smoothed sentence BLEU of sampled token ids, on their device, the samples folded into the batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.references.sequences import References, before_eos, close_up
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.token_matches import token_matches


@dataclass(frozen=True)
class RewardedSamples:
    """Sequences of each sentence, S of them, and their rewards.

    ``tokens`` (B, S, T) stand where they were drawn. ``scored`` (B, S, T) is True at the tokens whose probabilities
    multiply to the probability of the sequence: those before the first EOS, and that EOS. ``matches`` (B, S, N),
    ``lengths`` (B, S) and ``rewards`` (B, S) are those of the tokens before it, or of the words they make.
    """

    tokens: Tensor
    scored: Tensor
    matches: Tensor
    lengths: Tensor
    rewards: Tensor

    def first(self, number: int) -> "RewardedSamples":
        """The first samples of each sentence."""
        return RewardedSamples(*(part[:, :number] for part in vars(self).values()))

    def log_probs(self, of_tokens: Tensor) -> Tensor:
        """Log-probabilities of the sequences (B, S) from those of their tokens (B, S, T)."""
        return torch.where(self.scored, of_tokens, 0).sum(2)


def reward_samples(
    tokens: Tensor,
    valid: Tensor,
    references: References,
    score: BLEU,
    eos_id: int | None,
    word_start: Tensor | None = None,
) -> RewardedSamples:
    """Smoothed sentence BLEU of sequences: exact, equal to :func:`bleugrad.bleu`.

    A sequence is the tokens (B, S, T) at ``valid`` (B, S, T) or (B, 1, T) positions before EOS. ``references`` are of
    the B sentences, in tokens. With ``word_start`` (V,) words are counted. O(B S N (T + L) log(T + L)) time.
    """
    batch, samples, _ = tokens.shape
    valid = valid.expand_as(tokens)
    kept = scored = before_eos(tokens, valid, eos_id)
    if eos_id is not None:
        ends = (tokens == eos_id) & valid
        scored = kept | (ends & (ends.cumsum(-1) == 1))
    ids, lengths = close_up(torch.where(kept, tokens, 0).flatten(0, 1), kept.flatten(0, 1))
    folded = References(references.ids.repeat_interleave(samples, 0), references.lengths.repeat_interleave(samples, 0))
    statistics = token_matches(ids, lengths, folded, score.max_order, word_start).statistics()
    return RewardedSamples(
        tokens=tokens,
        scored=scored,
        matches=statistics.matches.view(batch, samples, score.max_order),
        lengths=statistics.lengths.support.view(batch, samples),
        rewards=score.value(statistics, "sentence", None).view(batch, samples),
    )


def leave_one_out(values: Tensor) -> Tensor:
    """The mean of the other samples of the same sentence: (B, S) to (B, S), for S of at least 2.

    >>> leave_one_out(torch.tensor([[1.0, 2.0, 6.0]])).tolist()
    [[4.0, 3.5, 1.5]]
    """
    return (values.sum(1, keepdim=True) - values) / (values.shape[1] - 1)
