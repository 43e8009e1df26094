"""Generated parts of the pages: numbers and tables from results/, names of tests and folders, pictures."""

import importlib
import re
import sys
import xml.etree.ElementTree as ET

import pytest

from tests.pages import PAGES, ROOT

DOCS = ROOT / "docs"


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    yield
    for name in ("measured", "translation", "decisions", "named_tests"):
        sys.modules.pop(name, None)


def used(role):
    """What the pages name with a role or a directive."""
    content = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.values())
    pattern = (
        rf"(?<!`)\{{{role}\}}`([^`\n]+)`" if role in ("measured", "gain", "p-value", "test") else rf"\{{{role}\}} (\S+)"
    )
    return set(re.findall(pattern, content))


def test_every_number_is_used_and_every_used_number_exists():
    studies = importlib.import_module("studies")
    assert used("measured") == set(studies.NUMBERS)
    assert used("measured-table") == set(studies.TABLES)


def test_gains_on_the_pages_are_those_of_the_results():
    translation = importlib.import_module("translation")
    found = used("gain")
    assert len(found) > 20
    assert all(re.fullmatch(r"[+-]\d+\.\d\d", translation.gain(name)) for name in found)
    assert translation.gain("multi30k own-mix beam 5") == "+1.31"
    assert translation.gain("multi30k own-mix beam 5 over sharp-mix") == "+0.19"
    assert translation.gain("iwslt14 exact greedy over iwslt14 ce") == translation.gain("iwslt14 exact greedy")
    with pytest.raises(ValueError, match="the first phases of iwslt14 and recipes/iwslt14 differ"):
        translation.gain("iwslt14 exact greedy over recipes/iwslt14 ce")
    assert all(0 < float(translation.p_value(name)) <= 1 for name in used("p-value"))
    for wrong in ("multi30k nothing greedy", "multi30k ce greedy", "nothing exact greedy", "multi30k exact"):
        with pytest.raises((KeyError, ValueError)):
            translation.gain(wrong)


def test_numbers_are_those_of_the_results():
    """Against values read off the files by eye."""
    measured, studies = importlib.import_module("measured"), importlib.import_module("studies")
    rows = measured.read("estimators/results.json")["cases"][0]["rows"]
    gain = rows["REINFORCE, leave-one-out"]["per_sample"] / rows["unbiased, 1 sample"]["per_sample"]
    assert studies.NUMBERS["unbiased-variance-gain"]().startswith(f"{gain:.2g} to ")
    assert measured.digits(5178.0) == "5,200"
    assert measured.digits(0.0123) == "0.012"
    assert measured.span([3.0, 1.0, 2.0]) == "1 to 3"
    for text in [number() for number in measured.NUMBERS.values()]:
        assert re.search(r"\d", text)
        assert "nan" not in text


def test_tests_named_on_the_pages_exist():
    named_tests = importlib.import_module("named_tests")
    found = used("test")
    assert len(found) > 30
    assert not [name for name in found if not named_tests.exists(name)]
    assert not named_tests.exists("tests/matches/test_bound.py::test_nothing")
    assert not named_tests.exists("tests/nothing.py::test_nothing")


SUMMARY = {
    "corpus": "made_up",
    "test_sentences": 10,
    "seeds": [1, 2],
    "searches": ["greedy", "beam 5"],
    "titles": {"base": "base", "ce": "CE", "exact": "exact"},
    "bleu_signature": "nrefs:1|made:up",
    "scores": {
        search: {
            "systems": {
                "base": {"mean": 0.2, "std": 0.001, "interval": [0.1, 0.3]},
                "ce": {"mean": 0.21, "std": 0.002, "interval": [0.1, 0.3]},
                "exact": {"mean": 0.22, "std": None, "interval": [0.1, 0.3]},
            },
            "pairs": [
                {"one": "ce", "other": "base", "difference": 0.01, "p": None, "bootstrap_p": 0.2, "smallest": None},
                {"one": "exact", "other": "ce", "difference": 0.0123, "p": 0.031, "smallest": 0.01, "equal": False},
            ],
            "best": "exact" if search == "greedy" else None,
        }
        for search in ("greedy", "beam 5")
    },
}


