"""Finds the pages of the documentation and their code blocks, for the tests that run or read them."""

import ast
import importlib.util
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}

_FENCE = re.compile(r"^(?P<fence>```+|:::+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: its path from the repository.
        line: of its first line of text, from 1.
        language: what stands behind the fence.
        text: what is in it.
        printed: the ``text`` block that follows without a word between them, None where there is none.
    """

    page: str
    line: int
    language: str
    text: str
    printed: str | None = None

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks(page, language=None):
    """The fenced blocks of a page, of one language or of all."""
    content = PAGES[page].read_text(encoding="utf-8")
    found = list(_FENCE.finditer(content))
    made = []
    for index, match in enumerate(found):
        after = found[index + 1] if index + 1 < len(found) else None
        follows = after is not None and not content[match.end() : after.start()].strip()
        printed = after["text"] if follows and after["language"] == "text" else None
        line = content.count("\n", 0, match.start("text")) + 1
        made.append(Block(page, line, match["language"].strip(), match["text"], printed))
    return [block for block in made if language in (None, block.language)]


def code_spans(page):
    """The text between single backticks, outside blocks and roles."""
    content = _FENCE.sub("", PAGES[page].read_text(encoding="utf-8"))
    return [" ".join(span.split()) for span in re.findall(r"(?<![`}])`([^`]+)`(?!`)", content)]


def missing_libraries(block):
    """The libraries a block imports that are not installed here."""
    names = set()
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


def run_blocks(page):
    """Run the Python of a page from top to bottom, as one program; each block must print what the page says."""
    import torch

    namespace = {"__name__": "__main__"}
    with torch.random.fork_rng(devices=[]):
        for block in blocks(page, "python"):
            missing = missing_libraries(block)
            if missing:
                pytest.skip(f"{block} needs {', '.join(missing)}")
            printed = StringIO()
            with redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.text, ROOT / page, "exec"), namespace)
            if block.printed is not None:
                assert printed.getvalue() == block.printed, f"{block} prints otherwise"
