"""Every block of code on the pages works: Python is run, commands are parsed; and every public name is documented."""

import ast
import importlib
import os
import re
import shlex
import sys
from functools import cache

import pytest

import bleugrad.hf
import bleugrad.metrics
from bleugrad.lab.commands.main import build_parser
from tests.pages import PAGES, ROOT, blocks, code_spans, run_blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RUN_ELSEWHERE = {"docs/trainers.md": "tests/test_trainers_page.py"}
"""Pages whose blocks are programs of their own, and the tests that run them."""

PROMPTLESS = {"cd", "echo", "printf", "cat", "git", "apt-get"}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python") and page not in RUN_ELSEWHERE])
def test_the_python_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_pages_that_are_run_elsewhere_are_run_there(page, test):
    assert blocks(page, "python")
    assert f'"{page.rpartition("/")[2]}"' in (ROOT / test).read_text(encoding="utf-8")


# Commands: programs and files exist, options are known. Nothing is run.


def commands(page):
    """The simple commands of the console blocks of a page, as words, with the block they stand in."""
    for block in blocks(page, "console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|", line.removeprefix("$ ")):
                words = shlex.split(part, comments=True)
                while words and re.match(r"\w+=", words[0]):
                    del words[0]
                if words:
                    yield block, words


@cache
def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


@cache
def targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def check_bleugrad(words):
    try:
        build_parser()[0].parse_args(words)
    except SystemExit as ended:
        understood = ended.code == 0  # --help
    else:
        understood = True
    assert understood, f"bleugrad does not understand {shlex.join(words)}"


def check_program(path, words, page):
    """A file of ours: it exists, and it, or a neighbour it imports, has the options."""
    own_files = [block.text.split("\n")[0] for block in blocks(page, "python")]
    if f"# {path}" in own_files:
        return
    source = ROOT / path
    assert source.is_file(), f"there is no {path}"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    near = [source, *(source.with_name(f"{name}.py") for name in imported if source.with_name(f"{name}.py").exists())]
    known = {"--help"} | {name for file in near for name in re.findall(r'"(--[a-z-]+)"', file.read_text("utf-8"))}
    unknown = {word.split("=")[0] for word in words if word.startswith("--")} - known
    assert not unknown, f"{path} has no option {unknown}"


def check_torchrun(words, page):
    from torch.distributed.run import get_args_parser

    chosen = get_args_parser().parse_args(words)
    check_python([*(["-m"] if chosen.module else []), chosen.training_script, *chosen.training_script_args], page)


def check_python(words, page):
    if words[0] == "-m":
        assert words[1] == "bleugrad", f"{words[1]} is no module of ours"
        check_bleugrad(words[2:])
    else:
        check_program(words[0], words[1:], page)


def check_pip(words):
    assert words[0] == "install", words
    named = set(re.findall(r"[a-z]+", ",".join(re.findall(r"\[(.*?)\]", " ".join(words)))))
    assert named <= extras(), f"pyproject.toml has no extra {named - extras()}"


def check(words, page):
    program, *rest = words
    if program == "bleugrad":
        check_bleugrad(rest)
    elif program == "torchrun":
        check_torchrun(rest, page)
    elif program == "python":
        check_python(rest, page)
    elif program == "pip":
        check_pip(rest)
    elif program == "make":
        assert {word for word in rest if "=" not in word} <= targets(), f"the Makefile lacks a target of {rest}"
    elif program == ".ci/run":
        assert os.access(ROOT / program, os.X_OK)
    else:
        assert program in PROMPTLESS, f"{program} is no program a reader has by now"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
def test_the_commands_of_a_page_exist_with_their_options(page):
    for block, words in commands(page):
        try:
            check(words, page)
        except AssertionError as error:
            raise AssertionError(f"{block}: {error}") from None


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "examples/quickstart.ipynb", "docs"])
def test_nothing_is_installed_by_name_before_a_release(page):
    """Error messages may: they name an extra of the installed package, which pip finds."""
    path = ROOT / page
    for file in sorted(path.glob("*.md")) if path.is_dir() else [path]:
        content = file.read_text(encoding="utf-8")
        assert not re.search(r"pip install (-\S+ )*['\"\\]*bleugrad(?!\S* @ git\+)", content), file


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_sentences_exist_with_their_options(page):
    for span in code_spans(page):
        words = span.split()
        whole = len(words) > 1 and not any(re.fullmatch(r"\W*[A-Z]{3,}\W*|\.\.\.", word) for word in words)
        if words[0] == "bleugrad" and len(words) == 2:
            assert words[1].startswith("--") or words[1] in build_parser()[1], span
        elif whole and (words[0] in ("bleugrad", "make", "torchrun") or span.startswith("python benchmarks/")):
            check(shlex.split(span), page)


def test_what_is_not_there_is_noticed():
    for line in (
        "bleugrad train --no-such-option",
        "bleugrad trian",
        "make nothing",
        "pip install '.[nothing]'",
        "python benchmarks/nothing.py",
        "python benchmarks/loss.py --nothing",
        "torchrun --nproc-per-node=2 -m bleugrad train --nothing",
        "nothing",
    ):
        with pytest.raises(AssertionError):
            check(shlex.split(line), "README.md")


# Names.


def documented():
    """The objects that a page documents, by the dotted name it uses."""
    found = {}
    for page in PAGES.values():
        for name in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", page.read_text(encoding="utf-8"), re.M):
            module, _, attribute = name.rpartition(".")
            found[name] = getattr(importlib.import_module(module), attribute)
    return found


@pytest.mark.parametrize(
    ("module", "libraries"),
    [
        ("bleugrad", []),
        ("bleugrad.hf", ["transformers", "accelerate", "trl"]),
        ("bleugrad.metrics", ["torchmetrics", "lightning"]),
    ],
)
def test_every_public_name_is_documented(module, libraries):
    for library in libraries:
        pytest.importorskip(library)
    shown = [id(value) for value in documented().values()]
    public = importlib.import_module(module)
    names = [name for name in public.__all__ if not name.startswith("__")]
    assert not [name for name in names if id(getattr(public, name)) not in shown]


def test_read_the_docs_installs_the_extras_of_what_is_documented():
    homes = {**bleugrad.hf._HOMES, **bleugrad.metrics._HOMES}
    content = (ROOT / ".readthedocs.yaml").read_text(encoding="utf-8")
    installed = set(re.search(r"\.\[(.*)\]", content)[1].split(","))
    assert {"docs", "translation", *(extra for _, extra, _ in homes.values())} <= installed <= extras()


def test_names_in_running_text_exist():
    """`bleugrad.NAME` between backticks is a public name, a module or a command."""
    for page in PAGES:
        for span in code_spans(page):
            match = re.match(r"bleugrad\.(\w+)", span)
            if match:
                known = {*bleugrad.__all__, *(path.stem for path in (ROOT / "src" / "bleugrad").iterdir())}
                assert match[1] in known, f"{page}: {span}"


# Links that Sphinx does not see.


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(page):
    content = PAGES[page].read_text(encoding="utf-8")
    paths = re.findall(r"\]\(([^)#\s]+)[^)]*\)|(?:src|srcset)=\"([^\"]+)\"", content)
    for path in filter(None, (link or image for link, image in paths)):
        assert path.startswith("https://") or (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_running_text_exist(page):
    for span in code_spans(page):
        if re.fullmatch(r"(benchmarks|corpora|examples|tests|docs|src|results)/[\w./-]+", span):
            assert (ROOT / span).exists(), span
