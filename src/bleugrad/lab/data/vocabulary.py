"""Tokens and their ids. Ids 0 to 3 mean the same in every vocabulary."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bleugrad.lab.special_ids import BOS, EOS, PAD, SPECIAL, UNK


class Vocabulary(ABC):
    """The tokens of a language. Equal vocabularies encode every text alike."""

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"tokens begins with {list(tokens[:4])}; expected {list(SPECIAL)}")
        self.tokens = list(tokens)
        """The token of each id."""
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            twice = next(token for token, count in Counter(self.tokens).items() if count > 1)
            raise ValueError(f"tokens holds {twice!r} more than once; expected each token once")

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is too long to hash

    @abstractmethod
    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS. Text that looks like a special token is plain text."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text before the first EOS, without PAD and BOS."""

    @abstractmethod
    def word_start(self) -> list[bool] | None:
        """Whether each token starts a word; None if every token is a word."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The content that :func:`read_vocabulary` reads."""

    def encode(self, text: str) -> list[int]:
        """The ids of one line."""
        return self.encode_lines([text])[0]

    def decoded_tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens before the first EOS, without PAD and BOS."""
        tokens = []
        for index in ids:
            if index == EOS:
                break
            if not 0 <= index < len(self.tokens):
                raise ValueError(f"ids holds {index}; expected ids from 0 to {len(self.tokens) - 1}")
            if index not in (PAD, BOS):
                tokens.append(self.tokens[index])
        return tokens


class WordVocabulary(Vocabulary):
    """Words between spaces. Unknown words become <unk>.

    Example:
        >>> vocabulary = WordVocabulary.build(["the cat", "the dog"], min_count=2)
        >>> vocabulary.tokens, vocabulary.encode("the cat"), vocabulary.decode([2, 4, 1, 3])
        (['<pad>', '<unk>', '<s>', '</s>', 'the'], [4, 1], 'the <unk>')
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__(tokens)
        self._words = {token: index for token, index in self._ids.items() if index >= len(SPECIAL)}

    @classmethod
    def build(cls, lines: Iterable[str], min_count: int = 1, size: int = 0) -> "WordVocabulary":
        """The words of a text, most frequent first; at most ``size`` tokens with the special ones (0: no limit)."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line.split())
        for special in SPECIAL:
            counts.pop(special, None)
        words = [word for word, count in counts.items() if count >= min_count]
        words.sort(key=lambda word: (-counts[word], word))
        return cls([*SPECIAL, *_first(words, size)])

    @classmethod
    def from_list(cls, words: Iterable[str], size: int = 0) -> "WordVocabulary":
        """A vocabulary of distinct words, limited as by :meth:`build`; special tokens among them move to the front."""
        words = list(words)
        for number, word in enumerate(words, start=1):
            if word.split() != [word]:
                raise ValueError(f"entry {number} of the list of words is {word!r}; expected one word, without spaces")
        plain = [word for word in words if word not in SPECIAL]
        return cls([*SPECIAL, *_first(plain, size)])

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the words of each line."""
        find = self._words.get
        return [[find(word, UNK) for word in line.split()] for line in lines]

    def decode(self, ids: Iterable[int]) -> str:
        """The words, joined by spaces."""
        return " ".join(self.decoded_tokens(ids))

    def word_start(self) -> None:
        """None: every token is a word."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The tokens."""
        return {"kind": "words", "tokens": self.tokens}


def read_vocabulary(saved: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary that ``to_json`` saved."""
    if isinstance(saved, Mapping) and saved.get("kind") == "raw":
        from bleugrad.lab.data.raw_text import RawVocabulary

        return RawVocabulary.from_json(saved)
    tokens = saved.get("tokens") if isinstance(saved, Mapping) else None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError("the saved vocabulary has no list of tokens; expected the output of Vocabulary.to_json")
    kind = saved.get("kind")
    if kind == "words":
        return WordVocabulary(tokens)
    if kind == "bpe":
        from bleugrad.lab.data.bpe import BPEVocabulary

        return BPEVocabulary(tokens, saved.get("merges", ()))
    if kind == "sentencepiece":
        raise ValueError("SentencePiece models are no longer read; use the version of bleugrad that wrote it")
    raise ValueError(f"the saved vocabulary is of kind {kind!r}; expected 'words', 'bpe' or 'raw'")


def _first(words: list[str], size: int) -> list[str]:
    return words[: max(size - len(SPECIAL), 0)] if size else words
