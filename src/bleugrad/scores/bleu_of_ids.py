"""BLEU of token ids in the paper's matrix form (section 2.2), batched, on the ids' device."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.arguments import LEVELS, check_choice, check_int
from bleugrad.backends.dtypes import widest_float
from bleugrad.backends.torch.ngram_clips import count_numbers, largest_counts, ngram_numbers
from bleugrad.references.sequences import IdLists, References, check_range, prepare_hypotheses, prepare_references
from bleugrad.references.targets import check_word_start
from bleugrad.references.words import segment
from bleugrad.scores.bleu import BLEU, brevity_penalties, closest_lengths, smoothed_precisions, weighted_geometric_mean
from bleugrad.scores.ngram_matrices import count_columns
from bleugrad.scores.results import BLEUResult

MATRIX_ELEMENTS = 2**14
"""Largest number of pairs of positions per sentence for which the matrices are formed."""


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

    ``BLEU = BP * prod_n ((O_n + s) / (M_n + s)) ^ w_n`` with the clipped matches in the paper's matrix form,
    ``O_n = sum_i min(1, v^{y,n}_i / v^{x,n}_i)``: v^x_i and v^y_i, the column sums of the paper's matrices S^n and P^n,
    count the n-gram at hypothesis position i in the hypothesis and in the reference. Short sentences form the matrices,
    of which at most 2**14 entries exist per sentence. Longer ones number their n-grams by sorting, in
    O(N (T + L) log(T + L)) time and O(T + L) memory per sentence.

    Args:
        hypotheses: (B, T) ids, or nested lists. Positions equal to ``ignore_index`` do not count.
        references: (B, R) or (B, K, R) ids padded with ``ignore_index``, or nested lists with any number of references
            per sentence. Counts are clipped at the maximum over references. The reference length is the closest one,
            the shorter one of two. If there are several references, empty ones are ignored.
        hypothesis_lengths: (B,), number of positions that count, from the first.
        max_order: highest n-gram order N, at most 100.
        weights: N non-negative numbers that sum to 1, uniform by default; ``(0, 0, 0, 1)`` scores 4-grams alone.
        smoothing: s, added to matches and totals of every order. With 0 the score is sacreBLEU's without smoothing
            (its add-k smoothing leaves order 1 alone).
        level: "corpus" pools the statistics of the batch before the score, "sentence" scores each sentence.
        ignore_index: the padding id.
        word_start: (V,) bool, tokens that open a word. If given, words are counted. Words are equal if all their
            tokens are equal.

    Without smoothing, an order with no matches, or none possible because the hypothesis is shorter than n, makes BLEU 0
    as in sacreBLEU without effective order; with smoothing, an order with no n-grams has precision 1. An empty
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
    check_int("ignore_index", ignore_index)
    ids, lengths = prepare_hypotheses(hypotheses, hypothesis_lengths, ignore_index)
    prepared = prepare_references(
        references, batch=ids.shape[0], of="hypotheses", device=ids.device, ignore_index=ignore_index
    )
    if word_start is not None:
        ids, lengths, prepared, *_ = in_words(ids, lengths, prepared, word_start)
    matches = clipped_matches(ids, lengths, prepared, max_order)
    orders = torch.arange(max_order, device=ids.device)
    totals = (lengths[:, None] - orders).clamp(min=0)
    reference_lengths = closest_lengths(prepared, lengths)

    statistics = (matches, totals, lengths, reference_lengths)
    pooled = statistics if level == "sentence" else tuple(statistic.sum(0) for statistic in statistics)
    value, precisions, penalty = bleu_of_counts(score, *pooled)
    return BLEUResult(
        value=value,
        matches=matches,
        totals=totals,
        precisions=precisions,
        brevity_penalty=penalty,
        hypothesis_lengths=lengths,
        reference_lengths=reference_lengths,
    )


def bleu_of_counts(
    score: BLEU, matches: Tensor, totals: Tensor, hypothesis_length: Tensor, reference_length: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """BLEU, precisions and brevity penalty of integer counts (..., N) and lengths (...)."""
    dtype = widest_float(matches.device)
    precisions = smoothed_precisions(matches.to(dtype), totals.to(dtype), score.smoothing)
    penalty = brevity_penalties(hypothesis_length.to(dtype), reference_length.to(dtype))
    return penalty * weighted_geometric_mean(precisions, score.weights), precisions, penalty


def in_words(
    hypotheses: Tensor, lengths: Tensor, references: References, word_start: Tensor
) -> tuple[Tensor, Tensor, References, Tensor, Tensor]:
    """Hypotheses and references as words instead of tokens, numbered together.

    Then (B, T) each, where the words of hypotheses begin and how many tokens they have.
    """
    width = max(hypotheses.shape[1], references.ids.shape[2])
    ids = torch.cat([pad(part, (0, width - part.shape[2])) for part in (hypotheses[:, None], references.ids)], 1)
    vocabulary = word_start.numel() if isinstance(word_start, Tensor) else 0
    check_word_start(word_start, vocabulary)
    check_range("hypotheses or references", ids, None, vocabulary, -1)
    words = segment(References(ids, torch.cat([lengths[:, None], references.lengths], 1)), word_start.to(ids.device))
    units, sizes = words.references.ids, words.references.lengths
    starts, spans = (values[:, : units.shape[2]] for values in (words.starts, words.spans))
    return units[:, 0], sizes[:, 0], References(units[:, 1:], sizes[:, 1:]), starts, spans


def clipped_matches(hypotheses: Tensor, lengths: Tensor, references: References, max_order: int) -> Tensor:
    """O_n = sum_i min(1, v^y_i / v^x_i), (B, N) long, of closed-up hypotheses (B, T) with lengths (B,).

    Short sentences form the matrices whose column sums v^x and v^y are; long ones number their n-grams by sorting.
    """
    steps, columns = hypotheses.shape[1], references.ids.shape[1] * references.ids.shape[2]
    count = count_columns if steps * (steps + columns) <= MATRIX_ELEMENTS else count_sorted
    v_x, v_y = count(hypotheses, lengths, references, max_order)
    share = torch.minimum(v_x, v_y).to(widest_float(v_x.device)) / v_x.clamp(min=1)
    return share.sum(1).round().long().t()


def count_sorted(hypotheses: Tensor, lengths: Tensor, references: References, max_order: int) -> tuple[Tensor, Tensor]:
    """The counts of :func:`count_columns`, in O((T + L) log(T + L)) time and O(T + L) memory per sentence."""
    batch, steps = hypotheses.shape
    number, width = references.ids.shape[1:]
    ids = torch.cat([hypotheses, references.ids.reshape(batch, number * width)], 1)
    position = torch.arange(max(steps, width), device=ids.device)
    counts = []
    for order, numbers in enumerate(ngram_numbers(ids, max_order), start=1):
        in_hypothesis = position[:steps] + order <= lengths[:, None]
        in_reference = position[:width] + order <= references.lengths[..., None]
        at_hypothesis, at_reference = numbers[:, :steps], numbers[:, steps:].view(batch, number, width)
        of_hypothesis = count_numbers(at_hypothesis, in_hypothesis, ids.shape[1])
        of_reference = largest_counts(at_reference, in_reference, ids.shape[1])
        found = torch.stack([of_hypothesis, of_reference]).gather(2, at_hypothesis.expand(2, batch, steps))
        counts.append((found * in_hypothesis).transpose(1, 2))
    v_x, v_y = torch.stack(counts, 1)
    return v_x, v_y
