"""The explanation as text for a terminal: tables, and G as shaded characters."""

import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from bleugrad.explanation.result import Explanation, NGram, Order

LIMITS = (0.05, 0.25, 0.5, 0.75)
SHADES = "·░▒▓█"
HEADER = 8  # rows of a column title, written downwards
LABEL = 14  # columns of a token label
ABOVE_MARK = "above"


def render_text(seen: Explanation, width: int, *, ngrams: int = 8) -> str:
    """Tables of at most ``width`` columns, but at least 56. Control characters are escaped."""
    width = max(width, 56)
    listed = [_largest(order, ngrams) for order in seen.orders]
    label = max([8, *(columns_of(_ngram_label(ngram)) for kept, _ in listed for ngram in kept)])
    label = min(label, width - 2 - 9 - 9 - 2 - len(f"00 {ABOVE_MARK}"))
    parts = [
        _summary(seen, width),
        _heat_map(seen, width),
        _orders(seen),
        *(_ngrams(order, *parts, label) for order, parts in zip(seen.orders, listed, strict=True) if order.ngrams),
        _gradient(seen, width),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts)


def printable(text: str) -> str:
    r"""A token with control characters escaped.

    Example:
        >>> printable("a\x1b[2J")
        'a\\x1b[2J'
    """
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def fitted(text: str, width: int) -> str:
    """A token truncated or padded to ``width`` terminal columns; some characters take two columns, some none.

    Example:
        >>> fitted("Straßenbahn", 6), fitted("猫", 4)
        ('Stra..', '猫  ')
    """
    text = printable(text)
    if columns_of(text) > width:
        while columns_of(text) > width - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (width - columns_of(text))


def _wrapped(text: str, width: int) -> Iterable[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, width, subsequent_indent=indent + "  ")


def columns_of(text: str) -> int:
    """Number of terminal columns of a text."""
    bases = [character for character in text if not unicodedata.combining(character)]
    return len(bases) + sum(unicodedata.east_asian_width(character) in "WF" for character in bases)


def _summary(seen: Explanation, width: int) -> Iterable[str]:
    units = "words" if seen.in_words else "tokens"
    if seen.score is None:
        yield f"E[BLEU-{len(seen.orders)}] of {units}, smoothing {seen.smoothing:g}"
        lower = "at most" if seen.lower is None else f"{100 * seen.lower:.2f} to"
        yield f"  certified        {lower} {100 * seen.upper:.2f}"
    else:
        yield f"100 x {seen.score} of {units}"
    if seen.sampled is not None:
        mean, error = 100 * seen.sampled.mean, 100 * seen.sampled.standard_error
        yield from _wrapped(
            f"  sampled          {mean:.2f}, standard error {error:.2f} of {seen.sampled.samples} samples", width
        )
    yield f"  exact matches    {100 * seen.value:.2f}"
    yield f"  paper's bound    {100 * seen.bound_value:.2f}"
    yield f"  argmax           {100 * seen.argmax_bleu:.2f}"
    yield from _wrapped(
        f"length {seen.expected_length:.2f} expected, {seen.reference_length:.2f} in the reference; "
        f"brevity penalty {seen.brevity_penalty:.4f}",
        width,
    )


