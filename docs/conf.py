"""Configuration of the documentation."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "bleugrad"
author = "bleugrad contributors"
copyright = "2026, bleugrad contributors"
version = release = installed_version("bleugrad")

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"bleugrad {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["mathml.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

# The names of other projects: linking to them would need the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|numpy|collections|typing)\..*"),
    (r"py:.*", r"Tensor|ProcessGroup|optional"),
]
