"""Token sequences: checked ids, moved to the front of their row, with their lengths."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS

Hypotheses = Tensor | Sequence[Sequence[int]]
IdLists = Sequence[Sequence[int]] | Sequence[Sequence[Sequence[int]]]


FLATTENED = "do not flatten the batch, n-grams must not cross sentences"
"""The hint for logits (B * T, V) and labels (B * T,), as cross-entropy takes them."""


@dataclass(frozen=True)
class References:
    """References of a batch: ``ids`` (B, K, R), 0 after the end of each; ``lengths`` (B, K), 0 where absent."""

    ids: Tensor
    lengths: Tensor

    @property
    def has_multiple(self) -> bool:
        """Whether any sentence has more than one reference (whether K > 1 where values are not read back)."""
        if self.ids.shape[1] == 1 or not reads_back(self.ids):
            return self.ids.shape[1] > 1
        return bool((self.lengths > 0).sum(1).gt(1).any())


def check_ids(name: str, ids: Tensor) -> Tensor:
    """Return ``ids`` as int64; anything but an integer tensor is an error."""
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"{name} has dtype {ids.dtype}; expected integer token ids (torch.long)")
    return ids.long()


def check_range(name: str, ids: Tensor, valid: Tensor | None, vocabulary: int | None, ignore_index: int) -> None:
    """Raise if a valid id (None: any) is negative or not below ``vocabulary``. Skipped if values are not read back."""
    if not reads_back(ids) or ids.numel() == 0:
        return
    low, high = map(int, torch.aminmax(ids if valid is None else torch.where(valid, ids, 0)))
    if low < 0:
        raise ValueError(
            f"{name} holds the id {low}; expected ids of at least 0, or ignore_index = {ignore_index} as padding"
        )
    if vocabulary is not None and high >= vocabulary:
        raise ValueError(f"{name} holds the id {high}; expected ids below the vocabulary size {vocabulary}")


def check_batch(name: str, found: int, expected: int, of: str) -> None:
    """Raise unless two batch sizes agree."""
    if found != expected:
        raise ValueError(f"{name} has {found} sentences; expected {expected}, the batch size of {of}")


def check_lengths(name: str, lengths: object, batch: int, steps: int, device: torch.device) -> Tensor:
    """Return ``lengths`` as an int64 tensor (B,) on the device, if they lie within 0..T."""
    try:
        found = torch.as_tensor(lengths, device=device)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise TypeError(f"{name} is {lengths!r:.200}; expected a tensor (B,) of lengths") from None
    found = check_ids(name, found)
    if found.shape != (batch,):
        raise ValueError(f"{name} has shape {tuple(found.shape)}; expected {(batch,)}")
    if reads_back(found) and ((found < 0) | (found > steps)).any():
        raise ValueError(f"{name} holds {found.tolist()}; expected lengths from 0 to T = {steps}")
    return found


def close_up(values: Tensor, valid: Tensor, eos_id: int | None = None) -> tuple[Tensor, Tensor]:
    """Move the valid entries of the last axis to the front, in order; 0 after them. Returns values and lengths.

    With ``eos_id`` only the entries before the first valid one.

    >>> values, lengths = close_up(torch.tensor([[7, 8, 9]]), torch.tensor([[False, True, True]]))
    >>> values.tolist(), lengths.tolist()
    ([[8, 9, 0]], [2])
    """
    valid = before_eos(values, valid, eos_id)
    if reads_back(values) and bool((valid[..., 1:] <= valid[..., :-1]).all()):
        return values.masked_fill(~valid, 0), valid.sum(-1)
    counts = valid.cumsum(-1)
    closed = values.new_zeros(*values.shape[:-1], values.shape[-1] + 1)
    closed = closed.scatter(-1, counts * valid, values)  # what is not valid goes to place 0, which is cut off
    return closed[..., 1:], valid.sum(-1)


def reads_back(values: Tensor) -> bool:
    """Whether the host may read values at once, to check them or to choose a shorter way; not under torch.compile."""
    return values.device.type in SYNCHRONOUS and not torch.compiler.is_compiling()


def before_eos(ids: Tensor, valid: Tensor, eos_id: int | None) -> Tensor:
    """Which valid positions stand before the first valid ``eos_id`` of their sequence."""
    if eos_id is None:
        return valid
    return valid & (((ids == eos_id) & valid).cumsum(-1) == 0)


def pad_lists(name: str, lists: Sequence[Sequence[int]], padding: int) -> Tensor:
    """A (rows, longest) long tensor of ragged id lists."""
    rows = [_id_list(f"{name}[{index}]", row) for index, row in enumerate(lists)]
    width = max((len(row) for row in rows), default=0)
    padded = [row + [padding] * (width - len(row)) for row in rows]
    try:
        return torch.tensor(padded, dtype=torch.long).view(len(rows), width)
    except (OverflowError, RuntimeError, ValueError):  # which of them depends on the version of torch
        raise ValueError(f"{name} holds an id of more than 63 bits; expected token ids") from None


def _id_list(name: str, row: Sequence[int]) -> list[int]:
    if isinstance(row, str) or not isinstance(row, Sequence):
        raise TypeError(f"{name} is {row!r} of type {type(row).__name__}; expected a list of token ids")
    wrong = [entry for entry in row if not hasattr(entry, "__index__")]
    if wrong:
        raise TypeError(f"{name} holds {wrong[0]!r} of type {type(wrong[0]).__name__}; expected integer token ids")
    try:
        return [operator.index(entry) for entry in row]
    except TypeError as error:  # a tensor of several elements, or of no integers
        raise TypeError(f"{name} holds a value that is not an integer; expected token ids: {error}") from None


def prepare_hypotheses(
    hypotheses: Hypotheses, lengths: Tensor | None, ignore_index: int, eos_id: int | None = None
) -> tuple[Tensor, Tensor]:
    """Hypotheses (B, T) closed up, cut before their first ``eos_id``, and their lengths (B,)."""
    if not isinstance(hypotheses, Tensor | Sequence) or isinstance(hypotheses, str):
        raise TypeError(f"hypotheses is a {type(hypotheses).__name__}; expected a tensor or nested lists of token ids")
    if not isinstance(hypotheses, Tensor):
        hypotheses = pad_lists("hypotheses", hypotheses, ignore_index)
    ids = check_ids("hypotheses", hypotheses)
    if ids.dim() != 2:
        raise ValueError(f"hypotheses has shape {tuple(ids.shape)}; expected (B, T)")
    valid = before_eos(ids, ids != ignore_index, eos_id)
    if lengths is not None:
        lengths = check_lengths("hypothesis_lengths", lengths, ids.shape[0], ids.shape[1], ids.device)
        valid = valid & (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None])
    check_range("hypotheses", ids, valid, None, ignore_index)
    return close_up(ids, valid)


def prepare_references(
    references: Tensor | IdLists,
    *,
    batch: int,
    of: str,
    device: torch.device,
    vocabulary: int | None = None,
    eos_id: int | None = None,
    ignore_index: int = -100,
) -> References:
    """References from a (B, R) or (B, K, R) tensor or from nested lists, cut before their first ``eos_id``."""
    if not isinstance(references, Tensor):
        references = _stack_lists(references, ignore_index)
    ids = check_ids("references", references).to(device)
    if ids.dim() == 2:
        ids = ids.unsqueeze(1)
    if ids.dim() != 3:
        raise ValueError(f"references has shape {tuple(references.shape)}; expected (B, R) or (B, K, R)")
    check_batch("references", ids.shape[0], batch, of)
    if ids.shape[1] == 0:
        raise ValueError(f"references has shape {tuple(ids.shape)}; expected at least one reference per sentence")
    valid = ids != ignore_index
    check_range("references", ids, valid, vocabulary, ignore_index)
    return _with_a_column(*close_up(ids, valid, eos_id))


def _with_a_column(ids: Tensor, lengths: Tensor) -> References:
    """References with at least one column, so that something of every row is read and checked."""
    return References(ids if ids.shape[2] else torch.nn.functional.pad(ids, (0, 1)), lengths)


def _stack_lists(references: IdLists, ignore_index: int) -> Tensor:
    """A (B, R) or (B, K, R) tensor of nested lists, whose depth is read off the first entry found."""
    if not isinstance(references, Sequence) or isinstance(references, str):
        raise TypeError(f"references is a {type(references).__name__}; expected a tensor or nested lists of token ids")
    for index, row in enumerate(references):
        if isinstance(row, str) or not isinstance(row, Sequence):
            raise TypeError(
                f"references[{index}] is a {type(row).__name__}; expected a list of token ids or of references"
            )
    depths = {isinstance(entry, Sequence) and not isinstance(entry, str) for row in references for entry in row}
    if len(depths) == 2:
        raise ValueError(
            "references mixes ids with lists of ids; expected one list of ids per sentence, or a list of such lists"
        )
    if True not in depths:
        return pad_lists("references", cast(Sequence[Sequence[int]], references), ignore_index)
    for index, row in enumerate(references):
        if len(row) == 0:
            raise ValueError(f"references[{index}] has no reference; expected at least one per sentence")
    most = max(len(row) for row in references)
    flat = [reference for row in references for reference in (*row, *((),) * (most - len(row)))]
    return pad_lists("references", flat, ignore_index).view(len(references), most, -1)


class Positions(NamedTuple):
    """``mask``, ``order``, ``limits``, ``labels``, ``labelled`` and ``checked`` of the targets."""

    mask: Tensor | None
    order: Tensor | None
    limits: Tensor
    labels: Tensor | None
    labelled: Tensor | None
    references: References | None  #: the labels that count; None if they were not asked for.
    checked: bool


def prepare_positions(
    labels: Tensor | None,
    mask: Tensor | None,
    shape: tuple[int, int, int],
    device: torch.device,
    *,
    aligned: bool,
    eos_id: int | None,
    ignore_index: int,
    as_references: bool,
) -> Positions:
    """The positions that count, and checked labels, also ``as_references``, cut before their first ``eos_id``.

    See :func:`bleugrad.references.targets.prepare_targets` for the other arguments.
    """
    (batch, steps, vocabulary), labelled, references, complete = shape, None, None, False
    every = torch.full((batch,), steps, device=device)
    checked = reads_back(every)
    if labels is not None:
        length = steps if aligned else None
        labels, labelled, complete = _check_labels(labels, batch, length, device, vocabulary, ignore_index)
        given = labelled if aligned else labelled.any(1, keepdim=True).expand(batch, steps)
        if aligned and mask is not None:
            labelled = labelled & mask
        else:
            mask = given if mask is None else mask & given
    order, limits = None, every
    known = complete and mask is labelled  # then the mask need not be read again
    if mask is not None and not (known or (checked and bool(mask.all()))):
        order, limits = close_up(torch.arange(steps, device=device).expand(batch, steps), mask)
    if as_references and labels is not None and labelled is not None:
        ids, lengths, valid = labels.unsqueeze(1), limits.unsqueeze(1), labelled.unsqueeze(1)
        if order is not None or mask is not labelled:
            ids, lengths = close_up(ids, valid, eos_id)
        elif eos_id is not None:  # all labels are valid, so nothing has to be closed up
            valid = (ids == eos_id).cumsum(-1) == 0
            ids, lengths = ids * valid, valid.sum(-1)
        references = _with_a_column(ids, lengths)
    return Positions(mask, order, limits, labels, labelled, references, checked)


def _check_labels(
    labels: object, batch: int, steps: int | None, device: torch.device, vocabulary: int, ignore_index: int
) -> tuple[Tensor, Tensor, bool]:
    """Checked labels (B, T), or (B, R) of any R if ``steps`` is None, 0 where ignored; and where they are not ignored.

    The last result is True if none is ignored, which is not known where values are not read back.
    """
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels is a {type(labels).__name__}; expected a tensor of token ids (B, T)")
    labels = check_ids("labels", labels)
    if steps is None and (labels.dim() != 2 or labels.shape[0] != batch):
        raise ValueError(f"labels has shape {tuple(labels.shape)}; expected ({batch}, R), one row for each sentence")
    if steps is not None and labels.shape != (batch, steps):
        hint = FLATTENED if labels.dim() == 1 else "logits are (B, T, V), with the vocabulary last"
        found = f"labels has shape {tuple(labels.shape)}"
        raise ValueError(f"{found}; expected {(batch, steps)}, as the logits' (B, T): {hint}")
    labels = labels.to(device)
    labelled = labels != ignore_index
    complete = reads_back(labels) and bool(labelled.all())
    if not complete:
        labels = labels * labelled
    check_range("labels", labels, None, vocabulary, ignore_index)
    return labels, labelled, complete
