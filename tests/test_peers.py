"""The comparison with other implementations, on substitutes that are correct or have a known error."""

import hashlib
import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FILES = {
    "--authors": "modules/expectedMultiBleu.py",
    "--debleu": "criterions/expectedBLEUave.py",
    "--eisl": "NAT/EISL_nat.py",
    "--bon": "model.py",
    "--nmla": "fairseq/criterions/nat_loss.py",
    "--fadat": "fs_plugins/criterions/nat_dag_loss_ngram.py",
}
EXACT = """
import bleugrad
def exact(output, ids, order):
    logits = output.log() if hasattr(output, "log") else output
    return bleugrad.expected_bleu(logits, ids, interval=False).matches[:, order - 1]
"""
RIGHT = {
    "--authors": """
from modules.utils import CUDA_wrapper, FloatTensor, LongTensor
def calculate_overlap(p, r, n, lengths):
    return CUDA_wrapper(exact(p, r, n))
""",
    "--debleu": """
import torch
class mBLEU(torch.nn.Module):
    def __init__(self, max_order):
        super().__init__()
        self.max_order = max_order
    def forward(self, Y, X, lenY, lenX, maskY, maskX, device):
        assert maskX.shape[1] == X.shape[1] + 1 and maskY.shape[1] == Y.shape[1] + 1
        orders = range(1, self.max_order + 1)
        precisions = [exact(X, Y, n).sum() / (lenX - n + 1).sum() for n in orders]
        logs = torch.tensor([0.1, 0.3, 0.3, 0.3]) * -torch.log(torch.stack(precisions) + 1e-9)
        return logs.sum(), logs
""",
    "--eisl": """
from dataclasses import dataclass
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
@dataclass
class Options(FairseqDataclass):
    average: bool = II("average")
@register_criterion("EISL")
class EISLNatCriterion(FairseqCriterion):
    def batch_log_EISL_cnn(self, log_probs, targets, ngram_list):
        return -log_probs.cuda().gather(2, targets[..., None]).sum() / len(ngram_list)
""",
    "--bon": """
import ipdb
from nltk.translate.gleu_score import sentence_gleu
from utils import computeGLEU
def matches(order):
    def function(self, targets, lengths, probs):
        rows = probs.cuda(0).view(len(lengths), -1, probs.shape[-1])
        return [(match, lengths[0]) for match in exact(rows, targets, order)]
    return function
class FastTransformer:
    onegram_match, twogram_match, threegram_match, fourgram_match = map(matches, range(1, 5))
""",
    "--nmla": """
import torch
from fairseq import metrics, utils
from fairseq.criterions import FairseqCriterion, register_criterion
@register_criterion("ctc_loss")
class LabelSmoothedDualImitationCriterion(FairseqCriterion):
    def compute_ctc_bigram_loss(self, log_probs, targets):
        assert (utils.fill_with_neg_inf(torch.zeros(2)) == -torch.inf).all()
        matches = exact(bleugrad.CTC(log_probs.cuda(log_probs.get_device()), blank_id=4), targets, 2)
        probs = log_probs.exp()
        words = [v for v in range(probs.shape[2]) if v != 4]
        length = sum((probs[:, 1:, v] * (1 - probs[:, :-1, v])).sum(1).mean() for v in words)
        return -2 * matches.mean() / (targets.shape[1] + length - 2)
""",
    "--fadat": """
from fairseq import metrics, utils
from fairseq.criterions import FairseqCriterion, register_criterion
from ..custom_ops import dag_best_alignment
from .utilities import parse_anneal_argument
from .pass_prob import DPFunc
@register_criterion("nat_dag_loss_ngram")
class NATDAGLoss(FairseqCriterion):
    def _compute_ngram_loss(self, probs, transition, tgt_tokens):
        assert self.max_ngram_order == 2 and not self.cfg.numba_ngram_loss
        assert not (tgt_tokens == self.task.tgt_dict.pad()).any()
        graph = bleugrad.Graph(probs.log().cuda(probs.device), transition.clamp(min=1e-30).log())
        matches = exact(graph, tgt_tokens, 2)
        recall = matches.mean() / (tgt_tokens.shape[1] - 1)
        return {"loss": -recall, "recall": recall.detach()}
""",
}
WRONG = """
def calculate_overlap(p, r, n, lengths):
    return exact(p, r, n) + SIGN * (n == 3) * (0.5 if r[0][0] < 3 else -0.25)
"""


@pytest.fixture
def peers(tmp_path, monkeypatch, capsys):
    """Writes the file of each option, runs the program on the folders, and returns what it printed and saved."""
    for name in ("peers_adapters", "peers_families", "timing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # other tests go on in this process

    def call(sources, *arguments):
        words = []
        for option, source in sources.items():
            file = tmp_path / option[2:] / FILES[option]
            file.parent.mkdir(parents=True)
            file.write_text(source, encoding="utf-8")
            words += [option, str(tmp_path / option[2:])]
        small = ["--shape", "2", "6", "20", "--rounds", "1", "--cases", "2", "--output", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["peers.py", *words, *small, *arguments])
        runpy.run_path(str(BENCHMARKS / "peers.py"), run_name="__main__")
        return capsys.readouterr().out, json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))

    return call


