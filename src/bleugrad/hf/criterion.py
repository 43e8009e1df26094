"""The two parts of the loss, expected BLEU and cross-entropy, from one pass over the logits."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_choice, check_share
from bleugrad.distributed import Pool
from bleugrad.expectation import Expectation, score_output
from bleugrad.hf.counting import IGNORED
from bleugrad.hf.vocabulary import without
from bleugrad.losses.recipe import adaptive_weight, smoothed_log_probs
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.output import Output
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.interval import certified_interval


@dataclass(eq=False)
class BlendedParts:
    """Sums that are divided by the trainer's count: a call returns ``(2,)``, the BLEU part and the cross-entropy part.

    At sentence level the parts are sums over sentences of ``1 - BLEU`` and of the mean cross-entropy, each times the
    sentence's number of labels with ``weighting = "tokens"``, which makes the second the cross-entropy of all tokens.
    At corpus level the first part is ``1 - BLEU`` of the whole batch, not multiplied by anything.

    The parts have their weights in the loss: ``blend`` for BLEU and ``1 - blend`` for cross-entropy. If the loss is
    ``adaptive``, they are ``blend`` times :func:`bleugrad.losses.recipe.adaptive_weight`, and 1. Cross-entropy has
    ``label_smoothing``.

    Labels among ``excluded`` do not count for BLEU, but cross-entropy still learns them. ``measured`` (7,) describes
    the last call, without a gradient: labels, summed cross-entropy, summed expected length, summed length of the
    references, and labels times BLEU and the ends of its certified interval. Lengths are 0 for a fixed length, the ends
    are NaN where there is no interval: at corpus level, for several references without smoothing, and for scores other
    than BLEU.
    """

    expectation: Expectation[Any]
    excluded: Tensor
    weighting: str
    word_start: Tensor | None
    adaptive: bool
    label_smoothing: float
    blend: float = 1.0
    pool: Pool | None = None
    measured: Tensor | None = None

    def __post_init__(self) -> None:
        check_choice("weighting", self.weighting, ("tokens", "sentences"))
        check_share("label_smoothing", self.label_smoothing)

    def __call__(self, logits: Tensor | Output, labels: Tensor, references: Tensor | None) -> Tensor:
        """Return the parts, from logits or from hidden states with their projection."""
        labelled, mask = labels != IGNORED, without(labels, self.excluded) != IGNORED
        if references is not None:
            references = without(references.to(labels.device), self.excluded)
        value, statistics, _ = score_output(
            logits,
            self.expectation,
            labels=labels,
            references=references,
            mask=mask,
            word_start=self.word_start,
            label_log_probs=True,
            pool=self.pool,
        )
        log_probs = statistics.label_log_probs
        assert log_probs is not None
        counts, bleu = labelled.sum(1).to(value.dtype), self.blend * (1 - value)
        if self.adaptive:
            bleu = adaptive_weight(log_probs, labelled, self.expectation.level, self.pool) * bleu
        if self.expectation.level == "sentence":
            bleu = torch.where(mask.any(1), bleu, 0)
            bleu = (bleu * counts).sum() if self.weighting == "tokens" else bleu.sum()
        nll_sum = torch.where(labelled, -log_probs, 0).sum()
        interval = isinstance(self.expectation.score, BLEU) and self.expectation.level == "sentence"
        self.measured = self._measurements(value, nll_sum, counts, statistics, interval)
        if self.blend == 1 and not self.adaptive:
            return torch.stack([bleu, torch.zeros_like(bleu)])  # 0 times inf is not 0
        log_probs = smoothed_log_probs(log_probs, statistics.mean_log_probs, self.label_smoothing)
        nll = (1.0 if self.adaptive else 1 - self.blend) * torch.where(labelled, -log_probs, 0).sum(1)
        return torch.stack([bleu, nll.sum() if self.weighting == "tokens" else (nll / counts.clamp(min=1)).sum()])

    @torch.no_grad()
    def _measurements(
        self, value: Tensor, nll: Tensor, counts: Tensor, statistics: ExpectedStatistics, interval: bool
    ) -> Tensor:
        sizes = (statistics.lengths.mean().sum(), statistics.references.lengths[:, 0].sum().to(nll.dtype))
        if self.expectation.eos_id is None:
            sizes = (torch.zeros_like(nll),) * 2
        ends = certified_interval(statistics, self.expectation.score) if interval else (None, None)
        scores = [torch.full_like(nll, torch.nan) if one is None else (one * counts).sum() for one in (value, *ends)]
        return torch.stack([counts.sum(), nll, *sizes, *scores])
