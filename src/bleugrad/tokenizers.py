"""Which tokens open a word, read from a tokenizer. No tokenizer library is imported here.

Tokenizers mark words in one of two places. SentencePiece and Metaspace (``▁the``), byte-level BPE (``Ġthe``) and
WordPiece (``##er`` continues) mark where a word *begins*: the token shows whether it opens a word. ``low@@ er``,
``low er</w>`` and SentencePiece with the space as suffix (``the▁``) mark where a word *ends*: ``er`` may be a word or
the end of one. If the sentence is reversed, the token that ended a word opens it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bleugrad.arguments import check_int

SPACES = ("▁", *(chr(code) for code in range(0x3001) if chr(code).isspace()))
"""The mark, and all characters at which ``str.split``, and so sacreBLEU, splits: also the no-break space and U+3000."""

BYTES = frozenset(f"<0x{byte:02X}>" for byte in b" \n\t\r\v\f")
"""Spaces as byte fallback writes them."""


def _byte_symbols() -> dict[int, str]:
    """The character that byte-level BPE writes for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


BYTE_SPACES = tuple("".join(map(_byte_symbols().__getitem__, space.encode())) for space in SPACES[1:])
"""Spaces as byte-level BPE writes them: ``Ġ``, ``Ċ``, ``ĉ``, ..., ``Âł``, ``ãĢĢ``."""


def word_start_mask(
    tokenizer: object,
    *,
    special: bool | Mapping[str, bool] = True,
    flipped: bool = False,
    size: int | None = None,
) -> Tensor:
    """The tokens that open a word, (V,) bool, for ``word_start=``.

    The tokenizer's marks define the words. With space marks (``▁``, ``Ġ``) words are separated by spaces, at which
    sacreBLEU splits too. With WordPiece, words are those of its pre-tokenizer. Words are equal if their tokens are, so
    write the first word of a sentence like the others (``add_prefix_space=True`` for byte-level BPE).

    Args:
        tokenizer: a fast tokenizer of transformers, a ``tokenizers.Tokenizer``, a ``SentencePieceProcessor``, or the
            vocabulary: a list of token strings, or a dict of them to ids.
        special: whether special tokens (padding, begin, end) open a word, so that they never become part of the word
            before them. A dict of token strings to bools sets single tokens; other special tokens open a word. A plain
            vocabulary does not say which tokens are special, so they are read by their marks unless named here.
        flipped: for vocabularies that mark where a word *ends* (``low@@ er``, ``er</w>``, ``er▁``), the mask of the
            tokens that end a word, for ``loss(logits.flip(1), labels.flip(1))``: BLEU does not change if hypotheses
            and references are flipped in time. Exact, for fixed lengths: leave ``eos_id`` out.
        size: V of the model if it is larger than that of the tokenizer; ids without a token count as special tokens.

    The unknown token of a tokenizer with ``▁`` continues a word: the ``▁`` before it is a token of its own. Elsewhere
    it opens one.

    Example:
        >>> vocabulary = ["<s>", "▁the", "▁low", "er", "est"]
        >>> word_start_mask(vocabulary, special={"<s>": True}).tolist()
        [True, True, True, False, False]
        >>> word_start_mask(["the", "low@@", "er"], flipped=True).tolist()  # the and er end a word
        [True, False, True]
    """
    tokens, style, special_ids, taking_space = _read(tokenizer)
    if not isinstance(special, bool | Mapping):
        raise TypeError(f"special is a {type(special).__name__}; expected True, False or a dict of tokens to bools")
    if not isinstance(flipped, bool):
        raise TypeError(f"flipped is a {type(flipped).__name__}; expected True or False")
    if flipped and not style.marks_ends:
        found = f"flipped is True, but the tokenizer marks where words begin ({style.name})"
        raise ValueError(f"{found}; expected flipped=False")
    if style.marks_ends and not flipped:
        raise ValueError(
            f"tokenizer marks where words end ({style.name}), so that a token does not show whether it opens one; "
            "expected flipped=True, and hypotheses and references flipped in time: loss(logits.flip(1), labels.flip(1))"
        )
    least = max(tokens.values()) + 1
    if size is not None and not least <= check_int("size", size) < 2**31:
        raise ValueError(f"size is {size}; expected at least {least}, the tokenizer's vocabulary, and below 2**31")
    mask = torch.full((size or least,), special is not False)
    for token, index in tokens.items():
        mask[index] = style.opens(token) or token in taking_space
    mask[sorted(special_ids)] = special is not False
    for token, opens in special.items() if isinstance(special, Mapping) else ():
        if token not in tokens:
            raise ValueError(f"special names {token!r}, which is not a token of the tokenizer")
        mask[tokens[token]] = bool(opens)
    return mask


