"""The explanation as text for a terminal: tables, and G as shaded characters."""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from bleugrad.explanation.result import Explanation, Matches

LIMITS = (0.05, 0.25, 0.5, 0.75)
SHADES = "·░▒▓█"
LISTED = 8  # n-grams of an order
WIDEST = 32  # columns of an n-gram
HEADER = 8  # rows of a column title, written downwards
LABEL = 14  # columns of a token label
ABOVE_MARK = "▲"


def render_text(seen: Explanation, width: int) -> str:
    """Tables of at most ``width`` columns, but at least 56. Control characters are escaped."""
    width = max(width, 56)
    parts = (_summary(seen), _heat_map(seen, width), _matches(seen, width), _gradient(seen))
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts)


def printable(text: str) -> str:
    """A token with control characters escaped."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def fitted(text: str, width: int) -> str:
    """A token truncated or padded to ``width`` terminal columns; some characters take two columns, some none."""
    text = printable(text)
    if columns_of(text) > width:
        while columns_of(text) > width - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (width - columns_of(text))


def columns_of(text: str) -> int:
    """Number of terminal columns of a text."""
    bases = [character for character in text if not unicodedata.combining(character)]
    return len(bases) + sum(unicodedata.east_asian_width(character) in "WF" for character in bases)


def _summary(seen: Explanation) -> Iterator[str]:
    yield f"E[{seen.score}] in {'words' if seen.in_words else 'tokens'}, times 100"
    for label, value in seen.summary().items():
        yield f"  {label:<17}{value}"


def _rows(seen: Explanation) -> list[str]:
    """The number and the likeliest token of each position."""
    digits = len(str(len(seen.argmax)))
    label = min(LABEL, max(columns_of(printable(token)) for token in seen.argmax))
    return [f"  {position:>{digits}} {fitted(token, label)}" for position, token in enumerate(seen.argmax, start=1)]


def _heat_map(seen: Explanation, width: int) -> Iterator[str]:
    titles, values = [token for reference in seen.references for token in reference], seen.match_probs.tolist()
    if seen.eos_probs is not None:
        titles.append("(end)")
        values = [[*row, end] for row, end in zip(values, seen.eos_probs.tolist(), strict=True)]
    yield "match probabilities G, positions x reference tokens"
    limits = (f"{shade} < {100 * limit:.0f} %" for shade, limit in zip(SHADES, LIMITS, strict=False))
    yield f"  {', '.join(limits)}, {SHADES[-1]} above"
    rows = _rows(seen)
    margin = columns_of(rows[0]) + 1
    across = max(1, (width - margin) // 2)
    for first in range(0, len(titles), across):
        chunk = slice(first, first + across)
        yield from (" " * margin + line for line in _written_down(titles[chunk]))
        for row, found in zip(rows, values, strict=True):
            yield f"{row} {''.join(2 * SHADES[bisect_right(LIMITS, value)] for value in found[chunk])}"


def _written_down(titles: Sequence[str]) -> Iterator[str]:
    """Titles of two-character columns, written downwards and aligned at the bottom."""
    plain = [printable(title) for title in titles]
    cut = [title if len(title) <= HEADER else title[: HEADER - 1] + "." for title in plain]
    height = max(map(len, cut))
    for line in range(height):
        letters = (title.rjust(height)[line] for title in cut)
        yield "".join(letter + " " * (2 - min(2, columns_of(letter))) for letter in letters)


def _matches(seen: Explanation, width: int) -> Iterator[str]:
    """A line for each order, and below it one for each of its n-grams with the largest contributions."""
    label = min(width - 39, WIDEST)
    yield f"expected matches; {ABOVE_MARK} marks a bound above the exact value"
    yield f"{' ' * label}{'exact':>9}{'bound':>10}{'total':>9}{'precision':>11}"
    for order in seen.orders:
        yield f"{_line(f'  {order.number}-grams', label, [order])}{order.total:>9.4f}{order.precision:>11.4f}"
        ranked = sorted(order.ngrams, key=lambda ngram: -ngram.exact)
        for ngram in (ngram for ngram in order.ngrams if ngram in ranked[:LISTED]):
            times = f" x{ngram.clip}" if ngram.clip > 1 else ""
            yield _line(f"    {' '.join(ngram.text)}{times}", label, [ngram])
        if len(ranked) > LISTED:
            yield _line(f"    {len(ranked) - LISTED} more", label, ranked[LISTED:])


def _line(title: str, label: int, parts: Sequence[Matches]) -> str:
    """The sums of exact matches and of bounds."""
    exact, bound = (sum(getattr(part, name) for part in parts) for name in ("exact", "bound"))
    mark = ABOVE_MARK if any(part.above for part in parts) else ""
    return f"{fitted(title, label)}{exact:>9.4f}{f'{mark}{bound:.4f}':>10}"


def _gradient(seen: Explanation) -> Iterator[str]:
    tokens, rows = [token for reference in seen.references for token in reference], _rows(seen)
    yield "gradient on the logits: descent raises a negative one"
    yield f"{' ' * columns_of(rows[0])}{'norm':>9}  {fitted('raised most', LABEL)}{'gradient':>10}"
    for row, norm, found in zip(rows, seen.gradient_norm.tolist(), seen.gradient.tolist(), strict=True):
        value, raised = min(zip(found, tokens, strict=True))
        yield f"{row}{norm:>9.2e}  " + (f"{fitted(raised, LABEL)}{value:>10.2e}" if value < 0 else "none")
