"""The entrance to the core: from a model's output to expected statistics, and to the score made of them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor

from bleugrad.arguments import LEVELS, check_choice, check_int, check_nonnegative
from bleugrad.distributed import Pool
from bleugrad.matches import as_method
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import IdLists
from bleugrad.references.targets import Targets, prepare_targets
from bleugrad.scores.bleu import BLEU, closest_lengths, mean_totals
from bleugrad.scores.interval import certified_interval
from bleugrad.scores.results import ExpectedBLEUResult, ExpectedScoreResult
from bleugrad.scores.score import Score, check_score

S = TypeVar("S", bound=Score)


@dataclass(frozen=True)
class Expectation(Generic[S]):
    """Validated options of an expected score.

    Args:
        score: the :class:`~bleugrad.scores.score.Score` that is made of the statistics.
        method, level, eos_id, ignore_index: as for :func:`expected_bleu`.
        sharpness, end_positions, inplace: as for :class:`bleugrad.ExpectedBLEULoss`.
    """

    score: S
    method: MatchMethod | str = "exact"
    level: str = "corpus"
    eos_id: int | None = None
    ignore_index: int = -100
    sharpness: float = 1.0
    end_positions: int = 0
    inplace: bool = False

    def __post_init__(self) -> None:
        check_score(self.score)
        object.__setattr__(self, "method", as_method(self.method))
        check_choice("level", self.level, LEVELS)
        check_int("ignore_index", self.ignore_index)
        if self.eos_id is not None:
            check_int("eos_id", self.eos_id)
        if check_nonnegative("sharpness", self.sharpness) == 0:
            raise ValueError("sharpness is 0; expected a number above 0 (1 leaves the distributions as they are)")
        if check_int("end_positions", self.end_positions) < 0:
            raise ValueError(f"end_positions is {self.end_positions}; expected 0 or more")
        if self.end_positions and self.eos_id is None:
            raise ValueError(f"end_positions is {self.end_positions} without eos_id; expected the id of EOS as eos_id")


def _outside_autocast(logits: object) -> AbstractContextManager[object]:
    """A context in which matrix products on the device of an output are not run in half precision."""
    kind = logits.device.type if isinstance(logits, Tensor | Output) else "cpu"
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def expected_statistics(
    logits: Tensor | Output,
    expectation: Expectation[S],
    *,
    labels: Tensor | None = None,
    references: Tensor | IdLists | None = None,
    mask: Tensor | None = None,
    word_start: Tensor | None = None,
    label_log_probs: bool = False,
    leave_out: bool = True,
) -> tuple[ExpectedStatistics, Targets]:
    """The expected statistics of an output, and the targets they are computed against; outside autocast.

    ``labels``, ``references``, ``mask``, ``word_start`` and ``leave_out`` are those of
    :func:`bleugrad.references.targets.prepare_targets`. ``label_log_probs`` asks for the log-probability of each label.
    """
    with _outside_autocast(logits):
        output = as_output(logits)
        if expectation.sharpness != 1:
            output = output.sharpened(expectation.sharpness)
        if expectation.inplace:
            output = output.overwriting()
        targets = prepare_targets(
            output.shape,
            output.device,
            labels,
            references,
            mask,
            eos_id=expectation.eos_id,
            ignore_index=expectation.ignore_index,
            word_start=word_start,
            max_order=expectation.score.max_order,
            leave_out=leave_out,
            end_positions=expectation.end_positions,
            aligned=output.aligned,
            lengths=output.lengths,
            of=output.name,
        )
        method = cast(MatchMethod, expectation.method)  # converted when the options were checked
        return output.statistics(targets, method, label_log_probs), targets


def score_output(
    logits: Tensor | Output,
    expectation: Expectation[S],
    *,
    labels: Tensor | None = None,
    references: Tensor | IdLists | None = None,
    mask: Tensor | None = None,
    word_start: Tensor | None = None,
    label_log_probs: bool = False,
    leave_out: bool = True,
    pool: Pool | None = None,
) -> tuple[Tensor, ExpectedStatistics, Targets]:
    """The score of an output, with its statistics and targets.

    ``pool`` sums over processes; the other arguments are those of :func:`expected_statistics`.
    """
    with _outside_autocast(logits):
        statistics, targets = expected_statistics(
            logits,
            expectation,
            labels=labels,
            references=references,
            mask=mask,
            word_start=word_start,
            label_log_probs=label_log_probs,
            leave_out=leave_out,
        )
        return expectation.score.value(statistics, expectation.level, pool), statistics, targets


def expected_score(
    logits: Tensor | Output,
    references: Tensor | IdLists,
    score: Score,
    *,
    method: MatchMethod | str = "exact",
    mask: Tensor | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    level: str = "corpus",
    ignore_index: int = -100,
) -> ExpectedScoreResult:
    """A score of the expected statistics of an output, differentiable; :func:`expected_bleu` is the case of BLEU.

    ``score`` is :class:`bleugrad.ROUGE`, :class:`bleugrad.GLEU`, :class:`bleugrad.NIST`, :class:`bleugrad.BLEU`, or
    another :class:`~bleugrad.scores.score.Score`. Each says where its value is the exact expectation of the metric, and
    where it is a surrogate. The other arguments are those of :func:`expected_bleu`.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(1, 3, 2, requires_grad=True)  # p = 0.5 everywhere
        >>> score = bleugrad.ROUGE(2, "f1")
        >>> result = bleugrad.expected_score(logits, torch.tensor([[0, 0, 1]]), score, level="sentence")
        >>> result.value.tolist()  # the exact expectation of ROUGE-2: 2 (3 / 8 + 1 / 2) / (2 + 2)
        [0.4375]
    """
    expectation = Expectation(score, method=method, level=level, eos_id=eos_id, ignore_index=ignore_index)
    value, statistics, _ = score_output(
        logits, expectation, references=references, mask=mask, word_start=word_start, leave_out=False
    )
    return ExpectedScoreResult(value, statistics.matches, statistics.lengths.mean())


def expected_bleu(
    logits: Tensor | Output,
    references: Tensor | IdLists,
    *,
    method: MatchMethod | str = "exact",
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
      smoothing, from the exact expectations for every ``method`` and ``level``. ``lower`` is None if a sentence has
      several references and ``smoothing`` is 0, because no certificate is known for that case.

    Args:
        logits: (B, T, V), any floating type; computed in float32, or float64 for float64 logits. Or an output object:
            :class:`bleugrad.Projection`, :class:`bleugrad.CTC` or :class:`bleugrad.Graph`, which state the differences.
        references: (B, R) or (B, K, R) ids padded with ``ignore_index``, or nested lists of ids with any number of
            references per sentence. T and R may differ.
        method: "exact", "bound" (the paper's), "clipped_mean" (a baseline of one-pass models), or a
            :class:`~bleugrad.matches.method.MatchMethod`.
        mask: (B, T) bool, True where a position counts. Other positions are removed before n-grams are formed.
        eos_id: makes the length random: the hypothesis is the tokens before the first EOS, or all of them if there is
            none. References are cut before their first EOS. The brevity penalty at corpus level is E[BP] of the summed
            lengths, exact for one reference each.
        word_start: (V,) bool, tokens that open a word. If given, matches, totals, lengths and brevity penalty
            count words, exactly; references remain token ids. See :func:`bleugrad.word_start_mask`.
        max_order: highest n-gram order N.
        weights: of the orders, see :class:`bleugrad.BLEU`.
        smoothing: s, see :class:`bleugrad.BLEU`.
        level: "corpus" sums the statistics of the batch and computes one score, "sentence" scores each sentence.
        ignore_index: the padding id of the references.
        interval: compute ``lower`` and ``upper``; with False both are None.

    An empty hypothesis with a non-empty reference has value 0.

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
    with _outside_autocast(logits):
        value, precisions, penalty = expectation.score.factors(statistics, level)
        lower, upper = certified_interval(statistics, expectation.score) if interval else (None, None)
    lengths, closest = statistics.lengths, closest_lengths(statistics.references, statistics.lengths.support)
    return ExpectedBLEUResult(
        value=value,
        matches=statistics.matches,
        totals=mean_totals(statistics.lengths, max_order),
        precisions=precisions,
        brevity_penalty=penalty,
        hypothesis_lengths=lengths.mean(),
        reference_lengths=(closest * lengths.probs).sum(1),
        lower=lower,
        upper=upper,
    )
