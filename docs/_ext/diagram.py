"""``{diagram} file.svg``: an inline drawing, so that it uses the colours of the theme."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STATIC = Path(__file__).parents[1] / "_static"


class Diagram(SphinxDirective):
    """An SVG of docs/_static; its title and description make it accessible."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = STATIC / self.arguments[0]
        self.env.note_dependency(str(path))
        drawing = re.sub(r' color="#\w+"', "", path.read_text(encoding="utf-8"), count=1)  # use the colour of the page
        return [nodes.raw("", f'<figure class="diagram">{drawing}</figure>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("diagram", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
