"""Scores as metrics of ``torchmetrics``: expected under a model's distributions, or of token ids.

States are sums over sentences in float64, so batches and processes of any size give the same result to rounding.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from bleugrad.expectation import Expectation, expected_statistics
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.bleu import BLEU, brevity_penalties, closest_lengths, mean_totals
from bleugrad.scores.interval import certified_interval
from bleugrad.scores.score import PooledScore, Score, check_score
from bleugrad.scores.token_score import token_statistics

SMOOTHED, PLAIN = BLEU(), BLEU(smoothing=0.0)


class _SummedMetric(Metric):
    """A metric with a state ``sums``. Labels and references are padded with -100."""

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    sums: Tensor
    word_start: Tensor | None

    def __init__(self, sums: int, eos_id: int | None, word_start: Tensor | None) -> None:
        super().__init__()
        self.eos_id = eos_id
        self.register_buffer("word_start", word_start, persistent=False)
        self.add_state("sums", torch.zeros(sums, dtype=torch.float64), dist_reduce_fx="sum")


class ExpectedScore(_SummedMetric):
    """A score under a model's output distributions, over all batches.

    :meth:`compute` returns a dict:

    * ``score``: for :class:`bleugrad.BLEU` the mean of the sentences' expected BLEU (a surrogate). ROUGE, GLEU and NIST
      are those of the corpus, and say whether that is the exact expectation. For other scores, the mean of sentences.
    * ``lower``, ``upper``: for BLEU, an interval that is certain to contain the mean of the sentences' true expected
      BLEU. A bound is left out where no certificate is known, see :func:`bleugrad.expected_bleu`.
    * ``length_ratio``: expected length over reference length.

    ``eos_id`` and ``word_start`` are those of :func:`bleugrad.expected_bleu`. Sentences without a position that counts
    are left out.

    Example:
        >>> import torch, bleugrad
        >>> from bleugrad.metrics import ExpectedScore
        >>> metric = ExpectedScore(bleugrad.BLEU(max_order=1))
        >>> metric.update(torch.zeros(1, 3, 2), torch.tensor([[0, 0, -100]]))
        >>> round(metric.compute()["score"].item(), 4)
        0.6667
    """

    others: Tensor

    def __init__(self, score: Score = SMOOTHED, *, eos_id: int | None = None, word_start: Tensor | None = None) -> None:
        check_score(score)
        number = score.number_of_sums if isinstance(score, PooledScore) else 2
        super().__init__(number, eos_id, word_start)
        self.expectation = Expectation(score, level="sentence", eos_id=eos_id)
        # expected length, reference length, and both bounds, NaN once one is not known
        self.add_state("others", torch.zeros(4, dtype=torch.float64), dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, logits: Tensor | Output, references: Tensor | IdLists, mask: Tensor | None = None) -> None:
        """Add a batch of logits (B, T, V), or an output object, with labels (B, T) or other references.

        See :func:`bleugrad.expected_bleu`. By default, ``mask`` (B, T) is True where there is a label.
        """
        output, score = as_output(logits), self.expectation.score
        if mask is None and isinstance(references, Tensor) and output.aligned:
            mask = references.ne(self.expectation.ignore_index) if references.shape == output.shape[:2] else None
        statistics, _ = expected_statistics(
            output, self.expectation, references=references, mask=mask, word_start=self.word_start
        )
        lengths, probs = statistics.lengths, statistics.lengths.probs
        bounds: tuple[Tensor | None, Tensor | None] = (None, None)
        counted = torch.ones_like(probs[:, 0]) if mask is None else mask.any(1).to(probs)
        with torch.autocast(probs.device.type, enabled=False):
            if isinstance(score, PooledScore):
                self.sums += score.sums(statistics).to(self.sums)
            else:
                values = score.value(statistics, "sentence", None)
                self.sums += torch.stack([(values * counted).sum(), counted.sum()]).to(self.sums)
            if isinstance(score, BLEU):
                bounds = certified_interval(statistics, score)
        wanted = (closest_lengths(statistics.references, lengths.support) * probs).sum(1)
        unknown = torch.full_like(wanted, torch.nan)
        others = [lengths.mean(), wanted, *(unknown if bound is None else bound for bound in bounds)]
        self.others += (torch.stack(others) * counted).to(self.others).sum(1)

    def compute(self) -> dict[str, Tensor]:
        """``score``, ``length_ratio``, and ``lower`` and ``upper`` where they are known, of all batches."""
        score, number = self.expectation.score, self.sums[-1].clamp(min=1)
        length, wanted, *bounds = self.others
        value = score.of_sums(self.sums) if isinstance(score, PooledScore) else self.sums[0] / number
        found = {"score": value, "length_ratio": length / wanted.clamp(min=1)}
        for name, bound in zip(("lower", "upper"), bounds, strict=True):
            if not bound.isnan():
                found[name] = bound / number
        return found


class TokenScore(_SummedMetric):
    """A score of token ids at corpus level, on their device.

    On the same tokens, BLEU without smoothing, the default, equals sacreBLEU's, ROUGE and ROUGE-L those of
    ``rouge-score``, and GLEU and NIST those of nltk. ``eos_id`` and ``word_start`` are those of
    :func:`bleugrad.token_score`.

    Example:
        >>> import bleugrad
        >>> from bleugrad.metrics import TokenScore
        >>> metric = TokenScore(bleugrad.ROUGEL("f1"))
        >>> metric.update([[1, 7, 2, 3]], [[1, 2, 3, 4]])
        >>> metric.compute().item()
        0.75
    """

    def __init__(
        self, score: BLEU | PooledScore = PLAIN, *, eos_id: int | None = None, word_start: Tensor | None = None
    ) -> None:
        if not isinstance(score, BLEU | PooledScore):
            raise TypeError(f"score is {score!r}; expected BLEU, ROUGE, ROUGEL, GLEU or NIST")
        number = 2 * score.max_order + 2 if isinstance(score, BLEU) else score.number_of_sums
        super().__init__(number, eos_id, word_start)
        self.score = score

    @torch.no_grad()
    def update(self, hypotheses: Tensor | Sequence[Sequence[int]], references: Tensor | IdLists) -> None:
        """Add a batch of hypotheses (B, T) and references, as for :func:`bleugrad.token_score`."""
        score = self.score
        statistics = token_statistics(hypotheses, references, score.max_order, self.eos_id, word_start=self.word_start)
        if isinstance(score, BLEU):
            sizes, totals = statistics.lengths.support, mean_totals(statistics.lengths, score.max_order)
            counts = [statistics.matches, totals, sizes, closest_lengths(statistics.references, sizes)]
            self.sums += torch.cat([one.to(self.sums) for one in counts], 1).sum(0)
        else:
            self.sums += score.sums(statistics).to(self.sums)

    def compute(self) -> Tensor:
        """The score of all batches."""
        if not isinstance(self.score, BLEU):
            return self.score.of_sums(self.sums)
        matches, totals, sizes = self.sums.split([self.score.max_order, self.score.max_order, 2])
        return self.score.combine(matches, totals, brevity_penalties(*sizes))[0]
