"""The explanation as a self-contained interactive page: numbers as JSON, drawn by ``page.js``.

Texts are JSON in which no character can end the script element, and the script sets text, never markup. The content
security policy allows the script and the style by their hashes and nothing else.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from html import escape
from importlib.resources import files
from typing import Any

from torch import Tensor

from bleugrad.explanation.result import Explanation, check_cells

MOST_PAGE_CELLS = 2**19
"""Maximum cells of a page over all checkpoints, about 12 MB."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{style_hash}'; \
script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the loss sees</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>What the loss sees</h1>
<div id="page"></div>
<noscript><p>The last checkpoint as text. The interactive page needs JavaScript.</p>
<pre>{text}</pre></noscript>
</main>
<div id="tip" role="tooltip" hidden></div>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def explanation_page(explanations: Sequence[Explanation], names: Sequence[str] | None = None) -> str:
    """A page of one explanation, or of several checkpoints with a slider.

    Args:
        explanations: explanations of the same references with the same options, in training order.
        names: names of the checkpoints; default: their numbers.

    Positions x reference tokens x orders x checkpoints may be at most 524,288, for instance 360 x 360 x 4 x 1.
    """
    if not explanations:
        raise ValueError("explanations is empty; expected at least one")
    labels = [str(number) for number in range(1, len(explanations) + 1)] if names is None else list(names)
    if len(labels) != len(explanations):
        raise ValueError(f"names has {len(labels)} entries; expected {len(explanations)}, one per explanation")
    first = explanations[0]
    for index, other in enumerate(explanations):
        for name in ("references", "units", "score"):
            if (found := getattr(other, name)) != (wanted := getattr(first, name)):
                raise ValueError(f"explanations[{index}] has {name} {found!r}; expected {wanted!r}, as in the first")
    tokens, positions = sum(map(len, first.references)), max(len(seen.argmax) for seen in explanations)
    check_cells("the page", positions, tokens, len(first.orders), MOST_PAGE_CELLS, len(explanations))
    checkpoints = [
        {"name": name, "summary": seen.summary(), **_record(seen)}
        for name, seen in zip(labels, explanations, strict=True)
    ]
    style, script = (
        files("bleugrad.explanation").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    return PAGE.format(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        text=escape(explanations[-1].text(100)),
        data=safe_json(checkpoints),
    )


def safe_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _record(value: Any) -> Any:
    """Dataclasses as dicts, tensors as nested lists of numbers with 9 significant digits, NaN as null."""
    if isinstance(value, Tensor):
        return _rounded(value.tolist())
    if isinstance(value, tuple):
        return [_record(part) for part in value]
    if is_dataclass(value):
        return {field.name: _record(getattr(value, field.name)) for field in fields(value)}
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return None if math.isnan(value) else float(f"{value:.9g}")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
