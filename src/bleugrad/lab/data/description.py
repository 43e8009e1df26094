"""Description of a corpus: sizes, lengths, vocabularies, dropped pairs and examples."""

from collections.abc import Sequence

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Corpus, Split
from bleugrad.lab.data.encoding import build_vocabularies
from bleugrad.lab.data.vocabulary import Vocabulary
from bleugrad.lab.special_ids import UNK

HEADINGS = ("split", "pairs", "references", "tokens", "tokens per sentence", "longest", "unknown")


def describe(corpus: Corpus, config: DataConfig, samples: int = 3) -> str:
    """The corpus with the vocabularies of these settings, as lines of text."""
    languages = config.source_language, config.target_language
    vocabularies = build_vocabularies(corpus, config)
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test, **corpus.others}
    rows = [_row(name, split, vocabularies) for name, split in splits.items() if len(split)]
    sizes = ", ".join(f"{language} {len(own):,}" for language, own in zip(languages, vocabularies, strict=True))
    parts = [
        f"{corpus.name}, {corpus.origin}",
        f"(pairs of numbers: {languages[0]} / {languages[1]}; tokens: {config.units}; unknown: share of <unk>)",
        "",
        table([HEADINGS, *rows]),
        "",
        f"filters: {_dropped(corpus)}",
        f"vocabulary: {sizes} tokens",
    ]
    for source, references in zip(corpus.train.sources[:samples], corpus.train.references[:samples], strict=True):
        parts += ["", f"{languages[0]}: {source}", *(f"{languages[1]}: {text}" for text in references)]
    return "\n".join(parts)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned rows: the first column on the left, numbers on the right.

    Example:
        >>> print(table([("split", "pairs"), ("train", "20,000")]))
        split   pairs
        train  20,000
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def _row(name: str, split: Split, vocabularies: tuple[Vocabulary, Vocabulary]) -> tuple[str, ...]:
    sides = [own.encode_lines(lines) for own, lines in zip(vocabularies, (split.sources, split.targets), strict=True)]
    tokens = [sum(map(len, side)) for side in sides]
    unknown = [sum(ids.count(UNK) for ids in side) for side in sides]
    references = sum(map(len, split.references))
    return (
        name,
        f"{len(split):,}",
        f"{references:,}",
        " / ".join(f"{count:,}" for count in tokens),
        " / ".join(f"{count / len(split):.1f}" for count in tokens),
        " / ".join(f"{max(map(len, side)):,}" for side in sides),
        " / ".join(f"{count / max(total, 1):.1%}" for count, total in zip(unknown, tokens, strict=True)),
    )


def _dropped(corpus: Corpus) -> str:
    total = sum(corpus.dropped.values())
    if not total:
        return "no training pair dropped"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in corpus.dropped.items() if count)
    return f"{total:,} training pairs dropped ({reasons})"
