"""Moses tokenisation, by the ``sacremoses`` library."""

from collections.abc import Iterable

from bleugrad.lab.extras import require_extra


def require_tokeniser() -> None:
    """Raise unless the library is installed."""
    require_extra("text", "sacremoses", "tokenising a corpus")


def tokenise(lines: Iterable[str], language: str, *, escape: bool) -> list[str]:
    """Tokenise and lowercase each line; spaces separate the tokens.

    ``escape`` escapes characters that are special in Moses (``&apos;``), as in the paper's data.
    """
    require_tokeniser()
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    tokenizer = MosesTokenizer(lang=language)
    return [str(tokenizer.tokenize(line, return_str=True, escape=escape)).lower() for line in lines]
