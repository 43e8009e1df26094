"""References as they are gathered, in tokens, and as they are counted, in tokens or in words."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.arguments import check_word_start
from bleugrad.core.ngrams import Patterns, reference_patterns
from bleugrad.core.sequences import IdLists, References, prepare_references
from bleugrad.core.words import Words, segment


@dataclass(frozen=True)
class CountedReferences:
    """``tokens`` are what is gathered; ``units``, tokens or words, are what is counted.

    ``words`` and ``word_start`` (V,), without EOS, are None where tokens are counted.
    """

    tokens: References
    eos_id: int | None
    words: Words | None
    word_start: Tensor | None

    @property
    def units(self) -> References:
        """The references in the units that are counted."""
        return self.tokens if self.words is None else self.words.references

    def columns(self) -> Tensor:
        """The token ids whose probabilities are needed: the references end to end, then EOS if the length is random."""
        columns = self.tokens.ids.flatten(1)
        return columns if self.eos_id is None else torch.nn.functional.pad(columns, (0, 1), value=self.eos_id)

    def patterns(self, max_order: int) -> Patterns:
        """The distinct n-grams of each sentence."""
        return reference_patterns(self.units, max_order, None if self.words is None else self.words.spans)


def count_references(
    references: Tensor | IdLists,
    word_start: Tensor | None,
    *,
    batch: int,
    of: str,
    device: torch.device,
    vocabulary: int,
    eos_id: int | None,
    ignore_index: int,
    name: str = "references",
    kept: Tensor | None = None,
) -> CountedReferences:
    """References from a tensor or nested lists, checked, cut before EOS, and in words if ``word_start`` is given.

    Where ``kept`` (B,) is False a sentence's references are taken as empty.
    """
    tokens = prepare_references(
        references,
        batch=batch,
        of=of,
        device=device,
        vocabulary=vocabulary,
        eos_id=eos_id,
        ignore_index=ignore_index,
        name=name,
    )
    if kept is not None:
        tokens = References(tokens.ids, torch.where(kept[:, None], tokens.lengths, 0))
    if word_start is None:
        return CountedReferences(tokens, eos_id, None, None)
    starts = check_word_start(word_start, vocabulary).to(device)
    if eos_id is not None:
        starts = starts & (torch.arange(vocabulary, device=device) != eos_id)
    return CountedReferences(tokens, eos_id, segment(tokens, starts), starts)
