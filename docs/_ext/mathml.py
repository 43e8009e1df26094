"""Formulas as MathML, converted at build time; pages need neither scripts nor the network."""

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)


def convert(node: nodes.math | nodes.math_block) -> str:
    tex = re.sub(r"\\(begin|end){align\*?}", "", node.astext())  # the converter aligns rows itself
    try:
        return tex2mathml(tex, as_block=isinstance(node, nodes.math_block))
    except MathError as error:
        logger.warning("cannot convert a formula: %s", error, location=node)
        return f"<code>{html.escape(tex)}</code>"


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})</span>')
    translator.body.append(convert(node) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
