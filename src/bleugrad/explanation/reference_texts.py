"""Texts of tokens, words and n-grams of the references."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.references.sequences import References
from bleugrad.references.targets import Targets


@dataclass(frozen=True)
class ReferenceTexts:
    """The texts of the references of one sentence. Without a vocabulary, a token is shown as its id."""

    vocabulary: Sequence[str] | None
    targets: Targets

    def token(self, number: int) -> str:
        """The text of a token id."""
        return str(number) if self.vocabulary is None else self.vocabulary[number]

    def references(self) -> tuple[tuple[str, ...], ...]:
        """The tokens of each reference."""
        ids, lengths = self.targets.tokens.ids[0], self.targets.tokens.lengths[0].tolist()
        return tuple(tuple(map(self.token, row[:length])) for row, length in zip(ids.tolist(), lengths, strict=True))

    def units(self) -> tuple[tuple[str, ...], ...]:
        """The tokens or words of each reference."""
        words = self.targets.words
        if words is None:
            return self.references()
        tokens = [self.token(number) for number in self.targets.tokens.ids.flatten().tolist()]
        begins, spans = words.starts[0].tolist(), words.spans[0].tolist()
        texts = ["".join(tokens[begin : begin + span]) for begin, span in zip(begins, spans, strict=True)]
        width = words.references.ids.shape[2]
        lengths = words.references.lengths[0].tolist()
        return tuple(tuple(texts[k * width : k * width + length]) for k, length in enumerate(lengths))

    def occurrences(self, order: int) -> dict[int, list[int]]:
        """Start indices of each n-gram among the shown units, by the column of its first occurrence."""
        units = self.targets.units
        width = units.ids.shape[2]
        found: dict[tuple[int, ...], tuple[int, list[int]]] = {}
        shown = 0
        for k, (row, length) in enumerate(zip(units.ids[0].tolist(), units.lengths[0].tolist(), strict=True)):
            for start in range(length - order + 1):
                _, places = found.setdefault(tuple(row[start : start + order]), (k * width + start, []))
                places.append(shown + start)
            shown += length
        return dict(found.values())


def used_columns(references: References) -> Tensor:
    """Indices of the used columns of the references of one sentence, laid end to end."""
    inside = torch.arange(references.ids.shape[2]) < references.lengths[0][:, None]
    return inside.flatten().nonzero().squeeze(1)
