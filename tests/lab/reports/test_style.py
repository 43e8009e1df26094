"""The look of figures: colours that survive colour blindness, files that repeat."""

from itertools import combinations

import numpy as np
import pytest

from bleugrad.lab.reports.style import DARK, LIGHT, save_figure


def draw(figure, palette):
    figure.subplots().plot([0, 1], [0, 1], color=palette.blue)


def test_files_are_png_and_svg_light_and_dark_and_the_same_each_time(tmp_path):
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        save_figure(folder, "drawing", 4.0, draw)
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"drawing.svg", "drawing.png", "drawing-dark.svg"}
    assert contents[0]["drawing.png"].startswith(b"\x89PNG")
    assert LIGHT.paper.encode() in contents[0]["drawing.svg"]
    assert DARK.paper.encode() in contents[0]["drawing-dark.svg"]


# What an eye without one kind of cone sees, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
MISSING_CONES = {
    "none": np.eye(3),
    "red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Colours that meet in one figure.
TOGETHER = [
    ("vermillion", "blue", "purple", "ink", "paper"),
    ("orange", "ink", "purple", "blue", "paper"),
    ("blue", "green", "vermillion", "paper"),
    ("azure", "blue", "vermillion", "ink", "paper"),
    ("brown", "azure", "blue", "ink", "paper"),
]


def linear(colour):
    encoded = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb / [0.9505, 1.0, 1.089], 1e-6, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("missing", MISSING_CONES)
def test_colours_that_meet_differ_for_every_eye(palette, missing):
    for names in TOGETHER:
        seen = {name: lab(np.clip(MISSING_CONES[missing] @ linear(getattr(palette, name)), 0, 1)) for name in names}
        for one, other in combinations(names, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)
