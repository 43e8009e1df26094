"""Scores of token ids, batched, on the ids' device, and the increments of a score as a sequence grows."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bleugrad.arguments import LEVELS, check_choice, check_int
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.sequences import (
    Hypotheses,
    IdLists,
    References,
    before_eos,
    pad_lists,
    prepare_hypotheses,
    prepare_references,
)
from bleugrad.scores.bleu import BLEU, closest_lengths, mean_totals
from bleugrad.scores.results import BLEUResult
from bleugrad.scores.score import Score, check_score
from bleugrad.scores.token_matches import prefix_lengths, token_matches


def bleu(
    hypotheses: Hypotheses,
    references: Tensor | IdLists,
    *,
    hypothesis_lengths: Tensor | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    level: str = "corpus",
    ignore_index: int = -100,
    word_start: Tensor | None = None,
) -> BLEUResult:
    """BLEU of token ids: exact, and with ``smoothing=0`` equal to sacreBLEU's on the same tokens.

    The clipped matches are those of the paper's matrices of equal n-grams, of which at most 2**14 entries exist per
    sentence. Longer sentences number their n-grams by sorting, in O(N (T + L) log(T + L)) time and O(N K (T + L))
    memory per sentence.

    Args:
        hypotheses: (B, T) ids, or nested lists. Positions equal to ``ignore_index`` do not count.
        references: as for :func:`bleugrad.expected_bleu`. Counts are clipped at the maximum over references. The
            reference length is the closest one, the shorter one of two. If there are several references, empty ones are
            ignored.
        hypothesis_lengths: (B,), number of positions that count, from the first.
        max_order: highest n-gram order N.
        weights: of the orders, see :class:`bleugrad.BLEU`.
        smoothing: s, see :class:`bleugrad.BLEU`.
        level: "corpus" sums the statistics of the batch and computes one score, "sentence" scores each sentence.
        ignore_index: the padding id.
        word_start: (V,) bool, tokens that open a word. If given, words are counted. Words are equal if all their
            tokens are equal.

    Without smoothing, an order without matches makes BLEU 0, as in sacreBLEU without effective order. An empty
    hypothesis has brevity penalty 0 unless the reference is empty too.

    Example:
        >>> import torch, bleugrad
        >>> result = bleugrad.bleu(torch.tensor([[1, 2, 3, 4, 9]]), torch.tensor([[1, 2, 3, 4, 5, 6]]), smoothing=0)
        >>> result.matches.tolist(), result.totals.tolist()
        ([[4, 3, 2, 1]], [[5, 4, 3, 2]])
        >>> round(result.value.item(), 4)
        0.5475
    """
    score = BLEU(max_order, weights, smoothing)
    check_choice("level", level, LEVELS)
    options = (max_order, None, ignore_index, word_start, hypothesis_lengths)
    statistics = token_statistics(hypotheses, references, *options)
    value, precisions, penalty = score.factors(statistics, level)
    lengths = statistics.lengths.support
    return BLEUResult(
        value=value,
        matches=statistics.matches.long(),
        totals=mean_totals(statistics.lengths, max_order).long(),
        precisions=precisions,
        brevity_penalty=penalty,
        hypothesis_lengths=lengths.squeeze(1),
        reference_lengths=closest_lengths(statistics.references, lengths).squeeze(1),
    )


def token_score(
    hypotheses: Hypotheses,
    references: Tensor | IdLists,
    score: Score,
    *,
    level: str = "corpus",
    eos_id: int | None = None,
    ignore_index: int = -100,
    word_start: Tensor | None = None,
) -> Tensor:
    """A score of token ids: exact, without strings, (B,) at sentence level and a scalar at corpus level.

    ``score`` is :class:`bleugrad.ROUGE`, :class:`bleugrad.ROUGEL`, :class:`bleugrad.GLEU`, :class:`bleugrad.NIST`,
    :class:`bleugrad.BLEU` or another :class:`~bleugrad.scores.score.Score`. With the same tokens ROUGE equals
    ``rouge-score``, and GLEU and NIST equal nltk. With ``eos_id`` hypotheses and references end before it. The other
    arguments are those of :func:`bleugrad.bleu`, which returns the statistics of BLEU; so are time and memory.

    Example:
        >>> import bleugrad
        >>> bleugrad.token_score([[1, 2, 3, 9]], [[1, 2, 3, 4]], bleugrad.ROUGE(2, "recall")).item()
        0.6666666666666666
    """
    check_choice("level", level, LEVELS)
    check_score(score)
    statistics = token_statistics(hypotheses, references, score.max_order, eos_id, ignore_index, word_start)
    return score.value(statistics, level, None)


def token_statistics(
    hypotheses: Hypotheses,
    references: Tensor | IdLists,
    max_order: int,
    eos_id: int | None = None,
    ignore_index: int = -100,
    word_start: Tensor | None = None,
    hypothesis_lengths: Tensor | None = None,
) -> ExpectedStatistics:
    """Statistics behind a score of token ids; the arguments are those of :func:`token_score` and of ``bleu``."""
    prepared = _prepared(hypotheses, references, eos_id, ignore_index, hypothesis_lengths)
    return token_matches(*prepared, max_order, word_start).statistics()


def _prepared(
    hypotheses: Hypotheses,
    references: Tensor | IdLists,
    eos_id: int | None,
    ignore_index: int,
    cut: Tensor | None = None,
) -> tuple[Tensor, Tensor, References]:
    """Hypotheses, closed up and cut to given lengths, with their lengths and references."""
    check_int("ignore_index", ignore_index)
    if eos_id is not None:
        check_int("eos_id", eos_id)
    ids, lengths = prepare_hypotheses(hypotheses, cut, ignore_index, eos_id)
    prepared = prepare_references(
        references, batch=len(ids), of="hypotheses", device=ids.device, eos_id=eos_id, ignore_index=ignore_index
    )
    return ids, lengths, prepared


def token_rewards(
    hypotheses: Hypotheses,
    references: Tensor | IdLists,
    score: Score,
    *,
    eos_id: int | None = None,
    ignore_index: int = -100,
    word_start: Tensor | None = None,
) -> Tensor:
    """The reward of each token, (B, T): how much it changes the sentence score of the sequence so far. Exact.

    ``r_t = phi_t - phi_{t-1}``, phi_t the score of the first t tokens **with the brevity penalty of that prefix**, and
    phi_0 = 0. They sum to the score of the sequence, if it has a token. The reward to go ``sum_{s >= t} r_s`` is
    ``phi_T - phi_{t-1}``, and phi_{t-1} depends on the prefix alone, so it is a baseline: policy gradients with rewards
    to go are unbiased.

    Positions equal to ``ignore_index``, EOS and what follows it have reward 0. With ``word_start`` words are counted,
    and the last word of a prefix is the tokens it has so far. The arguments are those of :func:`token_score`;
    :class:`bleugrad.BLEU` with smoothing has a reward for each matching token.

    In tokens the n-grams that end at t alone are new, so all prefixes take O(T N) time after one pass. In words each
    prefix is scored on its own.

    Example:
        >>> import bleugrad
        >>> bleugrad.token_rewards([[1, 2, 9, 4]], [[1, 2, 3, 4]], bleugrad.ROUGE(1, "recall")).tolist()
        [[0.25, 0.25, 0.0, 0.25]]
    """
    check_score(score)
    ids, lengths, prepared = _prepared(hypotheses, references, eos_id, ignore_index)
    given = hypotheses if isinstance(hypotheses, Tensor) else pad_lists("hypotheses", hypotheses, ignore_index)
    valid = before_eos(given, given != ignore_index, eos_id)
    batch, steps = ids.shape
    if word_start is None:
        found = replace(token_matches(ids, lengths, prepared, score.max_order), prefixes=True)
    else:
        every = References(*(part.repeat_interleave(steps, 0) for part in (prepared.ids, prepared.lengths)))
        shorter = prefix_lengths(lengths, steps)
        found = token_matches(ids.repeat_interleave(steps, 0), shorter, every, score.max_order, word_start)
    values = score.value(found.statistics(), "sentence", None).view(batch, steps)
    rewards = values.diff(dim=1, prepend=values.new_zeros(batch, 1))
    place = (valid.cumsum(1) - 1).clamp(min=0)
    return torch.where(valid, rewards.gather(1, place), 0)
