"""Which tokens open a word, read from a tokenizer. No tokenizer library is imported here.

Tokenizers mark words in one of two places. SentencePiece and Metaspace (``▁the``), byte-level BPE (``Ġthe``) and
WordPiece (``##er`` continues) mark where a word *begins*: the token shows whether it opens a word. ``low@@ er``,
``low er</w>`` and SentencePiece with the space as suffix (``the▁``) mark where a word *ends*: ``er`` may be a word or
the end of one. If the sentence is reversed, the token that ended a word opens it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_int

SPACE_MARK = "▁"
_SPACES = tuple(chr(code) for code in range(0x3001) if chr(code).isspace())
"""All characters at which ``str.split``, and so sacreBLEU, splits: also the no-break space and U+3000."""


def _byte_symbols() -> dict[int, str]:
    """The character that byte-level BPE writes for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


BYTE_SPACES = tuple("".join(map(_byte_symbols().__getitem__, space.encode())) for space in _SPACES)
"""Spaces as byte-level BPE writes them: ``Ġ``, ``Ċ``, ``ĉ``, ..., ``Âł``, ``ãĢĢ``."""

BYTE_FALLBACK_SPACES = frozenset(f"<0x{byte:02X}>" for byte in b" \n\t\r\v\f")


def word_start_mask(
    tokenizer: object,
    *,
    special: bool | Mapping[str, bool] = True,
    flipped: bool = False,
    size: int | None = None,
) -> Tensor:
    """The tokens that open a word, (V,) bool, for ``word_start=``.

    The tokenizer's marks define the words. With space marks (``▁``, ``Ġ``) words are separated by spaces. Tokens that
    begin with another space (tab, no-break space, U+3000) open a word too, as in sacreBLEU. With WordPiece, words are
    those of its pre-tokenizer, which usually separates punctuation.

    Args:
        tokenizer: a fast tokenizer of transformers, a ``tokenizers.Tokenizer``, a ``SentencePieceProcessor``, or the
            vocabulary: a list of token strings, or a dict of them to ids.
        special: whether special tokens (padding, begin, end) open a word. They do by default, so that they never become
            part of the word before them. A dict of token strings to bools sets single tokens, special or not; special
            tokens that it does not name open a word. A plain vocabulary does not say which tokens are special, so its
            tokens are read by their marks unless they are named here.
        flipped: for vocabularies that mark where a word *ends* (``low@@ er``, ``er</w>``, ``er▁``), the mask of the
            tokens that end a word, for ``loss(logits.flip(1), labels.flip(1))``: BLEU does not change if hypotheses
            and references are flipped in time. Exact, for fixed lengths: leave ``eos_id`` out.
        size: V of the model if it is larger than that of the tokenizer; ids without a token count as special tokens.

    The unknown token of a tokenizer with ``▁`` continues a word: the ``▁`` before it is a token of its own. Elsewhere
    it opens one. Tokens added by hand that are not special are read like all others. A token with a space inside counts
    as part of one word, and two spaces in a row (``▁the ▁ ▁cat``) make an empty word: normalise the text first, as
    SentencePiece does by default. Words are equal if their tokens are, so write the first word of a sentence like the
    others (``add_prefix_space=True`` for byte-level BPE).

    Example:
        >>> vocabulary = ["<s>", "▁the", "▁low", "er", "est"]
        >>> word_start_mask(vocabulary, special={"<s>": True}).tolist()
        [True, True, True, False, False]
        >>> word_start_mask(["the", "low@@", "er"], flipped=True).tolist()  # the and er end a word
        [True, False, True]
    """
    read = _read(tokenizer)
    if not isinstance(special, bool | Mapping):
        raise TypeError(f"special is a {type(special).__name__}; expected True, False or a dict of tokens to bools")
    if not isinstance(flipped, bool):
        raise TypeError(f"flipped is a {type(flipped).__name__}; expected True or False")
    style, least = read.style, max(read.tokens.values()) + 1
    if flipped and not style.marks_ends:
        found = f"flipped is True, but the tokenizer marks where words begin ({style.name})"
        raise ValueError(f"{found}; expected flipped=False")
    if style.marks_ends and not flipped:
        raise ValueError(
            f"tokenizer marks where words end ({style.name}), so that a token does not show whether it opens one; "
            "expected flipped=True, and hypotheses and references flipped in time: loss(logits.flip(1), labels.flip(1))"
        )
    if size is not None and not least <= check_int("size", size) < 2**31:
        raise ValueError(f"size is {size}; expected at least {least}, the tokenizer's vocabulary, and below 2**31")
    mask = torch.full((least if size is None else size,), special is not False)
    for token, index in read.tokens.items():
        mask[index] = style.opens(token) or token in read.swallow_space
    mask[sorted(read.special)] = special is not False
    for token, opens in special.items() if isinstance(special, Mapping) else ():
        if token not in read.tokens:
            raise ValueError(f"special names {token!r}, which is not a token of the tokenizer")
        mask[read.tokens[token]] = bool(opens)
    return mask


