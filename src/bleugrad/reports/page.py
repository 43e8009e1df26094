"""A self-contained page: figures and style are embedded, there are no scripts, and every text is escaped."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --quiet: #5a5f66; --line: #d8dbe0; --card: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16191d; --ink: #e6e6e6; --quiet: #a2a9b3; --line: #3a3f46; --card: #1f2329; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
p { max-width: 46rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; max-width: 40rem; }
figure img { display: block; width: 100%; height: auto; }
figcaption { color: var(--quiet); font-size: .9rem; margin-top: .25rem; }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
.note { color: var(--quiet); font-size: .9rem; margin: 1.5rem 0 .4rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th { font-weight: 600; }
td.number { text-align: right; }
td.quiet { color: var(--quiet); }
.texts { width: 100%; margin-bottom: 1rem; }
.texts td { white-space: normal; }
.texts th { width: 6.5rem; vertical-align: top; white-space: normal; }
summary { cursor: pointer; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .75rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .9rem; }
"""


class Strong(str):
    """A table cell in bold."""


class Quiet(str):
    """A table cell in grey: a number from elsewhere."""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole document. ``parts`` are results of the functions below; the title is plain text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """A section heading, from plain text."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """A paragraph, from plain text."""
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """Preformatted text, such as a command.

    Example:
        >>> preformatted("sort < in")
        '<pre>sort &lt; in</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


def figure(folder: Path, name: str, alternative: str, caption: str) -> str:
    """The light and dark figure of ``save_figure``, embedded; ``alternative`` replaces it for screen readers."""
    files = [(folder / f"{name}{suffix}.svg").read_bytes() for suffix in ("-dark", "")]
    dark, light = ("data:image/svg+xml;base64," + base64.b64encode(file).decode("ascii") for file in files)
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(alternative)}"></picture>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def figures(drawings: Iterable[str]) -> str:
    """Several figures, side by side on wide screens."""
    return f'<div class="figures">{"".join(drawings)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[str | float]], caption: str = "") -> str:
    """A table that scrolls sideways on narrow screens. Numbers are aligned right; texts are plain."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    note = f'<p class="note">{escape(caption)}</p>' if caption else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'{note}<div class="wide" tabindex="0">{grid}</div>'


def texts(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """Long plain texts with names. They wrap instead of scrolling."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td dir="auto">{escape(text)}</td></tr>' for name, text in rows
    )
    return f'<p class="note">{escape(caption)}</p><table class="texts"><tbody>{body}</tbody></table>'


def folded(title: str, parts: Iterable[str]) -> str:
    """Parts that the reader can unfold; the title is plain text."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def shown(value: str | float) -> str:
    """The text of a table cell.

    Example:
        >>> shown("BLEU-1"), shown(3), shown(0.5)
        ('BLEU-1', '3', '0.5000')
    """
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _cell(value: str | float) -> str:
    kind = ' class="quiet"' if isinstance(value, Quiet) else "" if isinstance(value, str) else ' class="number"'
    text = escape(shown(value))
    return f"<td{kind}>{f'<strong>{text}</strong>' if isinstance(value, Strong) else text}</td>"
