"""The two parts of the loss, expected BLEU and cross-entropy, from one pass over the logits."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.losses.base import LossBase
from bleugrad.outputs.output import Output
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.expectation import Expectation, expected_score

WEIGHTINGS = ("tokens", "sentences")


class BlendedParts(LossBase):
    """Sums that are divided by the trainer's count: a call returns ``(2,)``, the BLEU part and the cross-entropy part.

    At sentence level the parts are sums over sentences of ``1 - BLEU`` and of the mean cross-entropy, each times the
    sentence's number of labels with ``weighting = "tokens"``, which makes the second the cross-entropy of all tokens.
    At corpus level the first part is ``1 - BLEU`` of the whole batch, not multiplied by anything.

    Labels among ``excluded`` do not count for BLEU, but cross-entropy still learns them. ``blend`` is the share of
    BLEU. ``measured`` (5,) describes the last call, without a gradient: labels, BLEU times labels, summed
    cross-entropy, summed expected length, summed length of the references. Lengths are 0 for a fixed length.
    """

    excluded: Tensor
    measured: Tensor

    def __init__(
        self, expectation: Expectation[BLEU], *, excluded: Tensor, weighting: str, word_start: Tensor | None
    ) -> None:
        super().__init__(expectation, word_start=word_start)
        self.register_buffer("excluded", excluded, persistent=False)
        self.weighting, self.blend = weighting, 1.0

    def forward(self, logits: Tensor | Output, labels: Tensor, references: Any = None) -> Tensor:
        """The parts, from logits or from hidden states with their projection."""
        ignored, excluded = self.expectation.ignore_index, self.excluded.to(labels.device)
        labelled = labels != ignored
        mask = labelled & ~torch.isin(labels, excluded)
        if isinstance(references, Tensor):
            references = references.to(labels.device)
            references = torch.where(torch.isin(references, excluded), ignored, references)
        value, statistics, _ = expected_score(
            logits, self.expectation, self.pool, labels, references, mask, self.word_start, label_log_probs=True
        )
        assert statistics.label_log_probs is not None
        counts = labelled.sum(1).to(value.dtype)
        nll = torch.where(labelled, -statistics.label_log_probs, 0).sum(1)
        mean, bleu = value, 1 - value
        if self.expectation.level == "sentence":
            bleu = torch.where(mask.any(1), bleu, 0)
            mean = ((1 - bleu) * counts).sum() / counts.sum().clamp(min=1)
            bleu = (bleu * counts).sum() if self.weighting == "tokens" else bleu.sum()
        sizes = (statistics.lengths.mean().sum(), statistics.references.lengths[:, 0].sum().to(value.dtype))
        if self.expectation.eos_id is None:
            sizes = (torch.zeros_like(value.sum()),) * 2
        labels_in_all = counts.sum()
        self.measured = torch.stack([labels_in_all, mean * labels_in_all, nll.sum(), *sizes]).detach()
        part = nll.sum() if self.weighting == "tokens" else (nll / counts.clamp(min=1)).sum()
        return torch.stack([bleu, part if self.blend < 1 else torch.zeros_like(part)])  # 0 times inf is not 0