def marks_word_ends(tokenizer: object) -> bool:
    """Whether the tokenizer marks where words end, so that :func:`word_start_mask` needs ``flipped=True``."""
    return _read(tokenizer).style.marks_ends


@dataclass(frozen=True)
class _Style:
    """How a vocabulary marks words: ``opens`` a word, read from the side that ``marks_ends`` tells.

    ``unknown_opens``: whether the unknown token stands for a word, or for characters after a separate space mark.
    """

    name: str
    opens: Callable[[str], bool]
    marks_ends: bool = False
    unknown_opens: bool = True


BYTE_LEVEL = _Style("Ġ opens a word", lambda token: token.startswith(BYTE_SPACES))


@dataclass(frozen=True)
class _Read:
    """A tokenizer's tokens with their ids, its style, the ids of special tokens, and tokens that take in the space."""

    tokens: Mapping[str, int]
    style: _Style
    special: frozenset[int] = frozenset()
    swallow_space: frozenset[str] = frozenset()


def _read(tokenizer: object) -> _Read:
    if isinstance(tokenizer, Mapping | Sequence) and not isinstance(tokenizer, str | bytes):
        tokens = _checked_vocabulary(tokenizer)
        return _Read(tokens, _style_of_strings(tokens))
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if callable(getattr(backend, "to_str", None)) and callable(getattr(backend, "get_vocab", None)):
        return _read_fast(backend, frozenset(getattr(tokenizer, "all_special_ids", ())))
    if callable(getattr(tokenizer, "id_to_piece", None)) and callable(getattr(tokenizer, "is_control", None)):
        return _read_sentencepiece(tokenizer)
    found = f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}"
    hint = "; its vocabulary can be passed instead" if hasattr(tokenizer, "get_vocab") else ""
    raise TypeError(
        f"tokenizer is a {found}, which cannot be read{hint}; expected a fast tokenizer of transformers, a "
        "tokenizers.Tokenizer, a sentencepiece.SentencePieceProcessor, or the vocabulary as a list of token strings or "
        "a dict of token strings to ids"
    )


def _read_fast(backend: Any, special: frozenset[int]) -> _Read:
    """A ``tokenizers.Tokenizer``: the style follows from its own description."""
    description = json.loads(backend.to_str())
    added = backend.get_added_tokens_decoder()
    tokens = backend.get_vocab(with_added_tokens=True)
    style, model = _style_of_description(description, tokens), description["model"]
    special |= {index for index, token in added.items() if token.special}
    if not style.unknown_opens:
        special -= {tokens.get(model.get("unk_token")), model.get("unk_id")}
    return _Read(tokens, style, special, frozenset(token.content for token in added.values() if token.lstrip))


def _read_sentencepiece(processor: Any) -> _Read:
    size = processor.get_piece_size()
    tokens = {processor.id_to_piece(index): index for index in range(size)}
    style = _space_mark_style(SPACE_MARK, tokens)
    kinds = [processor.is_control, processor.is_unused, *([processor.is_unknown] if style.unknown_opens else [])]
    special = frozenset(index for index in range(size) if any(kind(index) for kind in kinds))
    return _Read(tokens, style, special)


