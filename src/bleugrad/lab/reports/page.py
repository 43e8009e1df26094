"""A self-contained page: figures and style are embedded, there are no scripts, and every text is escaped."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from bleugrad.lab.runs.directory import CONFIG, SavedRun
from bleugrad.lab.settings.loading import flat

STYLE = files("bleugrad.lab.reports").joinpath("page.css").read_text(encoding="utf-8")


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
    """Preformatted text, such as a command."""
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
    """The text of a table cell."""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _cell(value: str | float) -> str:
    kind = ' class="quiet"' if isinstance(value, Quiet) else "" if isinstance(value, str) else ' class="number"'
    text = escape(shown(value))
    return f"<td{kind}>{f'<strong>{text}</strong>' if isinstance(value, Strong) else text}</td>"


def command_part(run: SavedRun) -> Iterator[str]:
    """The command that repeats the run."""
    yield paragraph("The command that repeats this run:")
    yield preformatted(run.about["command"])


def settings_tables(run: SavedRun) -> Iterator[str]:
    """All settings and all versions."""
    settings = [
        (name, " ".join(map(str, value)) if isinstance(value, list) else str(value)) for name, value in flat(run.config)
    ]
    yield table(["setting", "value"], settings, f"All settings, as in {CONFIG}.")
    yield table(["", "version"], run.about["versions"].items(), "Versions.")
