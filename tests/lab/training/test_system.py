"""Translation with a trained model: order of lines, empty lines, unknown words, n-best lists, and unusable runs."""

import json
import shutil

import pytest
import torch

import bleugrad
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.errors import FailureError
from bleugrad.lab.training.evaluation import evaluate
from bleugrad.lab.training.scores import score
from tests.pages import blocks


@pytest.fixture(scope="module")
def system(finished):
    return bleugrad.load(finished, "cpu")


LINES = ["ich sehe katze", "", "wir", "nie gehoert", "   ", "ich suche haus katze du", "ich sehe katze"]


def test_lines_keep_their_order_and_do_not_depend_on_their_batch(system):
    together = system.translate(LINES)
    assert together == [system.translate([line])[0] for line in LINES]
    assert together[1] == together[4] == ""
    assert together[0] == together[-1] != ""
    assert not any("<" in line for line in together), "neither <unk> nor </s> is ever said"


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_hypotheses_are_ranked(system, beam):
    for found in system.search(LINES, beam, n_best=beam):
        assert 1 <= len(found) <= beam
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        assert len({one.text for one in found}) == len(found)


def test_the_log_probability_is_the_model_s(system):
    (best,) = system.search(["ich sehe katze"], beam=3)[0]
    source, target = system.vocabularies.source, system.vocabularies.target
    ids = torch.tensor([[*source.encode("ich sehe katze"), 3]])
    labels = [*target.encode(best.text), 3]
    logits = system.model(ids, torch.tensor([4]), torch.tensor([[2, *labels[:-1]]]))
    expected = logits.log_softmax(-1)[0, torch.arange(len(labels)), labels].sum()
    assert best.log_prob == pytest.approx(expected.item(), abs=1e-4)
    assert best.score == pytest.approx(best.log_prob / len(labels), abs=1e-6)


def test_the_page_explains_a_sentence_of_a_run(finished, system, tmp_path, monkeypatch, capsys):
    (block,) = blocks("docs/explain.md", "py")
    (tmp_path / "runs").mkdir()
    shutil.copytree(finished, tmp_path / "runs" / "train")
    monkeypatch.chdir(tmp_path)
    names = {"torch": torch, "bleugrad": bleugrad}
    exec(block.text, names)
    assert "E[BLEU-4 with smoothing 1] in tokens" in capsys.readouterr().out
    labels = torch.tensor([[*names["target"], 3]])
    loss = bleugrad.ExpectedBLEULoss(level="sentence")(names["logits"].double(), labels).item()
    seen = bleugrad.explain(names["logits"][0], labels[0].tolist())
    assert 1 - seen.value == pytest.approx(loss, abs=1e-9)


def test_a_line_that_never_ends_is_cut_with_a_warning(system):
    with pytest.warns(UserWarning, match="line 2 has 10000 tokens; only the first 1000 are translated"):
        found = system.translate(["wir", "katze " * 10_000], beam=1)
    assert len(found) == 2


def test_wrong_arguments_are_said(system):
    for lines in ("ich sehe katze", b"x", 3, [None]):
        with pytest.raises(TypeError, match=r"lines is a .*; expected a list"):
            system.translate(lines)
    for beam in (0, 1001, 2**31 - 1):
        with pytest.raises(ValueError, match=f"beam is {beam}; expected 1 to 1000"):
            system.translate(["wir"], beam=beam)
    with pytest.raises(TypeError, match="run is a int; expected the path"):
        bleugrad.load(3)
    with pytest.raises(ValueError, match="device is 'gpu'; expected 'auto' or 'cpu' or 'cuda'"):
        bleugrad.load("run", "gpu")
    with pytest.raises(ValueError, match="precision is 'fp16'; expected '32' or 'bf16'"):
        bleugrad.load("run", precision="fp16")
    with pytest.raises(ValueError, match="n_best is 6; expected 1 to beam = 5"):
        system.search(["wir"], n_best=6)


def test_bfloat16_has_almost_the_same_scores(finished, system):
    half = bleugrad.load(finished, "cpu", precision="bf16")
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    for (one,), (other,) in zip(system.search(LINES, 3), half.search(LINES, 3), strict=True):
        assert other.score == pytest.approx(one.score, abs=0.02)


def test_loading_leaves_the_caller_s_random_numbers(finished, seed):
    expected = torch.rand(1)
    torch.manual_seed(seed)
    bleugrad.load(finished, "cpu")
    assert torch.equal(torch.rand(1), expected)


def test_an_evaluation_is_saved_beside_the_model(finished, tmp_path, system):
    shutil.copytree(finished, tmp_path / "run")
    split = Split(["ich sehe katze", "wir"], [("cat see i",), ("we", "us")])
    evaluation = evaluate(system, split, "test", beam=2)
    evaluation.write(tmp_path / "run")
    texts, scores = evaluation.files(tmp_path / "run")
    assert texts.read_text().splitlines() == system.translate(split.sources, beam=2)
    saved = json.loads(scores.read_text())
    assert (saved["split"], saved["beam"], saved["sentences"]) == ("test", 2, 2)
    assert saved["bleu"] == score(evaluation.hypotheses, split.references).bleu
    assert scores.name == "test.beam2.json"


def test_what_is_no_trained_run_is_said(finished, tmp_path):
    with pytest.raises(FailureError, match="holds no run"):
        bleugrad.load(tmp_path)
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "checkpoints" / "best.safetensors").unlink()
    with pytest.raises(FailureError, match=r"has no best\.safetensors yet"):
        bleugrad.load(run)
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | {"study": "toy"}))
    with pytest.raises(FailureError, match="holds a run of 'toy'"):
        bleugrad.load(run)


def test_a_vocabulary_of_another_run_is_refused(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    path = run / "vocabulary.source.json"
    saved = json.loads(path.read_text())
    saved["tokens"][4:6] = saved["tokens"][5:3:-1]
    path.write_text(json.dumps(saved))
    with pytest.raises(FailureError, match=r"vocabulary\.source\.json does not fit .*best\.safetensors"):
        bleugrad.load(run)