def _heat_map(seen: Explanation, width: int) -> Iterable[str]:
    titles = [token for reference in seen.references for token in reference]
    values = seen.match_probs.tolist()
    if seen.eos_probs is not None:
        titles.append("(end)")
        values = [[*row, end] for row, end in zip(values, seen.eos_probs.tolist(), strict=True)]
    limits = [f"{100 * limit:.0f} %" for limit in LIMITS]
    legend = [f"{shade} below {limit}" for shade, limit in zip(SHADES, limits, strict=False)]
    yield from _wrapped("match probabilities G: reference tokens to the right, positions down", width)
    yield from _wrapped(", ".join([*legend, f"{SHADES[-1]} above"]), width)
    number = len(str(len(values)))
    label = min(LABEL, max(columns_of(printable(token)) for token in seen.positions))
    margin = number + label + 4
    across = max(1, (width - margin) // 2)
    for first in range(0, len(titles), across):
        chunk = slice(first, first + across)
        yield from (" " * margin + line for line in _written_down(titles[chunk]))
        for position, (token, row) in enumerate(zip(seen.positions, values, strict=True), start=1):
            cells = "".join(2 * SHADES[bisect_right(LIMITS, value)] for value in row[chunk])
            yield f"  {position:>{number}} {fitted(token, label)} {cells}"


def _written_down(titles: Sequence[str]) -> Iterable[str]:
    """Titles of two-character columns, written downwards and aligned at the bottom."""
    plain = [printable(title) for title in titles]
    cut = [title if len(title) <= HEADER else title[: HEADER - 1] + "." for title in plain]
    height = max(map(len, cut))
    for line in range(height):
        letters = (title.rjust(height)[line] for title in cut)
        yield "".join(letter + " " * (2 - min(2, columns_of(letter))) for letter in letters)


def _orders(seen: Explanation) -> Iterable[str]:
    yield "expected matches"
    yield f"  {'order':<7}{'exact':>9}{'bound':>9}{'total':>9}{'precision':>11}"
    for order in seen.orders:
        mark = f"  {ABOVE_MARK}" if order.above else ""
        numbers = f"{order.exact:>9.4f}{order.bound:>9.4f}{order.total:>9.4f}{order.precision:>11.4f}"
        yield f"  {order.number:<7}{numbers}{mark}"


def _largest(order: Order, most: int) -> tuple[list[NGram], list[NGram]]:
    """The n-grams with the largest contributions, in the references' order, and the others."""
    ranked = sorted(range(len(order.ngrams)), key=lambda index: -order.ngrams[index].exact)
    shown, left = sorted(ranked[: max(most, 0)]), ranked[max(most, 0) :]
    return [order.ngrams[index] for index in shown], [order.ngrams[index] for index in left]


def _ngrams(order: Order, shown: list[NGram], left: list[NGram], label: int) -> Iterable[str]:
    yield f"  {fitted(f'{order.number}-grams', label)}{'exact':>9}{'bound':>9}"
    for ngram in shown:
        mark = f"  {ABOVE_MARK}" if ngram.above else ""
        yield f"  {fitted(_ngram_label(ngram), label)}{ngram.exact:>9.4f}{ngram.bound:>9.4f}{mark}"
    if left:
        exact, bound = sum(ngram.exact for ngram in left), sum(ngram.bound for ngram in left)
        above = sum(ngram.above for ngram in left)
        mark = f"  {above} {ABOVE_MARK}" if above else ""
        yield f"  {fitted(f'{len(left)} more', label)}{exact:>9.4f}{bound:>9.4f}{mark}"


def _ngram_label(ngram: NGram) -> str:
    return printable(" ".join(ngram.text)) + (f" x{ngram.clip}" if ngram.clip > 1 else "")


def _gradient(seen: Explanation, width: int) -> Iterable[str]:
    tokens = [token for reference in seen.references for token in reference]
    number = len(str(len(seen.positions)))
    label = min(LABEL, max(5, (width - number - 4 - 2 * 12) // 2))
    yield from _wrapped(
        f"gradient of the loss ({seen.method}) on the logits: descent raises a logit where it is negative", width
    )
    yield f"  {'':>{number}} {fitted('position', label)}{'norm':>11}  {fitted('raised most', label)}{'gradient':>11}"
    for position, (token, norm, row) in enumerate(
        zip(seen.positions, seen.gradient.norm.tolist(), seen.gradient.reference.tolist(), strict=True), start=1
    ):
        steepest = min(range(len(row)), key=row.__getitem__)
        raised, value = (tokens[steepest], f"{row[steepest]:.2e}") if row[steepest] < 0 else ("none", "")
        yield f"  {position:>{number}} {fitted(token, label)}{norm:>11.2e}  {fitted(raised, label)}{value:>11}"
