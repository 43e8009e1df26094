"""Subwords of a SentencePiece model, which is read from a file or trained, and saved with the vocabulary."""

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bleugrad.lab.data.bpe import SubwordVocabulary, spaced
from bleugrad.lab.errors import FailureError
from bleugrad.lab.extras import require_extra
from bleugrad.lab.special_ids import SPECIAL, UNK

LONGEST_LINE = 1 << 20
"""Bytes of a training line that SentencePiece reads."""


class SentencePieceVocabulary(SubwordVocabulary):
    """The pieces of a model, after the special tokens of bleugrad; its own special tokens have no id here."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = _processor(model)
        read = self._processor
        pieces = [
            index
            for index in range(read.get_piece_size())
            if not (read.is_control(index) or read.is_unknown(index) or read.is_unused(index))
        ]
        super().__init__([*SPECIAL, *(read.id_to_piece(index) for index in pieces)])
        self._ours = {index: place for place, index in enumerate(pieces, start=len(SPECIAL))}

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> "SentencePieceVocabulary":
        """Train a unigram model with at most ``size`` tokens, including the special ones, on one thread."""
        require_extra("text", "sentencepiece", "a SentencePiece model")
        import sentencepiece

        written = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=map(spaced, lines),
                model_writer=written,
                vocab_size=max(size - len(SPECIAL) + 1, 1),  # with the unknown piece of the model
                hard_vocab_limit=False,
                character_coverage=1.0,
                bos_id=-1,
                eos_id=-1,
                num_threads=1,
                max_sentence_length=LONGEST_LINE,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(f"size is {size}; SentencePiece cannot train such a model: {error}") from None
        return cls(written.getvalue())

    @classmethod
    def read(cls, path: Path) -> "SentencePieceVocabulary":
        """The model in a file."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise FailureError(
                f"cannot read the sentencepiece model {path}: {error.strerror}; expected the path of a .model file"
            ) from None
        except ValueError as error:
            raise FailureError(f"{path} is no sentencepiece model: {error}") from None

    def encode(self, text: str) -> list[int]:
        """The ids of the pieces; what the model does not know becomes <unk>."""
        return self._own(self._processor.encode(spaced(text)))

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line."""
        return [self._own(ids) for ids in self._processor.encode([spaced(line) for line in lines], num_threads=1)]

    def _own(self, ids: list[int]) -> list[int]:
        return [self._ours.get(index, UNK) for index in ids]

    def to_json(self) -> dict[str, Any]:
        """The model file, and the tokens for a reader."""
        return {"kind": "sentencepiece", "tokens": self.tokens, "model": base64.b64encode(self.model).decode()}

    @classmethod
    def from_json(cls, model: object) -> "SentencePieceVocabulary":
        """The vocabulary of a model that :meth:`to_json` saved."""
        if not isinstance(model, str):
            raise ValueError("the saved vocabulary has no sentencepiece model")
        return cls(base64.b64decode(model, validate=True))


def _processor(model: bytes) -> Any:
    require_extra("text", "sentencepiece", "a SentencePiece model")
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError:
        raise ValueError("its content cannot be read") from None
    if processor.get_piece_size() == 0:
        raise ValueError("it has no pieces")
    return processor
