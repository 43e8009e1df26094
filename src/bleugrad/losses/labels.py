"""Labels as for cross-entropy, turned into what BLEU needs: which positions count, and the references."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import check_ids, check_mask
from bleugrad.core.sequences import IdLists, References, prepare_references


@dataclass(frozen=True)
class Targets:
    """``mask`` (B, T): positions that count. ``labels`` (B, T) are 0 where ``labelled`` (B, T) is False."""

    mask: Tensor
    references: References
    labels: Tensor | None
    labelled: Tensor | None


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
) -> Targets:
    """Positions that count (by default those with a label) and references (by default the labels)."""
    check_mask(mask, batch, steps)
    labelled = None
    if labels is None:
        if references is None:
            raise TypeError("labels and references are both None; expected labels (B, T), or references")
    else:
        labels = _check_labels(labels, batch, steps).to(device)
        labelled = labels != ignore_index
    counted = mask if mask is not None else labelled
    if counted is None:
        counted = torch.ones(batch, steps, dtype=torch.bool, device=device)
    source, name = (references, "references") if references is not None else (labels, "labels")
    prepared = prepare_references(
        source,  # type: ignore[arg-type]
        batch=batch,
        of="logits",
        device=device,
        vocabulary=vocabulary,
        eos_id=eos_id,
        ignore_index=ignore_index,
        name=name,
    )
    if labels is None or labelled is None:
        return Targets(counted, prepared, None, None)
    return Targets(counted, prepared, torch.where(labelled, labels, 0), labelled & counted)


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
