"""How figures look: colours that survive colour blindness (Okabe and Ito), one set for light pages, one for dark."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bleugrad.runs.files import write_bytes

WIDTH = 5.0  # inches: type of 10 points stays readable where a phone shows the figure 360 pixels wide


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


LIGHT = Palette(
    paper="#ffffff",
    ink="#1a1a1a",
    grid="#dddddd",
    blue="#0072b2",
    azure="#45b6fe",
    vermillion="#d55e00",
    purple="#b0508a",
    orange="#e69f00",
    green="#009e73",
    brown="#7d4a25",
)
DARK = Palette(
    paper="#16191d",
    ink="#e6e6e6",
    grid="#3a3f46",
    blue="#56b4e9",
    azure="#2f6fdd",
    vermillion="#f07a28",
    purple="#d070a8",
    orange="#f0b429",
    green="#009e73",
    brown="#b08968",
)

Draw = Callable[[Figure, Palette], None]


def save_figure(folder: Path, name: str, height: float, draw: Draw) -> None:
    """Draw into NAME.svg and NAME.png, and NAME-dark.svg for dark pages.

    Args:
        folder: where the files go.
        name: without suffix.
        height: inches.
        draw: fills a figure with the palette's colours.
    """
    for palette, suffix, kinds in ((LIGHT, "", ("svg", "png")), (DARK, "-dark", ("svg",))):
        with matplotlib.rc_context(_settings(palette)):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            draw(figure, palette)
            for kind in kinds:
                buffer = io.BytesIO()
                metadata = {"Date": None} if kind == "svg" else {}
                figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
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
