"""Tokenisation as the Moses scripts do it, by the ``sacremoses`` library."""

from collections.abc import Iterable

from bleugrad.extras import require_extra


def require_tokeniser() -> None:
    """Raise unless the library is installed."""
    require_extra("text", "sacremoses", "tokenising a corpus")


def tokenise(lines: Iterable[str], language: str, *, escape: bool) -> list[str]:
    """Each line with spaces between its tokens, lowercased.

    Args:
        lines: plain text.
        language: whose abbreviations and apostrophes are known.
        escape: write ``&apos;`` and the like for characters that mean something to Moses, as the paper's data do.
    """
    require_tokeniser()
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    tokenizer = MosesTokenizer(lang=language)
    return [str(tokenizer.tokenize(line, return_str=True, escape=escape)).lower() for line in lines]
