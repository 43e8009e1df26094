"""Ordinary sentences as words and back: marks for missing spaces, and the usual case of a first word.

``Wo ist mein Buch?`` becomes ``wo ist mein Buch ￭?``: punctuation is split off, and ``￭`` says where no space was. The
first word gets the case that it has inside sentences. Both are undone in a translation.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bleugrad.lab.data.vocabulary import Vocabulary, read_vocabulary

JOINER = "￭"
"""Says that there is no space on its side of a token."""

_PARTS = re.compile(r"[^\W_]+(?:(?<=\d)[.,](?=\d)[^\W_]+)*|[\W_]")
"""Letters and digits in a row, with the point of a number, or one other character."""

_ATTACHED = re.compile(r"^(?!&\w+;$).*[^\W\d_][?!,;:]$")  # &quot; is a token of Moses


def split_words(text: str) -> str:
    """The text with spaces between words and punctuation; :func:`join_words` undoes it, except for repeated spaces.

    Example:
        >>> split_words("Well, it's 3.50 euros!")
        "Well ￭, it ￭'￭ s 3.50 euros ￭!"
    """
    return " ".join(token for word in text.replace(JOINER, "").split() for token in _tokens(word))


def _tokens(word: str) -> list[str]:
    """The parts of a word between spaces; the mark is on the side of the punctuation."""
    parts = _PARTS.findall(word)
    tokens = []
    for place, part in enumerate(parts):
        plain = part[0].isalnum()
        before = JOINER if place and not plain else ""
        after = JOINER if not plain and place + 1 < len(parts) and parts[place + 1][0].isalnum() else ""
        tokens.append(f"{before}{part}{after}")
    return tokens


def join_words(text: str) -> str:
    """The ordinary text of words with marks.

    Example:
        >>> join_words("Well ￭, it ￭'￭ s 3.50 euros ￭!")
        "Well, it's 3.50 euros!"
    """
    return re.sub(f" ?{JOINER} ?", "", text)


def untokenised(text: str, cased: bool) -> str | None:
    """The first word of a line that tokenised text would not have: punctuation at its end, or a capital letter.

    A capital letter counts only if the tokens are not ``cased``.
    """
    for word in text.split():
        if _ATTACHED.search(word) or (not cased and word != word.lower()):
            return word
    return None


@dataclass(frozen=True)
class Casing:
    """The usual case of words by their lowercase form, for first words of sentences; others are lowercased there."""

    usual: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def learn(cls, lines: Iterable[str]) -> "Casing":
        """The most frequent case of each word inside the sentences of a text, unless that is lowercase.

        A word that only begins sentences keeps its case.
        """
        inside: dict[str, Counter[str]] = defaultdict(Counter)
        first: dict[str, str] = {}
        for line in lines:
            words = line.split()
            for word in words[:1]:
                first.setdefault(word.lower(), word)
            for word in words[1:]:
                inside[word.lower()][word] += 1
        usual = {low: min(forms, key=lambda form: (-forms[form], form)) for low, forms in inside.items()}
        usual = {low: form for low, form in sorted((first | usual).items()) if form != low}
        return cls(usual)

    def lower(self, text: str) -> str:
        """The text with its first word in its usual case."""
        first, space, rest = text.partition(" ")
        return self.usual.get(first.lower(), first.lower()) + space + rest


class RawVocabulary(Vocabulary):
    """A vocabulary of words or subwords that reads and writes ordinary text."""

    def __init__(self, inner: Vocabulary, casing: Casing) -> None:
        super().__init__(inner.tokens)
        self.inner, self.casing = inner, casing

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each ordinary sentence."""
        return self.inner.encode_lines([self.casing.lower(split_words(line)) for line in lines])

    def decode(self, ids: Iterable[int]) -> str:
        """An ordinary sentence, with a capital letter at its beginning."""
        text = join_words(self.inner.decode(ids))
        return text[:1].upper() + text[1:]

    def word_start(self) -> list[bool] | None:
        """As in the inner vocabulary: words are those between spaces, with punctuation apart."""
        return self.inner.word_start()

    def to_json(self) -> dict[str, Any]:
        """The casing, and the inner vocabulary."""
        return {"kind": "raw", "casing": dict(self.casing.usual), "inner": self.inner.to_json()}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "RawVocabulary":
        """The vocabulary that :meth:`to_json` saved."""
        usual = saved.get("casing")
        if not isinstance(usual, dict) or not all(isinstance(word, str) for word in usual.values()):
            raise ValueError("the saved vocabulary has no table of cases; expected the output of Vocabulary.to_json")
        return cls(read_vocabulary(saved.get("inner", {})), Casing(usual))
