"""Mistakes that raise no error and spoil the training. The loss looks for them once, in its first batch.

Each check returns a message that names the mistake and the remedy, or None.
"""

from torch import Tensor
from torch.nn.functional import cross_entropy

from bleugrad.hf.counting import IGNORED


def sampled(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Up to 8 sentences and 34 positions with labels: enough for the checks of logits, in little memory."""
    start = int((labels[:8] != IGNORED).any(0).int().argmax())
    window = (slice(8), slice(max(start - 2, 0), start + 32))
    return rows[window], labels[window]


def ignored_labels(labels: Tensor) -> str | None:
    """No label counts."""
    mistake = "all labels of the first batch are -100, so its loss is 0 and nothing is learnt"
    return None if (labels != IGNORED).any() else f"{mistake}; check how prompts are masked"


def padded_labels(labels: Tensor, pad_id: int | None, eos_id: int | None) -> str | None:
    """Padding that counts as text. If the padding id is also EOS, only a second one in a row shows it."""
    padding = labels == (IGNORED - 1 if pad_id is None else pad_id)
    if pad_id == eos_id:
        padding = padding[:, 1:] & padding[:, :-1]
    message = f"labels contain the padding id {pad_id}; set padded labels to -100, as bleugrad.hf.BLEUCollator does"
    return message if padding.any() else None


def missing_ends(labels: Tensor, eos_id: int | None) -> str | None:
    """Labels without EOS although the hypothesis ends there: not added, or cut off."""
    if eos_id is None:
        return None
    counted = (labels != IGNORED).any(1)
    missing = int((counted & ~(labels == eos_id).any(1)).sum())
    if missing == 0:
        return None
    if missing < counted.sum():
        return (
            f"{missing} of {int(counted.sum())} labels in the first batch have no EOS, probably because they were "
            "truncated, so their end is not learnt; raise the maximum length or drop such examples"
        )
    return (
        "no label in the first batch has an EOS, but eos is 'length', so the model does not learn to stop; add the EOS "
        "to the labels, as bleugrad.hf.encode_completion does, or use eos='token'"
    )


def wrong_shift(logits: Tensor, labels: Tensor) -> str | None:
    """Labels (B, T) of a causal model that fit better if they are shifted by 0 or 2 positions instead of 1."""
    rows, losses = logits.float(), []
    for shift in range(3):
        target = labels[:, shift:]
        if not (target != IGNORED).any():
            return None
        losses.append(cross_entropy(rows[:, : target.shape[1]].flatten(0, 1), target.flatten(), ignore_index=IGNORED))
    best = min((0, 2), key=lambda shift: float(losses[shift]))
    if not losses[best] < min(0.6 * losses[1], losses[1] - 1):
        return None
    return (
        f"the labels fit the logits better if they are shifted by {best} (cross-entropy {losses[best]:.2f}) than by 1 "
        f"({losses[1]:.2f}); the loss shifts them itself: pass labels that are the input ids, with -100 in the prompt"
    )


def nothing_to_smooth(label_smoothing: float, cross_entropy: bool) -> str | None:
    """Label smoothing without cross-entropy."""
    found = f"label_smoothing is {label_smoothing}, but the loss has no cross-entropy to smooth"
    reason = "adaptive is False and bleu_weight is 1; set it to 0"
    return None if label_smoothing == 0 or cross_entropy else f"{found}: {reason}"
