"""From ordinary text to ordinary text: what a trained system reads, writes and scores."""

import io
import json
import sys

import pytest

from bleugrad.lab.commands.main import main
from bleugrad.lab.training.run import train_run
from bleugrad.lab.training.system import load
from tests.lab.training.corpora import ENGLISH, small_config, write_corpus

WORDS = {**ENGLISH, "katze": "cat", "haus": "house"}


def write_raw(folder):
    """The small corpus with capitals and full stops: ``Ich sehe katze.``"""
    write_corpus(folder)
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        path.write_text("".join(f"{line.capitalize()}.\n" for line in lines))
    return folder


@pytest.fixture(scope="module", params=["words", "bpe"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    corpus, path = folder / "corpus", folder / "run"
    corpus.mkdir()
    more = {} if request.param == "words" else {"data__vocabulary_size": 40}
    config = small_config(write_raw(corpus), data__raw=True, data__units=request.param, optimizer__epochs=6, **more)
    train_run(config, path)
    return path


def translate(run, text, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["translate", str(run), "--beam", "2"]) == 0
    return capsys.readouterr()


def test_translations_are_ordinary_text(run, monkeypatch, capsys):
    shown = translate(run, "Ich sehe katze.\nWir, du!\n", monkeypatch, capsys)
    lines = shown.out.splitlines()
    assert len(lines) == 2
    assert shown.err == ""
    for line in lines:
        assert line[:1] == line[:1].upper()
        assert "￭" not in line
        assert " ." not in line
        assert "▁" not in line


def test_references_come_back_from_the_vocabulary(run):
    target = load(run).vocabularies.target
    for line in ("You see cat.", "I."):
        assert target.decode(target.encode(line)) == line
    assert json.loads((run / "vocabulary.target.json").read_text())["kind"] == "raw"


def test_scores_say_the_tokenizer_of_sacrebleu(run, capsys):
    assert main(["evaluate", str(run)]) == 0
    assert "tok:13a" in capsys.readouterr().out
    assert "tok:13a" in json.loads((run / "summary.json").read_text())["bleu_signature"]
    assert 'tokenize = "13a"' in (run / "config.toml").read_text()


def test_a_system_of_tokenised_text_warns_of_ordinary_text(finished, monkeypatch, capsys):
    shown = translate(finished, "ich sehe katze\nIch sehe katze.\nIch\n", monkeypatch, capsys)
    assert len(shown.out.splitlines()) == 3
    assert shown.err.count("trained on tokenised text") == 1
    assert "line 2 has 'Ich' and looks like ordinary text" in shown.err
    assert translate(finished, "ich sehe katze .\n", monkeypatch, capsys).err == ""