def test_translation_results_appear_once_they_are_kept(tmp_path):
    translation = importlib.import_module("translation")
    assert "bleugrad reproduce" in translation.results({})
    assert "bleugrad reproduce" in translation.effect({})
    shown = translation.results({"made-up": SUMMARY})
    assert "training.svg" not in shown
    assert "(../results/made-up/figures/training.svg)" in translation.results({"made-up": SUMMARY}, "../results")
    assert "**made-up**: made-up" in shown
    assert "nrefs:1|made:up" in shown
    assert "| exact | **22.00** | +1.23 (p = 0.031) | 22.00 | +1.23 (p = 0.031) |" in shown
    assert "| cross-entropy | 21.00 ± 0.20 |  | 21.00 ± 0.20 |  |" in shown
    assert translation.against(SUMMARY["scores"]["greedy"], "base") == "-1.00 (p = 0.2 over sentences)"


def test_the_short_table_has_a_column_for_each_objective():
    """One row per run and search; an objective that a run lacks leaves its cell empty."""
    translation = importlib.import_module("translation")
    found = translation.effect({"made_up-lstm": SUMMARY}, ("exact", "recommended-own"))
    header, _, first, second = found.splitlines()
    assert header == "| corpus and model | search | cross-entropy, BLEU | exact, gain | with own tokens, gain |"
    assert first == "| made_up, LSTM, 2 seeds | greedy | 21.00 ± 0.20 | +1.23 (p = 0.031) |  |"
    assert second.startswith("| made_up, LSTM, 2 seeds | beam 5 |")


def test_a_section_says_what_its_run_was_made_with():
    translation = importlib.import_module("translation")
    config = {
        "data": {"corpus": "tatoeba", "train_limit": 40000, "units": "bpe", "vocabulary_size": 0, "max_length": 50},
        "model": {"hidden": 128},
        "base": {"precision": "bf16", "epochs": 12, "learning_rate": 0.002},
        "tuning": {
            "epochs": 2,
            "learning_rate": 0.001,
            "reinforce_learning_rate": 0.0001,
            "factors": [1.0, 3.0],
            "decay": "step",
            "decay_factor": 0.3,
        },
    }
    said = (
        "Training data: 40,000 pairs, 8,000 subwords. Model: 128 hidden units, bfloat16. First phase: at most 12 "
        "epochs of cross-entropy at learning rate 0.002. Second phase: 2 epochs per objective at 0.001, 0.003 and "
        "0.0001, 0.0003 for REINFORCE, multiplied by 0.3 after each epoch. "
    )
    assert said in translation.section("made-up", SUMMARY, config=config)
    config["data"]["max_length"] = 20
    short = said.replace("40,000 pairs,", "40,000 pairs of at most 20 words,")
    assert short in translation.section("made-up", SUMMARY, config=config)


def test_a_run_is_shown_with_the_processor_time_of_the_chosen_tries():
    """Six seeds, whose times are read off the records by eye."""
    translation = importlib.import_module("translation")
    chosen = [6.75, 7.74, 6.97, 7.51, 7.26, 7.65]
    assert translation.processor_seconds("builtin")["exact"] == pytest.approx(sum(chosen) / 6)
    header, _, *rows = translation.one_section("builtin").splitlines()
    assert header.endswith("| processor time, s |")
    assert next(row for row in rows if row.startswith("| exact |")).endswith("| 7 |")
    with pytest.raises(KeyError):
        translation.one_section("nothing")


