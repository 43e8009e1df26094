"""The look of figures: colours for colour-blind readers (after Okabe and Ito), for light and for dark pages."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bleugrad.lab.runs.files import write_bytes

WIDTH = 5.0  # inches: 10-point text stays readable when a phone shows the figure 360 pixels wide


@dataclass(frozen=True)
class Palette:
    """Colours by name."""

    paper: str
    ink: str
    grid: str
    blue: str
    azure: str
    vermillion: str
    purple: str
    orange: str
    green: str
    brown: str


LIGHT = Palette(*"#ffffff #1a1a1a #dddddd #0072b2 #45b6fe #d55e00 #b0508a #e69f00 #009e73 #7d4a25".split())
DARK = Palette(*"#16191d #e6e6e6 #3a3f46 #56b4e9 #2f6fdd #f07a28 #d070a8 #f0b429 #009e73 #b08968".split())

Draw = Callable[[Figure, Palette], None]


def save_figure(folder: Path, name: str, height: float, draw: Draw) -> None:
    """Save a figure as NAME.svg and NAME.png, and as NAME-dark.svg for dark pages; the height is in inches."""
    for palette, suffix, kinds in ((LIGHT, "", ("svg", "png")), (DARK, "-dark", ("svg",))):
        with matplotlib.rc_context(_settings(palette)):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            draw(figure, palette)
            for kind in kinds:
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {})
                write_bytes(folder / f"{name}{suffix}.{kind}", buffer.getvalue())


def _settings(palette: Palette) -> dict[Any, Any]:
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    paper = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return {
        **dict.fromkeys(ink, palette.ink),
        **dict.fromkeys(paper, palette.paper),
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": ["DejaVu Sans"],
        "font.size": 10,
        "grid.color": palette.grid,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "legend.markerscale": 1.4,
        "svg.hashsalt": "bleugrad",  # the same drawing gives the same file
    }