def error_row(printed, name):
    """The cells of a loss in the second table."""
    _, errors = [line for line in printed.splitlines() if line.startswith(f"| {name}")]
    return [cell.strip() for cell in errors.split("|")[2:-1]]


def largest(result, name, kind, family="rows"):
    """Largest error of the matches of each order."""
    sides = result["families"][family]["errors"][name][kind]
    return [max(-low, high) for low, high in zip(sides["lowest"][:4], sides["highest"][:4], strict=True)]


ESTIMATES = {
    "rows": (["bleugrad, exact", "authors' code of the bound", "DEBLEU", "BoN, bigrams"], "bleugrad, bound"),
    "ctc": (["bleugrad, exact", "NMLA, bigrams"], "bleugrad, clipped mean of bigrams"),
    "graph": (["bleugrad, exact", "FA-DAT, bigrams"], "bleugrad, clipped mean of bigrams"),
}
"""Losses that are exact here, and one that is not."""


def test_exact_implementations_have_no_error(peers):
    _, result = peers({option: EXACT + source for option, source in RIGHT.items()})
    assert set(result["families"]) == set(ESTIMATES)
    for family, (right, other) in ESTIMATES.items():
        assert set(result["families"][family]["errors"]) == {*right, other}
        for kind in ("distinct", "repeated"):
            for name in right:
                assert max(largest(result, name, kind, family)) < 1e-9
            assert max(largest(result, other, kind, family)) > 1e-4


@pytest.mark.parametrize(("option", "family"), [("--nmla", "ctc"), ("--fadat", "graph")])
def test_the_bigrams_of_one_pass_models_are_judged_by_enumeration(peers, option, family):
    source = RIGHT[option].replace("matches.mean()", "(matches.mean() + 0.25)")
    printed, result = peers({option: EXACT + source})
    assert list(result["families"]) == ["rows", family]
    (name,) = result["peers"]
    assert largest(result, name, "repeated", family) == pytest.approx([0.25], abs=1e-9)
    assert error_row(printed, name) == ["0.25", "0.25"]


@pytest.mark.parametrize("sign", ["1", "-1"])
def test_an_error_is_reported_with_its_size(peers, sign):
    printed, result = peers({"--authors": EXACT + WRONG.replace("SIGN", sign)})
    name = "authors' code of the bound"
    assert largest(result, name, "distinct") == pytest.approx([0, 0, 0.5, 0], abs=1e-9)
    assert error_row(printed, name)[:2] == ["0.5", "0.5"]


def test_a_loss_of_one_order_is_judged_by_that_order(peers):
    """The error is at order 3, which BoN does not use."""
    source = RIGHT["--bon"].replace("exact(rows, targets, order)", "exact(rows, targets, order) + (order == 3)")
    printed, result = peers({"--bon": EXACT + source})
    assert largest(result, "BoN, bigrams", "distinct") == pytest.approx([0, 0, 1, 0], abs=1e-9)
    *matches, first, second = error_row(printed, "BoN")
    assert max(map(float, matches)) < 1e-9
    assert first == second == "no estimate"


def test_every_loss_is_timed_and_its_file_recorded(peers):
    printed, result = peers({option: EXACT + source for option, source in RIGHT.items()}, "--note", "They are ours.")
    timed = {family: found["times"][0] for family, found in result["families"].items()}
    assert all(times["shape"] == [2, 6, 20] for times in timed.values())
    names = ["bleugrad, exact", "bleugrad, bound", "authors' code of the bound", "DEBLEU", "EISL", "BoN, bigrams"]
    assert list(timed["rows"]["milliseconds"]) == names
    for family in ("ctc", "graph"):
        (first, *rest), other = ESTIMATES[family]
        assert list(timed[family]["milliseconds"]) == [first, other, *rest]
    assert all(value > 0 for times in timed.values() for value in times["milliseconds"].values())
    assert error_row(printed, "EISL") == 4 * ["no estimate"]
    assert {peer["file"] for peer in result["peers"].values()} == set(FILES.values())
    assert printed.rstrip().endswith("They are ours.")


def test_the_version_is_what_git_calls_the_file(peers):
    _, result = peers({"--eisl": RIGHT["--eisl"]})
    content = RIGHT["--eisl"].encode()
    expected = hashlib.sha1(f"blob {len(content)}".encode() + b"\0" + content).hexdigest()
    assert result["peers"]["EISL"]["blob"] == expected


@pytest.mark.parametrize("option", FILES)
def test_a_folder_without_the_file_gives_one_line(peers, tmp_path, option):
    with pytest.raises(
        SystemExit, match=rf"^{option}: there is no {FILES[option]} in .*; give a clone of github.com/.*$"
    ):
        peers({}, option, str(tmp_path))


def test_a_file_of_another_version_gives_one_line(peers):
    with pytest.raises(
        SystemExit, match=r"^--debleu: .* cannot be used, AttributeError\(.*mBLEU.*; give a clone of .*$"
    ):
        peers({"--debleu": "class Other: pass"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "0"], "--rounds and --cases"),
        (["--shape", "2", "3", "9"], "--shape needs B"),
        (["--shape", "2", "4", "5"], "--shape needs B"),
    ],
)
def test_settings_that_cannot_be_measured_are_refused(peers, capsys, words, message):
    with pytest.raises(SystemExit):
        peers({}, *words)
    assert message in capsys.readouterr().err
