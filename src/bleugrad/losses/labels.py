"""Labels as for cross-entropy, turned into what BLEU needs: which positions count, and the references."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import check_ids, check_mask, check_range
from bleugrad.core.counted import CountedReferences, count_references
from bleugrad.core.sequences import IdLists, References


@dataclass(frozen=True)
class Targets:
    """``mask`` (B, T): positions that count. ``labels`` (B, T) are 0 where ``labelled`` (B, T) is False."""

    mask: Tensor
    counted: CountedReferences
    labels: Tensor | None
    labelled: Tensor | None

    @property
    def references(self) -> References:
        """The references in tokens."""
        return self.counted.tokens


def prepare_targets(
    labels: Tensor | None,
    references: Tensor | IdLists | None,
    mask: Tensor | None,
    *,
    batch: int,
    steps: int,
    vocabulary: int,
    device: torch.device,
    eos_id: int | None,
    ignore_index: int,
    word_start: Tensor | None = None,
) -> Targets:
    """Positions that count (by default those with a label) and references (by default the labels that count).

    A sentence of which no position counts is left out, with its references.
    """
    mask = check_mask(mask, batch, steps, device)
    labelled = None
    if labels is None:
        if references is None:
            raise TypeError("labels and references are both None; expected labels (B, T), or references")
    else:
        labels = _check_labels(labels, batch, steps).to(device)
        labelled = labels != ignore_index
        check_range("labels", labels, labelled, vocabulary, ignore_index)
    position = mask if mask is not None else labelled
    if position is None:
        position = torch.ones(batch, steps, dtype=torch.bool, device=device)
    if references is None and labels is not None:
        references, name = torch.where(position, labels, ignore_index), "labels"
    else:
        name = "references"
    counted = count_references(
        references,  # type: ignore[arg-type]
        word_start,
        batch=batch,
        of="logits",
        device=device,
        vocabulary=vocabulary,
        eos_id=eos_id,
        ignore_index=ignore_index,
        name=name,
        kept=position.any(1),
    )
    if labels is None or labelled is None:
        return Targets(position, counted, None, None)
    return Targets(position, counted, torch.where(labelled, labels, 0), labelled & position)


def _check_labels(labels: object, batch: int, steps: int) -> Tensor:
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels is a {type(labels).__name__}; expected a tensor of token ids (B, T)")
    labels = check_ids("labels", labels)
    if labels.shape != (batch, steps):
        raise ValueError(
            f"labels has shape {tuple(labels.shape)}; expected {(batch, steps)}, as the logits' (B, T): "
            "sentences must not be flattened, since n-grams end where they do"
        )
    return labels
