"""Expected BLEU of a model's output distributions: the differentiable quantity this package is for."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.expectation import Expectation, expected_statistics
from bleugrad.scores.interval import certified_interval
from bleugrad.scores.results import ExpectedBLEUResult


def expected_bleu(
    logits: Tensor | Output,
    references: Tensor | IdLists,
    *,
    method: str = "exact",
    mask: Tensor | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    level: str = "corpus",
    ignore_index: int = -100,
    interval: bool = True,
) -> ExpectedBLEUResult:
    """BLEU of the expected statistics of the distributions softmax(logits), rows independent; differentiable.

    ``value = BP * prod_n ((E[O_n] + s) / (E[M_n] + s)) ^ w_n``. The status of each quantity:

    * ``matches`` E[O_n]: **exact** with ``method="exact"``. With ``"bound"`` they are the paper's LB_n. It is a lower
      bound if tokens are counted, the n-grams of the reference are distinct and none overlaps itself; otherwise it is
      neither a bound nor exact. With ``"clipped_mean"`` they are min(E[count], c), an **upper bound**.
    * ``totals``, lengths and ``brevity_penalty``: **exact** expectations. Without ``eos_id`` and ``word_start`` they
      are constants.
    * ``value``: a **surrogate** of E[BLEU]. With the exact method, a fixed length and without ``word_start`` it is also
      an upper bound.
    * ``lower``, ``upper``: a **certified** interval for the true E[BLEU] of each sentence with the same weights and
      smoothing. It is computed from the exact expectations for every ``method`` and ``level``. ``lower`` is None if a
      sentence has several references and ``smoothing`` is 0, because no certificate is known for that case.

    Args:
        logits: (B, T, V), any floating type; computed in float32, or float64 for float64 logits. Or an output object:
            :class:`bleugrad.Projection`, :class:`bleugrad.CTC` or :class:`bleugrad.Graph`, which state the differences.
        references: (B, R) or (B, K, R) ids padded with ``ignore_index``, or nested lists of ids with any number of
            references per sentence. T and R may differ.
        method: "exact", "bound" (the paper's), or "clipped_mean" (min(E[count], c), a baseline of one-pass models).
        mask: (B, T) bool, True where a position counts. Other positions are removed before n-grams are formed.
        eos_id: makes the length random: the hypothesis is the tokens before the first EOS, or all of them if there is
            none. References are cut before their first EOS. The brevity penalty at corpus level is E[BP] of the summed
            lengths, exact for one reference each.
        word_start: (V,) bool, tokens that open a word. If given, matches, totals, lengths and brevity penalty
            count words, exactly; references remain token ids. See :func:`bleugrad.word_start_mask`.
        max_order: highest n-gram order N, at most 100.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: s, added to matches and totals of every order as in the paper (sacreBLEU's add-k leaves order 1
            alone).
        level: "corpus" pools the expected statistics over the batch before the score, "sentence" scores each sentence.
        ignore_index: the padding id of the references.
        interval: compute ``lower`` and ``upper``; with False both are None.

    Without smoothing, an order of positive weight without a possible match makes value and gradient 0. With smoothing,
    an order without n-grams has precision 1. An empty hypothesis with a non-empty reference has value 0.

    After the match probabilities (B, T, L) are gathered, no tensor has a vocabulary dimension. Time and memory are
    O(B T L) per order.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(1, 3, 2, requires_grad=True)  # p = 0.5 everywhere
        >>> references = torch.tensor([[0, 0]])
        >>> exact = bleugrad.expected_bleu(logits, references, max_order=1)
        >>> bound = bleugrad.expected_bleu(logits, references, max_order=1, method="bound")
        >>> exact.matches.item(), bound.matches.item()  # the "bound" is above the truth here
        (1.375, 1.5)
        >>> exact.value.backward()
        >>> round(logits.grad[0, 0, 0].item(), 4)
        0.0469
    """
    expectation = Expectation(
        BLEU(max_order, weights, smoothing), method=method, level=level, eos_id=eos_id, ignore_index=ignore_index
    )
    statistics, _ = expected_statistics(
        logits, expectation, references=references, mask=mask, word_start=word_start, leave_out=False
    )
    with torch.autocast(statistics.matches.device.type, enabled=False):
        value, precisions, penalty = expectation.score.factors(statistics, level)
        lower, upper = certified_interval(statistics, expectation.score) if interval else (None, None)
    lengths, closest = statistics.lengths, statistics.references.closest_lengths(statistics.lengths.support)
    return ExpectedBLEUResult(
        value=value,
        matches=statistics.matches,
        totals=statistics.totals,
        precisions=precisions,
        brevity_penalty=penalty,
        hypothesis_lengths=lengths.mean(),
        reference_lengths=(closest * lengths.probs).sum(1),
        lower=lower,
        upper=upper,
    )
