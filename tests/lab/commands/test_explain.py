"""``bleugrad explain`` on files."""

import re
from argparse import ArgumentParser

import numpy as np
import pytest
import torch

from bleugrad.explanation.explain import explain
from bleugrad.lab.commands import explain as command
from bleugrad.lab.errors import FailureError, UsageError
from tests.explanation.test_page import embedded

VOCABULARY = ["▁a", "▁b", "c", "</s>"]


@pytest.fixture
def files(tmp_path, rng):
    logits = rng.normal(size=(3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "one.npy", logits[0])
    (tmp_path / "vocabulary.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return tmp_path, torch.from_numpy(logits)


def run(*words):
    parser = ArgumentParser()
    command.configure(parser)
    command.execute(parser.parse_args(list(map(str, words))))


def test_a_tensor_is_explained_as_text_and_page(files, capsys):
    folder, logits = files
    run(folder / "one.npy", "--reference", "0 1 0", "--html", folder / "page.html", "--samples", "50")
    seen = explain(logits[0], [0, 1, 0], samples=50)
    out = capsys.readouterr().out
    assert out == seen.text(80) + f"\n\npage: {folder / 'page.html'}\n"
    data = embedded((folder / "page.html").read_text(encoding="utf-8"))
    assert data["checkpoints"][0]["upper"] == seen.upper


def test_checkpoints_are_stepped_through(files, capsys):
    folder, logits = files
    run(
        folder / "one.npy", folder / "logits.npy", "--reference", "0 1 0", "--html", folder / "page.html", "--samples=0"
    )
    data = embedded((folder / "page.html").read_text(encoding="utf-8"))
    assert [at["name"] for at in data["checkpoints"]] == ["one", "logits 1", "logits 2", "logits 3"]
    out = capsys.readouterr().out
    assert re.search(rf"logits 2 +[\d.]+ +{100 * explain(logits[1], [0, 1, 0], samples=0).upper:.2f} +none", out)


def test_every_option_reaches_the_explanation(files, capsys):
    folder, logits = files
    words = "--end </s> --words --max-order 2 --smoothing 0.5 --method bound --samples 20 --seed 4 --ngrams 1".split()
    references = ["--reference", "▁a c ▁b", "--reference", "▁b"]
    run(folder / "one.npy", "--vocabulary", folder / "vocabulary.txt", *references, *words)
    starts = torch.tensor([True, True, False, False])
    options = {"eos_id": 3, "word_start": starts, "max_order": 2, "smoothing": 0.5, "method": "bound"}
    seen = explain(logits[0], [[0, 2, 1], [1]], vocabulary=VOCABULARY, samples=20, seed=4, **options)
    assert capsys.readouterr().out == seen.text(80, ngrams=1) + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--reference is missing"),
        (["--reference", "9"], "reference holds the id 9; expected ids below the vocabulary size 4"),
        (["--reference", "0", "--end", "7"], "eos_id is 7"),
        (["--reference", "0", "--end", "1 2"], "--end is '1 2'; expected one token"),
        (["--reference", "0", "--words"], "--words needs --vocabulary"),
        (["--reference", "0", "--sentence", "3"], "--sentence is given"),
        (["--reference", "0", "--samples", "1"], "samples is 1"),
        (["--reference", "0", "--max-order", "0"], "max_order is 0"),
    ],
)
def test_mistakes_are_wrong_usage(files, words, message):
    folder, _ = files
    with pytest.raises(UsageError, match=message):
        run(folder / "one.npy", *words)


def test_files_and_runs_do_not_mix(files):
    folder, _ = files
    with pytest.raises(UsageError, match="files and runs are given together"):
        run(folder / "one.npy", folder, "--reference", "0")
    with pytest.raises(UsageError, match="--sentence is missing"):
        run(folder)
    with pytest.raises(UsageError, match="--reference is given; a run has its own"):
        run(folder, "--reference", "0", "--sentence", "1")


def test_a_page_that_cannot_be_written_is_a_failure(files):
    folder, _ = files
    with pytest.raises(FailureError, match=r"cannot write .*No such file"):
        run(folder / "one.npy", "--reference", "0", "--html", folder / "nowhere" / "page.html")


@pytest.mark.parametrize("page", [True, False])
def test_a_sentence_too_long_is_refused_at_once(tmp_path, monkeypatch, page):
    """1,000 tokens made a page of 93 MB; 10,000 took 9 GB."""
    monkeypatch.setattr("bleugrad.explanation.explain.row_statistics", lambda *_: pytest.fail("it was computed"))
    np.save(tmp_path / "long.npy", np.zeros((1025, 2), dtype=np.float32))
    html = ["--html", tmp_path / "page.html"] if page else []
    cells = 1025 * 1024 * 4
    with pytest.raises(UsageError) as error:
        run(tmp_path / "long.npy", "--reference", " ".join(["0", "1"] * 512), *html)
    what, most = ("the page", 2**19) if page else ("the explanation", 2**22)
    shape = "1025 positions x 1024 reference tokens x 4 orders x 1 checkpoints"
    assert str(error.value).startswith(f"{what} has {shape} = {cells} cells; expected at most {most}: use a part")
    assert list(tmp_path.iterdir()) == [tmp_path / "long.npy"]
