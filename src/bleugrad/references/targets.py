"""What a batch of outputs is compared with: the positions that count, the references, and the labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_id
from bleugrad.backends import operations
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import IdLists, References, prepare_positions, prepare_references
from bleugrad.references.words import Words, segment


@dataclass(frozen=True)
class Targets:
    """The positions and references of a batch of B sentences with T positions.

    The positions that count are the first ``limits`` of each sentence if it is read in ``order``.
    """

    mask: Tensor | None  #: (B, T) bool, the positions that count; None where all do.
    limits: Tensor  #: (B,), how many count.
    order: Tensor | None  #: (B, T), the positions that count, then others; None where all count.
    tokens: References  #: the references that probabilities are gathered for.
    units: References  #: the references in what is counted, tokens or words.
    columns: Tensor  #: (B, L), ids whose probabilities are needed, the references end to end, then EOS if given.
    eos_id: int | None
    patterns: Patterns | None  #: the n-grams of the references; None if they were not asked for.
    words: Words | None = None  #: None where tokens are counted.
    word_start: Tensor | None = None  #: (V,) bool without EOS; None where tokens are counted.
    labels: Tensor | None = None  #: (B, T), 0 where they are ignored.
    labelled: Tensor | None = None  #: (B, T) bool, where they are not.
    end_positions: int = 0  #: positions that match nothing after the last one that counts.
    checked: bool = False  #: whether values are read back and checked.
    of: str = "logits"  #: what messages call the output.

    def given_labels(self, reason: str = "cross_entropy_weight is above 0") -> tuple[Tensor, Tensor]:
        """Return the labels and where they are not ignored, or raise if there are none."""
        if self.labels is None or self.labelled is None:
            raise TypeError(f"labels is None; expected (B, T) token ids, since {reason}")
        return self.labels, self.labelled


def prepare_targets(
    shape: tuple[int, int, int],
    device: torch.device,
    labels: Tensor | None,
    references: Tensor | IdLists | None,
    mask: Tensor | None,
    *,
    eos_id: int | None,
    ignore_index: int,
    word_start: Tensor | None = None,
    max_order: int | None = None,
    leave_out: bool = True,
    end_positions: int = 0,
    aligned: bool = True,
    lengths: Tensor | None = None,
    of: str = "logits",
) -> Targets:
    """The targets of an output of ``shape`` (B, T, V), checked.

    Args:
        shape: of the output.
        device: of the output.
        labels: (B, T), or (B, R) where they are not aligned; or None.
        references: (B, R), (B, K, R) or nested lists; None for the labels that count.
        mask: (B, T) bool, positions that count; None for those with a label, or for all if there are no labels.
        eos_id: makes the length random; references are cut before their first EOS.
        ignore_index: the padding id of labels and references.
        word_start: (V,) bool, tokens that open a word; None to count tokens.
        max_order: the highest order of the patterns; None for no patterns.
        leave_out: take the references of a sentence as empty if none of its positions counts.
        end_positions: see :class:`Targets`.
        aligned: whether label t is the target of position t. Otherwise labels are references, and a sentence without
            any does not count.
        lengths: (B,), positions of each sentence that count, if the mask agrees; None for all.
        of: what messages call the output.
    """
    batch, steps, vocabulary = shape
    if eos_id is not None:
        check_id("eos_id", eos_id, vocabulary)
    if mask is not None:
        mask = check_mask(mask, batch, steps, device)
    if lengths is not None:
        within = torch.arange(steps, device=device) < lengths[:, None]
        mask = within if mask is None else mask & within
    counted = prepare_positions(
        labels,
        mask,
        shape,
        device,
        aligned=aligned,
        eos_id=eos_id,
        ignore_index=ignore_index,
        as_references=references is None,
    )
    limits = counted.limits
    if references is not None:
        tokens = prepare_references(
            references,
            batch=batch,
            of=of,
            device=device,
            vocabulary=vocabulary,
            eos_id=eos_id,
            ignore_index=ignore_index,
        )
    elif counted.references is not None:
        tokens = counted.references
    else:
        raise TypeError("labels and references are both None; expected labels (B, T), or references")
    if leave_out and not (references is None and aligned):  # else no reference is left where no position counts
        tokens = References(tokens.ids, torch.where(limits[:, None] > 0, tokens.lengths, 0))
    columns = tokens.ids.flatten(1)
    if eos_id is not None:
        columns = torch.nn.functional.pad(columns, (0, 1), value=eos_id)
    words, starts, units, patterns = None, None, tokens, None
    if word_start is not None:
        starts = check_word_start(word_start, vocabulary).to(device)
        if eos_id is not None:  # which opens no word
            starts = starts.clone()
            starts[eos_id].fill_(False)
        words = segment(tokens, starts)
        units = words.references
    if max_order is not None:
        clips, overlaps = operations.ngram_clips(units.ids, units.lengths, max_order)
        patterns = Patterns(clips, overlaps, None if words is None else words.spans)
    return Targets(
        mask=counted.mask,
        limits=limits,
        order=counted.order,
        tokens=tokens,
        units=units,
        columns=columns,
        eos_id=eos_id,
        patterns=patterns,
        words=words,
        word_start=starts,
        labels=counted.labels,
        labelled=counted.labelled,
        end_positions=end_positions,
        checked=counted.checked,
        of=of,
    )


def check_word_start(word_start: object, vocabulary: int) -> Tensor:
    """Return ``word_start`` if it is a (V,) bool tensor."""
    return check_bool("word_start", word_start, (vocabulary,), "the vocabulary's", "for tokens that open a word")


def check_mask(mask: object, batch: int, steps: int, device: torch.device) -> Tensor:
    """Return ``mask`` on the device, if it is a (B, T) bool tensor."""
    return check_bool("mask", mask, (batch, steps), "the (B, T) of the logits", "where a position counts").to(device)


def check_bool(name: str, value: object, shape: tuple[int, ...], of: str, true: str) -> Tensor:
    """Return ``value`` if it is a bool tensor of that shape; messages say whose shape it is and where it is True."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} is {found}; expected a bool tensor, True {true}")
    if value.shape != shape:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {shape}, {of}")
    return value