def _style_of_description(description: Mapping[str, Any], tokens: Iterable[str]) -> _Style:
    model = description["model"]
    if model["type"] == "WordLevel":
        return _Style("one token per word", lambda token: True)
    if prefix := model.get("continuing_subword_prefix"):
        return _continuation_style(prefix)
    if suffix := model.get("end_of_word_suffix"):
        return _end_mark_style(suffix)
    parts = [part for name in ("pre_tokenizer", "decoder", "normalizer") for part in _parts(description.get(name))]
    if any(part["type"] == "ByteLevel" for part in parts):
        return BYTE_LEVEL
    for part in parts:
        if part["type"] == "Metaspace":
            return _space_mark_style(part.get("replacement", SPACE_MARK), tokens)
        if part["type"] == "Replace" and SPACE_MARK in (part.get("content"), part.get("pattern", {}).get("String")):
            return _space_mark_style(SPACE_MARK, tokens)
    found = ", ".join([f"model {model['type']}", *(part["type"] for part in parts)])
    raise ValueError(
        f"tokenizer has an unrecognised word-boundary marker: found {found}; expected Metaspace, ByteLevel, WordPiece, "
        "or a BPE model with continuing_subword_prefix or end_of_word_suffix"
    )


def _parts(component: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """A component of the description, or those it is a sequence of."""
    if component is None or component["type"] != "Sequence":
        return [] if component is None else [component]
    names = ("pretokenizers", "decoders", "normalizers")
    return [part for name in names for inner in component.get(name, ()) for part in _parts(inner)]


def _style_of_strings(tokens: Iterable[str]) -> _Style:
    """The style whose mark the tokens carry; another mark on fewer than a tenth as many is part of their text."""
    tokens = list(tokens)
    found = {
        "@@": sum(token.endswith("@@") and token.strip("@") != "" for token in tokens),
        "</w>": sum(token.endswith("</w>") for token in tokens),
        "##": sum(token.startswith("##") and token.strip("#") != "" for token in tokens),
        SPACE_MARK: sum(SPACE_MARK in token for token in tokens),
        "Ġ": sum(token.startswith("Ġ") for token in tokens),
    }
    marks = [mark for mark, count in found.items() if 10 * count > max(found.values())]
    if len(marks) != 1:
        what = f"several marks of words, {', '.join(marks)}" if marks else "no mark of words"
        raise ValueError(f"tokenizer is a vocabulary with {what}; expected one of {', '.join(found)} among its tokens")
    styles = {
        "@@": _Style("a word goes on after @@", lambda token: not token.endswith("@@"), marks_ends=True),
        "</w>": _end_mark_style("</w>"),
        "##": _continuation_style("##"),
        SPACE_MARK: _space_mark_style(SPACE_MARK, tokens),
        "Ġ": BYTE_LEVEL,
    }
    return styles[marks[0]]


def _continuation_style(prefix: str) -> _Style:
    return _Style(f"{prefix} continues a word", lambda token: not token.startswith(prefix))


def _end_mark_style(suffix: str) -> _Style:
    return _Style(f"{suffix} ends a word", lambda token: token.endswith(suffix), marks_ends=True)


def _space_mark_style(mark: str, tokens: Iterable[str]) -> _Style:
    """The space is part of the token after it, or, if that is what most marked tokens show, of the one before."""
    if sum(token.endswith(mark) - token.startswith(mark) for token in tokens) > 0:
        return _end_mark_style(mark)
    openings = (mark, *_SPACES)
    return _Style(
        f"{mark} opens a word",
        lambda token: token.startswith(openings) or token in BYTE_FALLBACK_SPACES,
        unknown_opens=False,
    )


def _checked_vocabulary(vocabulary: Mapping[Any, Any] | Sequence[Any]) -> Mapping[str, int]:
    if not isinstance(vocabulary, Mapping):
        if repeated := len(vocabulary) - len(set(map(repr, vocabulary))):
            raise ValueError(f"tokenizer is a list with {repeated} tokens that occur before; expected distinct tokens")
        for index, token in enumerate(vocabulary):
            if not isinstance(token, str):
                raise TypeError(f"tokenizer holds {token!r}: {index}; expected token strings")
        vocabulary = {token: index for index, token in enumerate(vocabulary)}
    if not vocabulary:
        raise ValueError("tokenizer is an empty vocabulary; expected token strings")
    for token, index in vocabulary.items():
        if not isinstance(token, str) or not isinstance(index, int) or index < 0:
            raise TypeError(f"tokenizer holds {token!r}: {index!r}; expected token strings and ids of at least 0")
    return vocabulary
