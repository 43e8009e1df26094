"""Parts that the hand-drawn pictures share: text, the SVG element, and one file each for light and dark pages."""

from html import escape
from pathlib import Path

STATIC = Path(__file__).parent / "_static"
INKS = {"": "#1f2328", "-dark": "#e6edf3"}
"""Colour of text and lines by the suffix of the file name."""
BLUE, ORANGE = "#2f7fd6", "#d9822b"


def text(x: float, y: float, words: str, more: str = "") -> str:
    """A line of text, with further attributes in ``more``."""
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(words)}</text>'


def picture(kind: str, size: tuple[float, float], title: str, described: str, parts: list[str], font: int = 15) -> str:
    """An SVG document in the ink of light pages; ``kind`` is its CSS class."""
    width, height = size
    head = f'<svg class="{kind}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
    style = f'color="{INKS[""]}" fill="currentColor" font-family="system-ui, sans-serif" font-size="{font}" role="img"'
    title = f"<title>{escape(title)}</title><desc>{escape(described)}</desc>"
    return "\n".join([f"{head} {style}>", title, *parts, "</svg>\n"])


def save(name: str, drawing: str) -> None:
    """Write docs/_static/NAME.svg and NAME-dark.svg."""
    for suffix, ink in INKS.items():
        (STATIC / f"{name}{suffix}.svg").write_text(drawing.replace(INKS[""], ink, 1), encoding="utf-8")
