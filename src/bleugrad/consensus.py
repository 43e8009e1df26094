"""Minimum Bayes risk: which of several candidates is closest to the model's own output, on average."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bleugrad.expectation import Expectation, expected_statistics
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import check_batch, check_ids, pad_lists
from bleugrad.scores.bleu import BLEU, brevity_penalties, totals_of
from bleugrad.scores.score import reference_matches
from bleugrad.scores.token_score import token_score

PAIRS = 2**14
"""Pairs of a candidate and a sample that are compared at once."""

TokenLists = Sequence[Sequence[Sequence[int]]]


class MBRResult(NamedTuple):
    """``scores`` (B, K) of the candidates, -inf where a sentence has fewer, and ``best`` (B,), the highest of each."""

    scores: Tensor
    best: Tensor


def mbr(
    output: Tensor | Output | TokenLists,
    candidates: Tensor | TokenLists,
    *,
    mask: Tensor | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    ignore_index: int = -100,
) -> MBRResult:
    """Score candidates h by their expected BLEU against the model's output y, for minimum Bayes risk decoding.

    For distributions no sample is drawn: ``score(h) = E[BP(|h|, |y|)] * prod_n ((E[O_n] + s) / (M_n(h) + s)) ^ w_n``,
    where E[O_n] are the expected matches of :func:`bleugrad.expected_bleu` with h as reference. Matches are **exact**,
    the penalty is exact but for :class:`bleugrad.CTC`, whose length is a surrogate, and the score is a **surrogate** of
    E[BLEU(h, y)]. For samples the score is the mean of their sentence BLEU, an unbiased **estimate**.

    Args:
        output: logits (B, T, V), or an output object (:class:`bleugrad.Projection`, :class:`bleugrad.CTC`,
            :class:`bleugrad.Graph`), whose logits are read once for all candidates. Or samples of the model: B lists of
            token lists, or ids (B, S, R) padded with ``ignore_index``.
        candidates: B lists of token lists, or ids (B, K, R) padded with ``ignore_index``.
        mask: (B, T) bool, positions of the logits that count.
        eos_id: logits only: the output is the tokens before the first EOS. Candidates are cut before theirs.
        word_start: (V,) bool, tokens that open a word, to count words; logits and samples only.
        max_order: highest n-gram order N.
        weights: of the orders, see :class:`bleugrad.BLEU`.
        smoothing: s, see :class:`bleugrad.BLEU`.
        ignore_index: the padding id.

    O(B T V + B K T L) time for logits, O(B K S T R) for samples.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.tensor([[[2.0, 1.0, 0.0], [0.0, 2.0, 1.0]]])
        >>> result = bleugrad.mbr(logits, [[[0, 1], [0, 0], [2]]])
        >>> result.best.tolist(), [round(score, 3) for score in result.scores[0].tolist()]
        ([0], [0.875, 0.746, 0.331])
    """
    score = BLEU(max_order, weights, smoothing)
    ids, present = _stacked("candidates", candidates, ignore_index)
    if isinstance(output, Output) or (isinstance(output, Tensor) and output.is_floating_point()):
        expectation = Expectation(score, level="sentence", eos_id=eos_id, ignore_index=ignore_index)
        scores = _expected_scores(as_output(output), ids, mask, word_start, expectation)
    else:
        if mask is not None or eos_id is not None:
            raise ValueError("mask or eos_id is given with samples, which are token ids; expected None")
        scores = _mean_scores(output, ids, word_start, score, ignore_index)
    scores = scores.masked_fill(~present.to(scores.device), -torch.inf)
    return MBRResult(scores, scores.argmax(1))


def _expected_scores(
    output: Output, ids: Tensor, mask: Tensor | None, word_start: Tensor | None, expectation: Expectation[BLEU]
) -> Tensor:
    """Scores (B, K) from the expected matches of the candidates ``ids`` (B, K, R)."""
    check_batch("candidates", len(ids), output.shape[0], "output")
    statistics, _ = expected_statistics(
        output, expectation, references=ids.to(output.device), mask=mask, word_start=word_start, leave_out=False
    )
    lengths, outputs = statistics.references.lengths[..., None], statistics.lengths
    with torch.autocast(output.device.type, enabled=False):
        matches = reference_matches(statistics, joint=False).squeeze(3)
        totals = totals_of(lengths, expectation.score.max_order).to(matches.dtype)
        penalties = brevity_penalties(lengths.to(matches.dtype), outputs.support[:, None].to(matches.dtype))
        return expectation.score.combine(matches, totals, (outputs.probs[:, None] * penalties).sum(2))[0]


def _mean_scores(
    samples: Tensor | TokenLists, ids: Tensor, word_start: Tensor | None, score: BLEU, ignore_index: int
) -> Tensor:
    """Mean BLEU (B, K) of the candidates ``ids`` (B, K, R) against the samples of each sentence."""
    drawn, present = _stacked("output", samples, ignore_index)
    check_batch("candidates", len(ids), len(drawn), "output")
    if drawn.shape[1] == 0 or not bool(present.any(1).all()):
        raise ValueError("output has a sentence without samples; expected at least one of each")
    ids, present = ids.to(drawn.device), present.to(drawn.device)
    number, times = ids.shape[1], drawn.shape[1]
    found = []
    for some, others in zip(*(one.split(max(1, PAIRS // max(1, number * times))) for one in (ids, drawn)), strict=True):
        pairs = (some.repeat_interleave(times, 1).flatten(0, 1), others.repeat(1, number, 1).flatten(0, 1))
        values = token_score(*pairs, score, level="sentence", ignore_index=ignore_index, word_start=word_start)
        found.append(values.view(len(some), number, times))
    values = torch.cat(found) if found else ids.new_zeros(0, number, times, dtype=torch.float32)
    return (values * present[:, None]).sum(2) / present.sum(1, keepdim=True)


def _stacked(name: str, lists: object, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Token lists as ids (B, K, R) padded with ``ignore_index``, and which of them there are, (B, K)."""
    if isinstance(lists, Tensor):
        if lists.dim() != 3:
            raise ValueError(
                f"{name} has shape {tuple(lists.shape)}; expected (B, K, R) ids, or B lists of token lists"
            )
        return check_ids(name, lists), torch.ones(lists.shape[:2], dtype=torch.bool, device=lists.device)
    if not isinstance(lists, Sequence) or isinstance(lists, str):
        raise TypeError(f"{name} is a {type(lists).__name__}; expected B lists of token lists, or ids (B, K, R)")
    for index, some in enumerate(lists):
        if not isinstance(some, Sequence) or isinstance(some, str) or not some:
            raise ValueError(f"{name}[{index}] is {some!r:.80}; expected a list of at least one token list")
    most = max((len(some) for some in lists), default=1)
    rows = [row for some in lists for row in (*some, *[[]] * (most - len(some)))]
    ids = pad_lists(name, rows, ignore_index)
    present = torch.tensor([[place < len(some) for place in range(most)] for some in lists], dtype=torch.bool)
    return ids.view(len(lists), most, -1), present.view(len(lists), most)
