"""Any score as a metric of ``torchmetrics``: expected under a model's distributions, or of token ids."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from bleugrad.expectation import Expectation, expected_statistics
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.pooled import PooledScore
from bleugrad.scores.token_score import token_statistics


class _PooledMetric(Metric):
    """The score of a corpus from sums over sentences in float64, so batches and processes of any size agree."""

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    sums: Tensor
    word_start: Tensor | None

    def __init__(
        self,
        score: PooledScore,
        *,
        eos_id: int | None = None,
        word_start: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        if not isinstance(score, PooledScore):
            raise TypeError(f"score is {score!r}; expected ROUGE, ROUGEL, GLEU or NIST (BLEU has metrics of its own)")
        self.score, self.eos_id, self.ignore_index = score, eos_id, ignore_index
        self.register_buffer("word_start", word_start, persistent=False)
        self.add_state("sums", torch.zeros(score.number_of_sums, dtype=torch.float64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """The score of all batches."""
        return self.score.of_sums(self.sums)


class ExpectedScore(_PooledMetric):
    """A score of the expected statistics of all batches at corpus level, for :class:`bleugrad.ROUGE`, GLEU and NIST.

    The score says whether that is the exact expectation. Sentences without a position that counts are left out.

    Args:
        score: the score.
        eos_id, word_start, ignore_index: as for :func:`bleugrad.expected_score`.

    Example:
        >>> import torch, bleugrad
        >>> from bleugrad.metrics import ExpectedScore
        >>> metric = ExpectedScore(bleugrad.ROUGE(1, "recall"))
        >>> metric.update(torch.zeros(1, 3, 2), torch.tensor([[0, 0]]))
        >>> metric.compute().item()
        0.6875
    """

    @torch.no_grad()
    def update(self, logits: Tensor | Output, references: Tensor | IdLists, mask: Tensor | None = None) -> None:
        """Add a batch, as for :class:`bleugrad.metrics.ExpectedBLEU`."""
        output = as_output(logits)
        labels = references if isinstance(references, Tensor) and output.aligned else None
        if mask is None and labels is not None and labels.shape == output.shape[:2]:
            mask = labels.ne(self.ignore_index)
        expectation = Expectation(self.score, eos_id=self.eos_id, ignore_index=self.ignore_index)
        statistics, _ = expected_statistics(
            output, expectation, references=references, mask=mask, word_start=self.word_start
        )
        self.sums += self.score.sums(statistics).to(self.sums)


class TokenScore(_PooledMetric):
    """A score of token ids at corpus level, on their device: ROUGE as ``rouge-score``, GLEU and NIST as nltk.

    Args:
        score: :class:`bleugrad.ROUGE`, :class:`bleugrad.ROUGEL`, :class:`bleugrad.GLEU` or :class:`bleugrad.NIST`.
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

    @torch.no_grad()
    def update(self, hypotheses: Tensor | Sequence[Sequence[int]], references: Tensor | IdLists) -> None:
        """Add a batch of hypotheses (B, T) and references, as for :func:`bleugrad.token_score`."""
        options = (self.score.max_order, self.eos_id, self.ignore_index, self.word_start)
        self.sums += self.score.sums(token_statistics(hypotheses, references, *options)).to(self.sums)
