"""BLEU of token ids as a metric of ``torchmetrics``."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from bleugrad.references.sequences import IdLists, before_eos
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.bleu_of_ids import bleu, bleu_of_counts


class TokenBLEU(Metric):
    """Corpus BLEU of token ids, 0..1, on their device: with the default ``smoothing=0`` equal to sacreBLEU's.

    The states are integer counts, so processes and batches of any size give the same number.

    Args:
        max_order, weights, smoothing, word_start, ignore_index: as for :func:`bleugrad.bleu`.
        eos_id: if given, hypotheses and references are cut before their first EOS.

    Example:
        >>> import torch
        >>> from bleugrad.metrics import TokenBLEU
        >>> metric = TokenBLEU()
        >>> metric.update(torch.tensor([[1, 2, 3, 4, 9]]), torch.tensor([[1, 2, 3, 4, 5, 6]]))
        >>> round(metric.compute().item(), 4)
        0.5475
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    matches: Tensor
    totals: Tensor
    lengths: Tensor
    word_start: Tensor | None

    def __init__(
        self,
        *,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 0.0,
        eos_id: int | None = None,
        word_start: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        self.score = BLEU(max_order, weights, smoothing)
        self.eos_id, self.ignore_index = eos_id, ignore_index
        self.register_buffer("word_start", word_start, persistent=False)
        for name, size in (("matches", max_order), ("totals", max_order), ("lengths", 2)):
            self.add_state(name, torch.zeros(size, dtype=torch.long), dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, hypotheses: Tensor | Sequence[Sequence[int]], references: Tensor | IdLists) -> None:
        """Add a batch of hypotheses (B, T) and references, as for :func:`bleugrad.bleu`."""
        result = bleu(
            self._before_eos(hypotheses),
            self._before_eos(references),
            max_order=self.score.max_order,
            ignore_index=self.ignore_index,
            word_start=self.word_start,
        )
        self.matches += result.matches.sum(0).to(self.matches.device)
        self.totals += result.totals.sum(0).to(self.totals.device)
        lengths = torch.stack([result.hypothesis_lengths.sum(), result.reference_lengths.sum()])
        self.lengths += lengths.to(self.lengths.device)

    def compute(self) -> Tensor:
        """BLEU of all batches."""
        return bleu_of_counts(self.score, self.matches, self.totals, *self.lengths)[0]

    def _before_eos(self, ids: Any) -> Any:
        if isinstance(ids, list | tuple) and self.eos_id is not None:
            if any(isinstance(one, list | tuple) for one in ids):
                return [self._before_eos(one) for one in ids]
            return ids[: ids.index(self.eos_id)] if self.eos_id in ids else ids
        if not isinstance(ids, Tensor):
            return ids
        return ids.masked_fill(~before_eos(ids, ids != self.ignore_index, self.eos_id), self.ignore_index)
