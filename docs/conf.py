"""Configuration of the documentation."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import bleugrad

project = "bleugrad"
author = "bleugrad contributors"
copyright = "2026, bleugrad contributors"
version = release = bleugrad.__version__

extensions = [
    "diagram",
    "generated",
    "mathml",
    "named_tests",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"bleugrad {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["mathml.css", "pages.css"]
html_show_sourcelink = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

# Names of other projects are not linked, because that would need the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|numpy|collections|typing|transformers|trl|datasets|os|pathlib)\..*"),
    (r"py:.*", r"Tensor|ProcessGroup|optional|bleugrad\.expectation\.S"),
    (r"py:class", r"bleugrad\.lab\.(models|training)\..*"),  # internal parts of a trained system
]