def test_only_runs_of_the_protocol_are_translation_results(tmp_path):
    translation = importlib.import_module("translation")
    for name, study in (("toy", "toy"), ("tiny", "reproduce")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text('{"seeds": [1]}')
        (tmp_path / name / "run.json").write_text(f'{{"study": "{study}"}}')
    assert translation.kept(tmp_path) == {"tiny": {"seeds": [1]}}


def made_up_run(seed, valid, greedy, beam):
    test = {"greedy": {"bleu": greedy, "length_ratio": 1.01}, "beam 5": {"bleu": beam, "length_ratio": 1.0}}
    return {"seed": seed, "best_bleu": valid, "test": test, "learning_rate": 0.001}


def test_recipes_are_compared_with_the_weights_before():
    recipes = importlib.import_module("recipe_numbers")
    overrides = {"objective": {"name": "exact", "cross_entropy_weight": 0.1}, "data": {"batch_size": 128}}
    summary = SUMMARY | {
        "objectives": {"mix": overrides},
        "runs": {
            "base": [made_up_run(1, 0.30, 0.31, 0.32), made_up_run(2, 0.40, 0.41, 0.42)],
            "mix": [made_up_run(2, 0.43, 0.42, 0.44), made_up_run(1, 0.31, 0.33, 0.33)],
        },
    }
    shown = recipes.section("made-up", summary)
    before = "Test BLEU before tuning: 20.00 ± 0.10 (greedy), 20.00 ± 0.10 (beam 5)."
    assert shown.startswith(f"**made-up**, 2 seeds. {before}")
    assert "| mix | `exact`, CE weight 0.1, batch size 128 | 0.001 | +2.00 | +1.50 | +1.50 | +1.00 | 1.010 |" in shown


def test_the_diagram_names_every_folder_and_only_those():
    drawing = ET.parse(DOCS / "_static" / "flow.svg").getroot()
    named = {node.get("data-folder") for node in drawing.iter() if node.get("data-folder")}
    assert all((ROOT / folder).exists() for folder in named)
    for room in ("src/bleugrad", "src/bleugrad/lab"):
        packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / room).glob("*/__init__.py")}
        assert packages == {name for name in named if (ROOT / name).is_dir() and name.rpartition("/")[0] == room}
    for group in drawing.iter():
        folder = group.get("data-folder")
        if folder:
            shown = next(node.text for node in group if node.get("class") == "folder")
            assert shown == folder.rpartition("/")[2] + ("/" if (ROOT / folder).is_dir() else "")


def test_the_page_of_the_flow_names_every_folder():
    page = (DOCS / "flow.md").read_text(encoding="utf-8")
    library = ROOT / "src" / "bleugrad"
    for package in [*library.glob("*/__init__.py"), *library.glob("lab/*/__init__.py")]:
        assert f"`{package.parent.name}/`" in page


def test_the_picture_shows_what_the_library_computes(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    idea, drawing = importlib.import_module("idea"), importlib.import_module("drawing")
    kept = (DOCS / "_static" / "idea.svg").read_text(encoding="utf-8")
    sampled = r"20,000 samples give [\d.]+|<circle[^>]*>"  # draws may differ from one version of torch to the next
    assert re.sub(sampled, "", kept) == re.sub(sampled, "", idea.draw())
    low, high = map(float, re.search(r"([\d.]+) to ([\d.]+)</text>", kept).groups())
    assert low < float(re.search(r"samples give ([\d.]+)", kept)[1]) < high
    dark = (DOCS / "_static" / "idea-dark.svg").read_text(encoding="utf-8")
    assert dark == kept.replace(drawing.INKS[""], drawing.INKS["-dark"])


@pytest.mark.parametrize("name", ["effects", "default_gains", "one_pass_gains", "qualities"])
def test_the_figures_of_results_are_up_to_date(monkeypatch, name):
    monkeypatch.syspath_prepend(DOCS)
    figure, drawing = importlib.import_module(name), importlib.import_module("drawing")
    drawn = figure.draw()
    assert (DOCS / "_static" / f"{name}.svg").read_text(encoding="utf-8") == drawn, f"run `python docs/{name}.py`"
    dark = (DOCS / "_static" / f"{name}-dark.svg").read_text(encoding="utf-8")
    assert dark == drawn.replace(drawing.INKS[""], drawing.INKS["-dark"])


def test_the_figure_draws_differences_with_their_intervals(monkeypatch):
    """A dot at the mean, a line for the interval, arrows where it leaves the axis, an open dot if there is none."""
    monkeypatch.syspath_prepend(DOCS)
    effects = importlib.import_module("effects")
    unit = effects.PLOT / (effects.HIGH - effects.LOW)
    zero = -effects.LOW * unit
    line, dot = effects.mark(0, 10, {"difference": 0.01, "smallest": 0.005}, "red")
    assert f'd="M{zero + 0.5 * unit:.1f} 10H{zero + 1.5 * unit:.1f}"' in line
    assert f'cx="{zero + unit:.1f}" cy="10" r="4" fill="red"' in dot
    wide = effects.mark(0, 10, {"difference": 0.01, "smallest": 0.5}, "red")
    assert f'd="M0.0 10H{effects.PLOT:.1f}"' in wide[0]
    assert len(wide) == 4
    (alone,) = effects.mark(0, 10, {"difference": 0.01, "smallest": None}, "red")
    assert 'fill="none"' in alone
