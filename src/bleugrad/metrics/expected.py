"""Expected BLEU as a metric of ``torchmetrics``."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.expected_bleu import expected_bleu


class ExpectedBLEU(Metric):
    """Mean expected BLEU of sentences under a model's output distributions, with its certified interval.

    :meth:`compute` returns ``expected_bleu``, the mean of the sentences' values (a surrogate), ``lower`` and ``upper``,
    which are certain to contain the mean of the sentences' true expected BLEU, and ``length_ratio``, expected length
    over reference length. Sentences without a position that counts are left out. ``lower`` is left out where no
    certificate is known, see :func:`bleugrad.expected_bleu`. States are sums in float64, so processes and batches of
    any size give the same result to rounding.

    Args:
        max_order, weights, smoothing, eos_id, word_start, ignore_index: as for :func:`bleugrad.expected_bleu`.

    Example:
        >>> import torch
        >>> from bleugrad.metrics import ExpectedBLEU
        >>> metric = ExpectedBLEU(max_order=1)
        >>> metric.update(torch.zeros(1, 3, 2), torch.tensor([[0, 0, -100]]))
        >>> round(metric.compute()["expected_bleu"].item(), 4)
        0.6667
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    sums: Tensor
    uncertified: Tensor
    word_start: Tensor | None

    def __init__(
        self,
        *,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        word_start: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        self.options = {"max_order": max_order, "weights": weights, "smoothing": smoothing, "eos_id": eos_id}
        self.ignore_index = ignore_index
        self.register_buffer("word_start", word_start, persistent=False)
        self.add_state("sums", torch.zeros(6, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("uncertified", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, logits: Tensor | Output, references: Tensor | IdLists, mask: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            logits: (B, T, V), or an output object.
            references: labels (B, T), or references as for :func:`bleugrad.expected_bleu`.
            mask: (B, T) bool, positions that count; by default those with a label where ``references`` are (B, T).
        """
        if mask is None and isinstance(references, Tensor) and references.shape == as_output(logits).shape[:2]:
            mask = references.ne(self.ignore_index)
        result = expected_bleu(
            logits,
            references,
            mask=mask,
            level="sentence",
            ignore_index=self.ignore_index,
            word_start=self.word_start,
            **self.options,  # type: ignore[arg-type]
        )
        counts = torch.ones_like(result.value) if mask is None else mask.any(1).to(result.value)
        lower = torch.zeros_like(result.value) if result.lower is None else result.lower
        self.uncertified += int(result.lower is None)
        assert result.upper is not None
        parts = (result.value, lower, result.upper, result.hypothesis_lengths, result.reference_lengths)
        rows = torch.stack([torch.ones_like(counts), *parts]).double()
        self.sums += (rows * counts).sum(1).to(self.sums.device)

    def compute(self) -> dict[str, Tensor]:
        """``expected_bleu``, ``lower`` where it is known, ``upper`` and ``length_ratio`` of all batches, 0..1."""
        sentences, value, lower, upper, length, reference = self.sums
        number = sentences.clamp(min=1)
        found = {"expected_bleu": value / number, "upper": upper / number}
        if self.uncertified == 0:
            found["lower"] = lower / number
        return found | {"length_ratio": length / reference.clamp(min=1)}
