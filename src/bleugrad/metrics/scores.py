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


class _SummedMetric(Metric):
    """A metric with a state ``sums``."""

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    sums: Tensor
    word_start: Tensor | None

    def __init__(self, sums: int, eos_id: int | None, word_start: Tensor | None, ignore_index: int) -> None:
        super().__init__()
        self.eos_id, self.ignore_index = eos_id, ignore_index
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

    Sentences without a position that counts are left out.

    Args:
        score: the score.
        eos_id, word_start, ignore_index: as for :func:`bleugrad.expected_bleu`.

    Example:
        >>> import torch, bleugrad
        >>> from bleugrad.metrics import ExpectedScore
        >>> metric = ExpectedScore(bleugrad.BLEU(max_order=1))
        >>> metric.update(torch.zeros(1, 3, 2), torch.tensor([[0, 0, -100]]))
        >>> round(metric.compute()["score"].item(), 4)
        0.6667
    """

    lengths: Tensor
    bounds: Tensor
    unknown: Tensor

    def __init__(
        self,
        score: Score = BLEU(),  # noqa: B008
        *,
        eos_id: int | None = None,
        word_start: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        check_score(score)
        super().__init__(
            score.number_of_sums if isinstance(score, PooledScore) else 2, eos_id, word_start, ignore_index
        )
        self.score = score
        for name in ("lengths", "bounds"):
            self.add_state(name, torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("unknown", torch.zeros(2, dtype=torch.long), dist_reduce_fx="sum")  # batches without a bound

    @torch.no_grad()
    def update(self, logits: Tensor | Output, references: Tensor | IdLists, mask: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            logits: (B, T, V), or an output object.
            references: labels (B, T), or references as for :func:`bleugrad.expected_bleu`.
            mask: (B, T) bool, positions that count; by default those with a label where ``references`` are (B, T).
        """
        output, score = as_output(logits), self.score
        if mask is None and isinstance(references, Tensor) and output.aligned:
            mask = references.ne(self.ignore_index) if references.shape == output.shape[:2] else None
        expectation = Expectation(score, level="sentence", eos_id=self.eos_id, ignore_index=self.ignore_index)
        statistics, _ = expected_statistics(
            output, expectation, references=references, mask=mask, word_start=self.word_start
        )
        lengths, probs = statistics.lengths, statistics.lengths.probs
        counted = torch.ones_like(probs[:, 0]) if mask is None else mask.any(1).to(probs)
        wanted = (closest_lengths(statistics.references, lengths.support) * probs).sum(1)
        sizes = torch.stack([(one.double() * counted).sum() for one in (lengths.mean(), wanted)])
        self.lengths += sizes.to(self.lengths)
        with torch.autocast(probs.device.type, enabled=False):
            if isinstance(score, PooledScore):
                self.sums += score.sums(statistics).to(self.sums)
            else:
                values = score.value(statistics, "sentence", None)
                self.sums += torch.stack([(values * counted).sum(), counted.sum()]).to(self.sums)
            found = certified_interval(statistics, score) if isinstance(score, BLEU) else (None, None)
        for index, bound in enumerate(found):
            if bound is None:
                self.unknown[index] += 1
            else:
                self.bounds[index] += (bound.double() * counted).sum().to(self.bounds)

    def compute(self) -> dict[str, Tensor]:
        """``score``, ``length_ratio``, and ``lower`` and ``upper`` where they are known, of all batches."""
        total, number = self.sums[0], self.sums[-1].clamp(min=1)
        score = self.score.of_sums(self.sums) if isinstance(self.score, PooledScore) else total / number
        found = {"score": score, "length_ratio": self.lengths[0] / self.lengths[1].clamp(min=1)}
        for name, bound, unknown in zip(("lower", "upper"), self.bounds, self.unknown, strict=True):
            if unknown == 0:
                found[name] = bound / number
        return found


class TokenScore(_SummedMetric):
    """A score of token ids at corpus level, on their device.

    On the same tokens, BLEU equals sacreBLEU's, ROUGE that of ``rouge-score``, and GLEU and NIST those of nltk.

    Args:
        score: :class:`bleugrad.BLEU` (the default, without smoothing), :class:`bleugrad.ROUGE`,
            :class:`bleugrad.ROUGEL`, :class:`bleugrad.GLEU` or :class:`bleugrad.NIST`.
        eos_id: if given, hypotheses and references are cut before their first EOS.
        word_start, ignore_index: as for :func:`bleugrad.token_score`.

    Example:
        >>> import bleugrad
        >>> from bleugrad.metrics import TokenScore
        >>> metric = TokenScore(bleugrad.ROUGEL("f1"))
        >>> metric.update([[1, 7, 2, 3]], [[1, 2, 3, 4]])
        >>> metric.compute().item()
        0.75
    """

    def __init__(
        self,
        score: BLEU | PooledScore = BLEU(smoothing=0.0),  # noqa: B008
        *,
        eos_id: int | None = None,
        word_start: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        if not isinstance(score, BLEU | PooledScore):
            raise TypeError(f"score is {score!r}; expected BLEU, ROUGE, ROUGEL, GLEU or NIST")
        number = 2 * score.max_order + 2 if isinstance(score, BLEU) else score.number_of_sums
        super().__init__(number, eos_id, word_start, ignore_index)
        self.score = score

    @torch.no_grad()
    def update(self, hypotheses: Tensor | Sequence[Sequence[int]], references: Tensor | IdLists) -> None:
        """Add a batch of hypotheses (B, T) and references, as for :func:`bleugrad.token_score`."""
        score, options = self.score, (self.eos_id, self.ignore_index, self.word_start)
        statistics = token_statistics(hypotheses, references, score.max_order, *options)
        if isinstance(score, BLEU):
            lengths = statistics.lengths.support
            sizes = torch.cat([lengths, closest_lengths(statistics.references, lengths)], 1)
            counts = [statistics.matches, mean_totals(statistics.lengths, score.max_order), sizes]
            self.sums += torch.cat([one.double() for one in counts], 1).sum(0).to(self.sums)
        else:
            self.sums += score.sums(statistics).to(self.sums)

    def compute(self) -> Tensor:
        """The score of all batches."""
        if not isinstance(self.score, BLEU):
            return self.score.of_sums(self.sums)
        matches, totals, sizes = self.sums.split([self.score.max_order, self.score.max_order, 2])
        return self.score.combine(matches, totals, brevity_penalties(*sizes))[0]
