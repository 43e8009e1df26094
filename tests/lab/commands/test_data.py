"""``bleugrad data``: a corpus fetched and described, the corpora listed, mistakes in one line."""

import gzip

import pytest

from bleugrad.lab.commands.main import main


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for split, count in (("train", 40), ("valid", 3), ("test", 2)):
        for language, words in (("de", "ein kleiner satz"), ("en", "a small sentence")):
            lines = [f"{words} {number}" for number in range(count)] + ["wort " * 60] * (split == "train")
            (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    monkeypatch.setenv("BLEUGRAD_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_without_options_the_corpora_are_listed_with_their_place(root, capsys):
    assert main(["data"]) == 0
    shown = capsys.readouterr().out
    assert f"found: {root / 'multi30k'}" in shown
    assert "wmt14: WMT'14" in shown
    assert "found: no; `bleugrad data --corpus wmt14` downloads and prepares it" in shown
    assert "builtin: sentences of an artificial grammar" in shown
    assert "BLEUGRAD_DATA" in shown


def test_a_corpus_in_numbers_and_sentences(root, capsys):
    assert main(["data", "--corpus", "multi30k", "--samples", "2"]) == 0
    shown = capsys.readouterr().out
    place = root / "multi30k"
    assert shown.splitlines()[0] == f"multi30k, {place}: train 40, valid 3, test 2 pairs (dropped: 1 too long)"
    assert shown.count("de: ein kleiner satz") == 2
    assert "en: a small sentence 1" in shown


def test_settings_of_a_training_run_are_used_and_options_override_them(root, tmp_path, capsys):
    file = tmp_path / "train.toml"
    file.write_text('seed = 3\n[data]\ncorpus = "multi30k"\nmin_count = 1\ntrain_limit = 10\n')
    assert main(["data", "--config", str(file), "--train-limit", "20"]) == 0
    shown = capsys.readouterr().out
    assert "train 20, valid 3" in shown
    file.write_text("[data]\nmincount = 1\n")
    assert main(["data", "--config", str(file)]) == 2
    assert "unknown setting 'mincount'; did you mean 'min_count'?" in capsys.readouterr().err


def test_the_built_in_corpus_needs_nothing(capsys):
    assert main("data --corpus builtin --builtin-train 200 --builtin-valid 10 --builtin-test 10".split()) == 0
    assert "builtin, part of the package" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--samples", "-1"], 2, "samples is -1; expected at least 0"),
        (["--corpus", "files"], 2, "train_source is not given"),
        (["--corpuss", "files"], 2, "unknown option '--corpuss'; did you mean '--corpus'?"),
        (["--config", "absent.toml"], 2, "cannot read absent.toml"),
        (["--corpus", "multi30k", "--target-language", "fr"], 2, "the languages are de-fr; expected de and en"),
        (["--corpus", "files", "--directory", "empty"], 1, "empty has no train.de.gz and no train.de"),
    ],
)
def test_mistakes_are_one_line(root, words, code, message, capsys, monkeypatch):
    monkeypatch.chdir(root)
    (root / "empty").mkdir()
    assert main(["data", *words]) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert len(shown.splitlines()) <= 2
