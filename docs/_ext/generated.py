"""Text that pages take from results/ when they are built: single numbers, tables, and summaries that may not exist yet.

``{measured}`name` `` is a number, ``{measured-table} name`` a table, both of ``studies.py``;
``{translation-results}`` and ``{translation-effect}`` are those of ``translation.py``; ``{kept} path`` puts in a
Markdown file of results/, and its content in its place where the file is absent.
"""

import translation
from docutils import nodes
from docutils.parsers.rst.states import Inliner
from measured import RESULTS
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from studies import NUMBERS, TABLES

logger = logging.getLogger(__name__)


def measured_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Inliner, options: dict | None = None, content: tuple = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """A number of ``studies.py``."""
    if text not in NUMBERS:
        logger.warning("no number is called %r", text, location=(inliner.document.settings.env.docname, lineno))
        return [nodes.problematic(rawtext, rawtext)], []
    return [nodes.inline(rawtext, NUMBERS[text](), classes=["measured"])], []


class Generated(SphinxDirective):
    """A directive whose Markdown is made at build time; the page is built again when results change."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def show(self, text: str) -> list[nodes.Node]:
        for path in RESULTS.glob("*/*.json"):
            self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(text, allow_section_headings=False)


class MeasuredTable(Generated):
    """A table of ``measured.py``."""

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            logger.warning("no table is called %r", name, location=self.get_location())
            return []
        return self.show(TABLES[name]())


class TranslationResults(Generated):
    """The runs of the paper's protocol that are kept."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        return self.show(translation.results(folder="../results"))


class TranslationEffect(Generated):
    """The same in one table."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        return self.show(translation.effect())


class Kept(Generated):
    """A Markdown file of results/, without its title, or the directive's content where there is none yet."""

    def run(self) -> list[nodes.Node]:
        path = RESULTS / self.arguments[0]
        self.env.note_dependency(str(path))
        if not path.exists():
            return self.show("\n".join(self.content))
        lines = path.read_text(encoding="utf-8").splitlines()
        return self.show("\n".join(line for line in lines if not line.startswith("# ")))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("measured", measured_role)
    app.add_directive("measured-table", MeasuredTable)
    app.add_directive("translation-results", TranslationResults)
    app.add_directive("translation-effect", TranslationEffect)
    app.add_directive("kept", Kept)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
