"""Expected BLEU as a metric of ``torchmetrics``."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from bleugrad.expectation import expected_bleu
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import as_output
from bleugrad.references.sequences import IdLists


class ExpectedBLEU(Metric):
    """Mean expected BLEU of sentences under a model's output distributions, with its certified interval.

    :meth:`compute` returns ``expected_bleu``, the mean of the sentences' values (a surrogate), ``lower`` and ``upper``,
    which are certain to contain the mean of the sentences' true expected BLEU, and ``length_ratio``, expected length
    over reference length. Sentences without a position that counts are left out. A bound is left out where no
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
    unknown: Tensor
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
        self.add_state("unknown", torch.zeros(2, dtype=torch.long), dist_reduce_fx="sum")  # batches without a bound

    @torch.no_grad()
    def update(self, logits: Tensor | Output, references: Tensor | IdLists, mask: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            logits: (B, T, V), or an output object.
            references: labels (B, T), or references as for :func:`bleugrad.expected_bleu`.
            mask: (B, T) bool, positions that count; by default those with a label where ``references`` are (B, T).
        """
        output = as_output(logits)
        labels = references if isinstance(references, Tensor) and output.aligned else None
        if mask is None and labels is not None and labels.shape == output.shape[:2]:
            mask = labels.ne(self.ignore_index)
        result = expected_bleu(
            output,
            references,
            mask=mask,
            level="sentence",
            ignore_index=self.ignore_index,
            word_start=self.word_start,
            **self.options,  # type: ignore[arg-type]
        )
        counts = torch.ones_like(result.value) if mask is None else mask.any(1).to(result.value)
        bounds = (result.lower, result.upper)
        self.unknown += torch.tensor([bound is None for bound in bounds], device=self.unknown.device)
        known = (torch.zeros_like(result.value) if bound is None else bound for bound in bounds)
        parts = (result.value, *known, result.hypothesis_lengths, result.reference_lengths)
        rows = torch.stack([torch.ones_like(counts), *parts]).double()
        self.sums += (rows * counts).sum(1).to(self.sums.device)

    def compute(self) -> dict[str, Tensor]:
        """``expected_bleu``, ``length_ratio``, and ``lower`` and ``upper`` where they are known, of all batches."""
        sentences, value, lower, upper, length, reference = self.sums
        number = sentences.clamp(min=1)
        found = {"expected_bleu": value / number, "length_ratio": length / reference.clamp(min=1)}
        for name, bound, unknown in zip(("lower", "upper"), (lower, upper), self.unknown, strict=True):
            if unknown == 0:
                found[name] = bound / number
        return found
