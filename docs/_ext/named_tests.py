"""``{test}`tests/test_oracles.py::test_counting_by_hand` ``: the pytest name of a test, which must exist."""

import ast
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
logger = logging.getLogger(__name__)


@cache
def tests_of(path: str) -> frozenset[str]:
    """Names of the test functions of a file; empty if there is no such file."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    )


def exists(named: str) -> bool:
    """Whether a test exists, given its pytest name."""
    path, _, name = named.partition("::")
    return name in tests_of(path)


def named_test_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Inliner, options: dict | None = None, content: tuple = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """File and name of the test, as pytest writes them."""
    if not exists(text):
        logger.warning("there is no test %r", text, location=(inliner.document.settings.env.docname, lineno))
    return [nodes.literal(rawtext, text, classes=["test-name"])], []


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("test", named_test_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
