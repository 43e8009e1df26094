"""The two parts of the loss, expected BLEU and cross-entropy, from one pass over the logits."""

from dataclasses import replace

import torch
from torch import Tensor

from bleugrad.core.match_probabilities import Gathered
from bleugrad.core.sequences import IdLists
from bleugrad.losses.expected import ExpectedBLEULoss, ExpectedLossBase
from bleugrad.losses.labels import Targets
from bleugrad.losses.linear import LinearExpectedBLEULoss

WEIGHTINGS = ("tokens", "sentences")


class BlendedParts(ExpectedLossBase):
    """Sums that are divided by the trainer's count: a call returns ``(2,)``, the BLEU part and the cross-entropy part.

    At sentence level the parts are sums over sentences of ``1 - BLEU`` and of the mean cross-entropy, each times the
    sentence's number of labels with ``weighting = "tokens"``, which makes the second the cross-entropy of all tokens.
    At corpus level the first part is ``1 - BLEU`` of the whole batch, not multiplied by anything.

    Labels among ``excluded`` do not count for BLEU, but cross-entropy still learns them.

    ``measured`` (5,) describes the last call, without a gradient: labels, BLEU times labels, summed cross-entropy,
    summed expected length, summed length of the labels. Lengths are 0 for a fixed length.
    """

    excluded: Tensor
    weighting: str
    blend: float
    measured: Tensor

    def configure(self, excluded: Tensor, weighting: str) -> None:
        """Set the ids that BLEU leaves out and the weighting. ``blend`` is the share of BLEU, at first 1."""
        self.register_buffer("excluded", excluded, persistent=False)
        self.weighting = weighting
        self.blend = 1.0

    def _prepare(
        self,
        shape: tuple[int, int, int],
        device: torch.device,
        labels: Tensor | None,
        references: Tensor | IdLists | None,
        mask: Tensor | None,
    ) -> Targets:
        if labels is None:
            raise TypeError("labels is None; expected (B, T) token ids")
        labels = labels.to(device)
        labelled = labels != self.ignore_index
        excluded = self.excluded.to(device)
        mask = labelled & ~torch.isin(labels, excluded)
        if isinstance(references, Tensor):
            references = references.to(device)
            references = torch.where(torch.isin(references, excluded), self.ignore_index, references)
        targets = super()._prepare(shape, device, labels, references, mask)
        return replace(targets, labelled=labelled)

    def _wanted(self, targets: Targets) -> tuple[Tensor, Tensor | None, Tensor | None]:
        columns, _, word_start = super()._wanted(targets)
        return columns, targets.labels, word_start

    def _loss(self, gathered: Gathered, targets: Targets, name: str = "logits") -> Tensor:
        assert targets.labelled is not None
        lengths = targets.labelled.sum(1).to(gathered.match_probs.dtype)
        of_tokens = torch.where(targets.labelled, -gathered.target_log_probs, 0).sum(1)
        bleu, mean = lengths.new_zeros(()), lengths.new_ones(())
        if self.blend > 0:
            bleu = super()._loss(gathered, targets, name)
            mean = bleu
            if self.options.level == "sentence":
                mean = (bleu * lengths).sum() / lengths.sum().clamp(min=1)
                bleu = (bleu * lengths).sum() if self.weighting == "tokens" else bleu.sum()
        nll = of_tokens.sum() if self.weighting == "tokens" else (of_tokens / lengths.clamp(min=1)).sum()
        labels, sizes = lengths.sum(), self._lengths(gathered, targets)
        self.measured = torch.stack([labels, (1 - mean) * labels, of_tokens.sum(), *sizes]).detach()
        return torch.stack([bleu, nll if self.blend < 1 else torch.zeros_like(nll)])  # 0 times inf is not 0

    def _lengths(self, gathered: Gathered, targets: Targets) -> tuple[Tensor, Tensor]:
        """The expected number of tokens before EOS and the labels' number, summed over the batch."""
        if self.eos_id is None:
            return (gathered.match_probs.new_zeros(()),) * 2
        assert targets.labels is not None
        stop = gathered.match_probs[..., -1].detach()  # EOS is the last id that is gathered
        alive = torch.where(targets.mask, 1 - stop, 1).cumprod(1)
        return (alive * targets.mask).sum(), (targets.mask & (targets.labels != self.eos_id)).sum().to(stop.dtype)


class LogitParts(BlendedParts, ExpectedBLEULoss):
    """The parts from logits."""


class LinearParts(BlendedParts, LinearExpectedBLEULoss):
    """The parts from hidden states and the output projection."""
