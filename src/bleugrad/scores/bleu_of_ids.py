"""BLEU of token ids in the paper's matrix form (section 2.2), batched, on the ids' device."""

from collections.abc import Sequence

from torch import Tensor

from bleugrad.arguments import LEVELS, check_choice
from bleugrad.references.sequences import IdLists
from bleugrad.scores.bleu import BLEU, closest_lengths, mean_totals
from bleugrad.scores.results import BLEUResult
from bleugrad.scores.token_score import token_statistics


def bleu(
    hypotheses: Tensor | Sequence[Sequence[int]],
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
