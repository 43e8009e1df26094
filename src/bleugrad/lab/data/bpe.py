"""Subwords by byte-pair encoding, trained and applied by the ``tokenizers`` library."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from bleugrad.lab.data.limits import MOST_WORD_CHARACTERS
from bleugrad.lab.data.vocabulary import Vocabulary
from bleugrad.lab.extras import require_extra
from bleugrad.lab.special_ids import SPECIAL, UNK

SPACE_MARK = "▁"


class BPEVocabulary(Vocabulary):
    """Subwords by byte-pair encoding; the first piece of a word starts with ``▁``.

    Only tokens and merges are saved. ``</s>`` in a sentence is encoded as plain characters, never as a special token.
    """

    def __init__(self, tokens: Sequence[str], merges: Iterable[Sequence[str]]) -> None:
        super().__init__(tokens)
        self.merges = [(left, right) for left, right in merges]
        self._tokenizer = _tokenizer(self._ids, self.merges)

    @classmethod
    def build(cls, lines: Iterable[str], size: int, min_count: int = 1) -> "BPEVocabulary":
        """Train on a text: at most ``size`` tokens, including special tokens and single characters.

        Pairs that occur less often than ``min_count`` are not merged.
        """
        require_extra("text", "tokenizers", "a BPE vocabulary")
        import json

        from tokenizers import trainers

        tokenizer = _tokenizer({}, [])
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=min_count, special_tokens=list(SPECIAL), show_progress=False
        )
        tokenizer.train_from_iterator(map(_spaced, lines), trainer)
        model = json.loads(tokenizer.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if len(tokens) > size:
            raise ValueError(f"size is {size}; expected at least {len(tokens)}, one token per character of the text")
        return cls(tokens, [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]])

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the pieces of each line; unknown characters become <unk>."""
        encodings = self._tokenizer.encode_batch_fast([_spaced(line) for line in lines], add_special_tokens=False)
        return [_without_special(encoding.ids) for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the pieces."""
        pieces = [SPACE_MARK + piece if piece == SPECIAL[UNK] else piece for piece in self.decoded_tokens(ids)]
        return " ".join("".join(pieces).replace(SPACE_MARK, " ").split())

    def word_start(self) -> list[bool]:
        """True for pieces with ``▁`` and for special tokens."""
        return [index < len(SPECIAL) or token.startswith(SPACE_MARK) for index, token in enumerate(self.tokens)]

    def to_json(self) -> dict[str, Any]:
        """Tokens and merges."""
        return {"kind": "bpe", "tokens": self.tokens, "merges": [list(pair) for pair in self.merges]}


def _tokenizer(ids: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    require_extra("text", "tokenizers", "a BPE vocabulary")
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token=SPECIAL[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE_MARK, prepend_scheme="always")
    return tokenizer


def _spaced(text: str) -> str:
    """The words with single spaces between them. Words over the length limit are truncated."""
    words = text.split()
    if len(text) > MOST_WORD_CHARACTERS and (longest := max(map(len, words), default=0)) > MOST_WORD_CHARACTERS:
        message = f"a word has {longest} characters; only its first {MOST_WORD_CHARACTERS} are cut into subwords"
        warnings.warn(message, stacklevel=3)
        words = [word[:MOST_WORD_CHARACTERS] for word in words]
    return " ".join(words)


def _without_special(ids: list[int]) -> list[int]:
    """Replace special ids by <unk>: a merge may have created a piece spelled like a special token."""
    return [index if index >= len(SPECIAL) else UNK for index in ids]
