"""The output of a CTC model: independent frames, merged."""

from dataclasses import replace

import torch
from torch import Tensor

from bleugrad.arguments import check_id
from bleugrad.backends import operations
from bleugrad.matches.frames import frame_statistics
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.output import UnalignedOutput
from bleugrad.outputs.rows import check_floating
from bleugrad.references.sequences import check_lengths, close_up
from bleugrad.references.targets import Targets


class CTC(UnalignedOutput):
    """Frames (B, T, V) of a CTC model: repeated symbols are merged, then blanks are removed.

    Pass it wherever logits are accepted. Labels are references: (B, R) for any R, padded with ``ignore_index``. The
    status of each quantity:

    * matches: **exact**, with all clips and repeats.
    * E[length], and the totals of orders 1 and 2: **exact**. The distribution of the length is a **surrogate**, and so
      are the totals above order 2 and the brevity penalty; see :func:`bleugrad.lengths.frames.frame_lengths`.
    * No certified interval is known.

    Args:
        logits: (B, T, V), any floating type.
        blank_id: the id of the blank.
        lengths: (B,), frames that count; all by default.
        sharpness: scores distributions proportional to p ^ sharpness.

    ``cross_entropy_weight`` of a loss adds ``F.ctc_loss`` per token of the labels, 0 for labels that no output can be,
    and then needs the memory of a log-softmax. O(B T V) time, and one tensor of the logits' size beyond them.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> output = bleugrad.CTC(torch.randn(2, 6, 20), blank_id=0, lengths=torch.tensor([6, 4]))
        >>> loss = bleugrad.ExpectedBLEULoss()(output, torch.tensor([[5, 17, 3], [9, 9, -100]]))
        >>> round(loss.item(), 3)
        0.825
    """

    def __init__(self, logits: Tensor, *, blank_id: int, lengths: Tensor | None = None, sharpness: float = 1.0) -> None:
        batch, steps, vocabulary = check_floating("logits", logits, "(B, T, V)", 3).shape
        self.shape, self.device = (batch, steps, vocabulary), logits.device
        self.logits, self.blank_id, self.sharpness = logits, check_id("blank_id", blank_id, vocabulary), sharpness
        self.lengths = None if lengths is None else check_lengths("lengths", lengths, batch, steps, logits.device)

    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """See :meth:`Output.statistics`."""
        self.check_options(targets)
        if targets.checked:
            ids, lengths = targets.tokens.ids, targets.tokens.lengths
            within = torch.arange(ids.shape[2], device=ids.device) < lengths[..., None]
            if bool(((ids == self.blank_id) & within).any()):
                held = f"labels, references or candidates hold blank_id {self.blank_id}"
                raise ValueError(f"{held}; expected tokens, padded with ignore_index")
        ids = torch.nn.functional.pad(targets.columns, (0, 1), value=self.blank_id)
        counted = None if targets.order is None else targets.mask
        asked = (ids, counted, self.blank_id, self.sharpness, self.inplace)
        match_probs, repeated, _ = operations.frame_probabilities(self.logits, *asked)
        found = frame_statistics(match_probs, repeated, targets, method)
        return replace(found, label_log_probs=self._label_log_probs(targets)) if label_log_probs else found

    def _label_log_probs(self, targets: Targets) -> Tensor:
        """The log-probability of the labels of a sentence, over all frames that lead to them, shared out equally."""
        labels, number = close_up(*targets.given_labels())
        logits, mask, order = self.logits, targets.mask, targets.order
        if mask is not None:  # rows that do not count may hold anything
            logits = logits.masked_fill(~mask[..., None], 0)
        if order is not None:
            logits = logits.gather(1, order[..., None].expand_as(logits))
        loss = torch.nn.functional.ctc_loss(
            logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32)).transpose(0, 1),
            labels,
            targets.limits,
            number,
            self.blank_id,
            reduction="none",
            zero_infinity=True,
        )
        return -(loss / number.clamp(min=1))[:, None].expand_as(labels)
