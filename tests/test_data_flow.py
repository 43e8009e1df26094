"""A call of the loss passes through the folders in one direction, and adding a choice changes one folder."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import bleugrad
from bleugrad.backends import last_used
from bleugrad.expectation import Expectation, expected_statistics
from bleugrad.losses.expected import ExpectedScoreLoss
from bleugrad.matches import MatchMethod
from bleugrad.outputs.rows import RowOutput, TokenProbabilities
from tests.oracles.enumeration import enumerate_sequences

PACKAGE = Path(bleugrad.__file__).parent


def traced_files(call, returns=False):
    """The file of each function of the package in the order of calls, with the file that called it.

    With ``returns`` also the files that are returned to.
    """
    found = []

    def watch(frame, event, _):
        path, caller = Path(frame.f_code.co_filename), Path(frame.f_back.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            inside = caller.relative_to(PACKAGE) if caller.is_relative_to(PACKAGE) else None
            if event == "call":
                found.append((path.relative_to(PACKAGE), inside))
            elif event == "return" and returns and inside is not None:
                found.append((inside, None))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_one_forward_pass_changes_file_rarely_and_enters_the_core_once(seed):
    logits = torch.randn(4, 6, 50, requires_grad=True)
    labels = torch.randint(50, (4, 6))
    labels[1, 4:] = -100
    loss = bleugrad.ExpectedBLEULoss()
    loss(logits, labels)
    if last_used()["exact_matches"] != "c":
        pytest.skip("counted with the compiled backend, which is not available here")
    for returns, most in ((False, 16), (True, 32)):
        trace = traced_files(lambda: loss(logits, labels), returns)
        changes = [str(here[0]) for before, here in pairwise(trace) if here[0] != before[0]]
        assert len(changes) <= most, changes
        entries = [file for file, caller in trace if caller and caller.parts[0] == "losses" != file.parts[0]]
        assert len(entries) == 1, entries


class UnigramRecall:
    """A score: expected unigram matches over reference length."""

    max_order = 1

    def value(self, statistics, level, pool):
        matches, lengths = statistics.matches[:, 0], statistics.references.lengths[:, 0].to(statistics.matches.dtype)
        return matches.sum() / lengths.sum() if level == "corpus" else matches / lengths


class Probabilities(RowOutput):
    """An output: rows that are probabilities already."""

    def __init__(self, probs):
        self.probs, self.shape, self.device = probs, tuple(probs.shape), probs.device

    def token_probabilities(self, ids, targets, word_start):
        nothing = self.probs.new_empty(0)
        return TokenProbabilities(self.probs.gather(2, ids[:, None].expand(*self.shape[:2], -1)), nothing, nothing)


class Unclipped(MatchMethod):
    """A match method: expected counts of the reference's tokens, not clipped; of unigrams."""

    name = "unclipped"

    def rows(self, windows):
        return (windows.probs.sum(0) * (windows.patterns.clips[:, 0] > 0)).sum(1, keepdim=True)


def test_a_new_match_method_needs_nothing_else(seed):
    """The reference `a a b`, in which `a` may count more than twice; alone, and with the other two new choices."""
    logits, labels = torch.randn(1, 4, 3, dtype=torch.float64), torch.tensor([[0, 0, 1]])
    probs = logits.softmax(-1)
    result = bleugrad.expected_bleu(logits, labels, method=Unclipped(), max_order=1)
    torch.testing.assert_close(result.matches[0, 0], probs[0, :, :2].sum())
    output, expectation = Probabilities(probs.requires_grad_()), Expectation(UnigramRecall(), method=Unclipped())
    loss = ExpectedScoreLoss(expectation)(output, references=labels)
    torch.testing.assert_close(loss, 1 - probs[0, :, :2].sum() / 3)
    loss.backward()
    assert probs.grad.abs().max() > 0.1
    with pytest.raises(ValueError, match="method is 'unclipped', but CTC has no such matches"):
        bleugrad.expected_bleu(bleugrad.CTC(logits, blank_id=2), labels, method=Unclipped(), max_order=1)


def test_a_new_score_and_a_new_output_need_nothing_else(seed):
    """Both together, against enumeration: the reference `a a b` with three positions over three tokens."""
    logits = torch.randn(1, 3, 3, dtype=torch.float64)
    probs, labels = logits.softmax(-1).requires_grad_(), torch.tensor([[0, 0, 1]])
    loss = ExpectedScoreLoss(Expectation(UnigramRecall()))(Probabilities(probs), labels)
    sequences, weights = enumerate_sequences(probs[0].detach())
    counts = [min((row == 0).sum(), 2) + min((row == 1).sum(), 1) for row in sequences]
    expected = (weights @ counts) / 3
    assert loss.item() == pytest.approx(1 - expected, abs=1e-12)
    loss.backward()
    assert probs.grad.abs().max() > 0.1
    assert ExpectedScoreLoss(Expectation(UnigramRecall(), level="sentence"))(logits, labels).item() == pytest.approx(
        loss.item()
    )


def test_a_new_output_has_bleu_and_its_interval(seed):
    logits, references = torch.randn(2, 4, 5, dtype=torch.float64), [[1, 2, 1], [3]]
    found = bleugrad.expected_bleu(Probabilities(logits.softmax(-1)), references)
    wanted = bleugrad.expected_bleu(logits, references)
    torch.testing.assert_close(found.value, wanted.value)
    torch.testing.assert_close(found.lower, wanted.lower)
    statistics, _ = expected_statistics(logits, Expectation(UnigramRecall()), references=references)
    assert statistics.matches.shape == (2, 1)
