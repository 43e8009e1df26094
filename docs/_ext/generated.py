"""Text that pages read from results/ when they are built.

``{measured}`name` `` is a number and ``{measured-table} name`` a table, both from ``studies.py``.
``{gain}`corpus objective search` `` is a difference from cross-entropy in BLEU, and ``{p-value}`` its p-value over
sentences; both may end in ``over objective``, a gain also in ``over corpus objective``. ``{translation-results}`` and
``{translation-effect}`` are the tables of ``translation.py``, and ``{translation-run} beam/builtin`` is that of one
run. ``{kept} path`` includes a Markdown file of results/, or the content of the directive if there is no such file.
"""

from collections.abc import Callable

import translation
from docutils import nodes
from docutils.parsers.rst.states import Inliner
from measured import RESULTS
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from studies import NUMBERS, TABLES

logger = logging.getLogger(__name__)


def role(make: Callable[[str], str]) -> Callable[..., tuple[list[nodes.Node], list[nodes.system_message]]]:
    """A role whose text is a function of what stands between its backticks."""

    def run(
        name: str,
        rawtext: str,
        text: str,
        lineno: int,
        inliner: Inliner,
        options: dict | None = None,
        content: tuple = (),
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            return [nodes.inline(rawtext, make(text), classes=["measured"])], []
        except (KeyError, ValueError):
            logger.warning("there is no number %r", text, location=(inliner.document.settings.env.docname, lineno))
            return [nodes.problematic(rawtext, rawtext)], []

    return run


class Generated(SphinxDirective):
    """A directive that makes its Markdown at build time; the page is rebuilt when results change."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def show(self, text: str) -> list[nodes.Node]:
        for path in RESULTS.glob("**/*.json"):
            self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(text, allow_section_headings=False)


class MeasuredTable(Generated):
    """A table of ``studies.py``."""

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            logger.warning("there is no table %r", name, location=self.get_location())
            return []
        return self.show(TABLES[name]())


class TranslationResults(Generated):
    """One table per kept run of the paper's protocol."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        return self.show(translation.results(folder="../results"))


class TranslationRun(Generated):
    """The table of one kept run, or the content of the directive if there is no such run."""

    def run(self) -> list[nodes.Node]:
        try:
            return self.show(translation.one_section(self.arguments[0]))
        except KeyError:
            return self.show("\n".join(self.content))


class TranslationEffect(Generated):
    """The short table of all kept runs."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        return self.show(translation.effect())


class Kept(Generated):
    """A Markdown file of results/ without its title, or the content of the directive if there is no such file."""

    def run(self) -> list[nodes.Node]:
        path = RESULTS / self.arguments[0]
        self.env.note_dependency(str(path))
        if not path.exists():
            return self.show("\n".join(self.content))
        lines = path.read_text(encoding="utf-8").splitlines()
        return self.show("\n".join(line for line in lines if not line.startswith("# ")))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("measured", role(lambda name: NUMBERS[name]()))
    app.add_role("gain", role(translation.gain))
    app.add_role("p-value", role(translation.p_value))
    app.add_directive("measured-table", MeasuredTable)
    app.add_directive("translation-results", TranslationResults)
    app.add_directive("translation-effect", TranslationEffect)
    app.add_directive("translation-run", TranslationRun)
    app.add_directive("kept", Kept)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