class _Style(NamedTuple):
    """How a vocabulary marks words: ``opens`` a word, read from the side that ``marks_ends`` tells.

    ``unknown_opens``: whether the unknown token stands for a word, or for characters after a separate space mark.
    """

    name: str
    opens: Callable[[str], bool]
    marks_ends: bool = False
    unknown_opens: bool = True


class _Read(NamedTuple):
    """A tokenizer's tokens with their ids, its style, the ids of special tokens, and tokens that take in the space."""

    tokens: Mapping[str, int]
    style: _Style
    special: frozenset[int] = frozenset()
    taking_space: frozenset[str] = frozenset()


def _read(tokenizer: object) -> _Read:
    if isinstance(tokenizer, Mapping | Sequence) and not isinstance(tokenizer, str | bytes):
        tokens = _checked_vocabulary(tokenizer)
        return _Read(tokens, _style(tokens))
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
    """A ``tokenizers.Tokenizer``."""
    tokens, added = backend.get_vocab(with_added_tokens=True), backend.get_added_tokens_decoder()
    model = json.loads(backend.to_str())["model"]
    whole = _Style("one token per word", lambda token: True)
    style = whole if model["type"] == "WordLevel" else _style(tokens)
    special |= {index for index, token in added.items() if token.special}
    if not style.unknown_opens:
        special -= {tokens.get(model.get("unk_token")), model.get("unk_id")}
    return _Read(tokens, style, special, frozenset(token.content for token in added.values() if token.lstrip))


def _read_sentencepiece(processor: Any) -> _Read:
    size = processor.get_piece_size()
    tokens = {processor.id_to_piece(index): index for index in range(size)}
    style = _style(tokens)
    kinds = [processor.is_control, processor.is_unused, *([processor.is_unknown] if style.unknown_opens else [])]
    return _Read(tokens, style, frozenset(index for index in range(size) if any(kind(index) for kind in kinds)))


def _style(tokens: Iterable[str]) -> _Style:
    """The style whose mark the tokens carry; another mark on fewer than a tenth as many is part of their text."""
    tokens = list(tokens)
    found = {
        "@@": sum(token.endswith("@@") and token.strip("@") != "" for token in tokens),
        "</w>": sum(token.endswith("</w>") for token in tokens),
        "##": sum(token.startswith("##") and token.strip("#") != "" for token in tokens),
        "▁": sum("▁" in token for token in tokens),
        "Ġ": sum(token.startswith("Ġ") for token in tokens),
    }
    marks = [mark for mark, count in found.items() if 10 * count > max(found.values())]
    if len(marks) != 1:
        what = f"several marks of words, {', '.join(marks)}" if marks else "no mark of words"
        raise ValueError(f"tokenizer is a vocabulary with {what}; expected one of {', '.join(found)} among its tokens")
    if marks == ["▁"] and sum(token.endswith("▁") - token.startswith("▁") for token in tokens) > 0:
        return _Style("▁ ends a word", lambda token: token.endswith("▁"), marks_ends=True)
    return {
        "@@": _Style("a word goes on after @@", lambda token: not token.endswith("@@"), marks_ends=True),
        "</w>": _Style("</w> ends a word", lambda token: token.endswith("</w>"), marks_ends=True),
        "##": _Style("## continues a word", lambda token: not token.startswith("##")),
        "▁": _Style("▁ opens a word", lambda token: token.startswith(SPACES) or token in BYTES, unknown_opens=False),
        "Ġ": _Style("Ġ opens a word", lambda token: token.startswith(BYTE_SPACES)),
    }[marks[0]]


def _checked_vocabulary(vocabulary: Mapping[Any, Any] | Sequence[Any]) -> dict[str, int]:
    listed = vocabulary if isinstance(vocabulary, Mapping) else None
    pairs = [(token, index) for index, token in enumerate(vocabulary)] if listed is None else list(listed.items())
    if not pairs:
        raise ValueError("tokenizer is an empty vocabulary; expected token strings")
    for token, index in pairs:
        if not isinstance(token, str) or not isinstance(index, int) or index < 0:
            raise TypeError(f"tokenizer holds {token!r}: {index!r}; expected token strings and ids of at least 0")
    tokens = dict(pairs)
    if repeated := len(pairs) - len(tokens):
        raise ValueError(f"tokenizer is a list with {repeated} tokens that occur before; expected distinct tokens")
    return tokens
