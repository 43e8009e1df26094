"""The explanation as a self-contained interactive page: numbers as JSON, drawn by ``page.js``.

Texts are JSON in which no character can end the script element, and the script sets text, never markup. The content
security policy allows the script and the style by their hashes and nothing else.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from torch import Tensor

from bleugrad.explanation.result import MOST_PAGE_CELLS, Explanation, Order, SampledBLEU, TokenGradient, check_cells

SHARED = ("references", "units", "weights", "smoothing", "method", "in_words")
"""Fields that are equal in all explanations of a page."""


def explanation_page(
    explanations: Sequence[Explanation], names: Sequence[str] | None = None, *, title: str = "What the loss sees"
) -> str:
    """A page of one explanation, or of several checkpoints with a slider.

    Args:
        explanations: explanations of the same reference with the same options, in training order.
        names: names of the checkpoints; default: their numbers.
        title: plain text.

    Positions x reference tokens x orders x checkpoints may be at most 524,288, for instance 360 x 360 x 4 x 1.
    """
    if not explanations:
        raise ValueError("explanations is empty; expected at least one")
    labels = [str(number) for number in range(1, len(explanations) + 1)] if names is None else list(names)
    if len(labels) != len(explanations):
        raise ValueError(f"names has {len(labels)} entries; expected {len(explanations)}, one per explanation")
    _check_same(explanations)
    first = explanations[0]
    tokens, positions = sum(map(len, first.references)), max(len(seen.positions) for seen in explanations)
    check_cells("the page", positions, tokens, len(first.orders), MOST_PAGE_CELLS, len(explanations))
    style, script = _asset("page.css"), _asset("page.js")
    fallback = explanations[-1].text(100, ngrams=10**6)
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f'<div id="page"></div>\n<noscript><p>The last checkpoint as text. The interactive page needs JavaScript.</p>\n'
        f"<pre>{escape(fallback)}</pre></noscript>\n</main>\n"
        f'<div id="tip" role="tooltip" hidden></div>\n'
        f'<script type="application/json" id="data">{safe_json(_record(explanations, labels))}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def safe_json(value: Any) -> str:
    r"""JSON that is safe inside a script element.

    Example:
        >>> safe_json(["</script>"])
        '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _check_same(explanations: Sequence[Explanation]) -> None:
    for index, other in enumerate(explanations):
        for name in SHARED:
            found, wanted = getattr(other, name), getattr(explanations[0], name)
            if found != wanted:
                raise ValueError(f"explanations[{index}] has {name} {found!r}; expected {wanted!r}, as in the first")


def _record(explanations: Sequence[Explanation], names: Sequence[str]) -> dict[str, Any]:
    """What all checkpoints share, the n-grams, and the other fields of each checkpoint."""
    first, checkpoints = explanations[0], zip(names, explanations, strict=True)
    ngrams = [
        [{"text": " ".join(ngram.text), "columns": ngram.columns, "clip": ngram.clip} for ngram in order.ngrams]
        for order in first.orders
    ]
    shared = {name: getattr(first, name) for name in SHARED} | {"ngrams": ngrams}
    return shared | {"checkpoints": [{"name": name, **_checkpoint_record(seen)} for name, seen in checkpoints]}


def _checkpoint_record(seen: Explanation) -> dict[str, Any]:
    own = {name: value for name, value in vars(seen).items() if name not in (*SHARED, "orders")}
    return {**_plain(own), "orders": [_order_record(order) for order in seen.orders]}


def _order_record(order: Order) -> dict[str, Any]:
    ngrams = order.ngrams
    numbers = {name: getattr(order, name) for name in ("exact", "bound", "total", "precision", "windows")}
    each = {
        "exacts": [ngram.exact for ngram in ngrams],
        "bounds": [ngram.bound for ngram in ngrams],
        "above": [ngram.above for ngram in ngrams],
        "peaks": [max(range(len(ngram.completed)), key=ngram.completed.__getitem__) for ngram in ngrams],
        "peakValues": [max(ngram.completed) for ngram in ngrams],
    }
    return {**_plain(numbers | each)}


def _plain(value: Any) -> Any:
    """Values for JSON: numbers with 9 significant digits, NaN as null, tensors as lists and objects by their fields."""
    if isinstance(value, TokenGradient | SampledBLEU):
        value = vars(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Tensor | list | tuple):
        return [_plain(one) for one in (value.tolist() if isinstance(value, Tensor) else value)]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.9g}")
    return value


def _asset(name: str) -> str:
    return files("bleugrad.explanation").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
