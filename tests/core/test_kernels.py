"""The compiled kernels: equal to torch operations in values and gradients, and never needed."""

import os
import subprocess
import sys

import pytest
import torch

import bleugrad
from bleugrad.core.native.build import library_path
from bleugrad.core.native.kernels import kernels_for

needs_compiler = pytest.mark.skipif(library_path("float") is None, reason="no C compiler builds the kernels here")
STARTS = torch.tensor([True, True, False, True, False, True, False])
REFERENCES = {
    "one": [[0, 2, 0, 2, 3, 0, 2], [5, 5, 5, 5], [1, 4, 6, 1, 4]],
    "several": [[[0, 2, 0, 2], [3, 4, 3]], [[5, 5, 5, 6]], [[1, 4, 1, 4, 1], [1], [2, 2]]],
}


def value_and_gradient(dtype, rows, references, **options):
    torch.manual_seed(5)
    logits = (2 * torch.randn(3, rows, 7, dtype=dtype)).requires_grad_()
    mask = torch.rand(3, rows) < 0.8
    mask[:, 0] = True
    result = bleugrad.expected_bleu(logits, REFERENCES[references], mask=mask, **options)
    (result.value.sum() + result.matches.sum() / 7 + result.upper.sum() / 3).backward()
    parts = (result.value, result.matches, result.totals, result.brevity_penalty, result.lower, result.upper)
    return [part.detach() for part in parts] + [logits.grad]


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("references", REFERENCES)
@pytest.mark.parametrize("word_start", [None, STARTS], ids=["tokens", "words"])
@pytest.mark.parametrize("eos_id", [None, 6], ids=["fixed", "eos"])
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("level", ["corpus", "sentence"])
def test_kernels_equal_torch_operations(monkeypatch, dtype, references, word_start, eos_id, method, level):
    options = {"word_start": word_start, "eos_id": eos_id, "method": method, "level": level}
    tolerance = 2e-5 if dtype == torch.float32 else 1e-12
    for rows in (1, 2, 9):
        compiled = value_and_gradient(dtype, rows, references, **options)
        monkeypatch.setenv("BLEUGRAD_KERNELS", "0")
        plain = value_and_gradient(dtype, rows, references, **options)
        monkeypatch.delenv("BLEUGRAD_KERNELS")
        for one, other in zip(compiled, plain, strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("word_start", [False, True], ids=["tokens", "words"])
def test_large_batches_equal_torch_operations_on_any_number_of_threads(monkeypatch, seed, threads, word_start):
    """Large enough for the rows to be shared out among threads."""
    logits = torch.randn(8, 40, 5000)
    labels = torch.randint(5000, (8, 40))
    starts = torch.rand(5000) < 0.5 if word_start else None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = []
        for switch in ("1", "0"):
            monkeypatch.setenv("BLEUGRAD_KERNELS", switch)
            leaf = logits.clone().requires_grad_()
            loss = bleugrad.ExpectedBLEULoss(word_start=starts, cross_entropy_weight=0.1)(leaf, labels)
            loss.backward()
            found.append((loss.detach(), leaf.grad))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-5, atol=0)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-4, atol=1e-8)


@needs_compiler
def test_kernels_are_used_where_they_can_be_and_nowhere_else(monkeypatch):
    assert kernels_for(torch.zeros(2)) is not None
    assert kernels_for(torch.zeros(2, dtype=torch.float64)) is not None
    assert kernels_for(torch.zeros(2, dtype=torch.float16)) is None
    assert kernels_for(torch.zeros(2, device="meta")) is None
    monkeypatch.setenv("BLEUGRAD_KERNELS", "0")
    assert kernels_for(torch.zeros(2)) is None


SCRIPT = """
import torch, bleugrad
from bleugrad.core.native.kernels import kernels_for
logits = torch.zeros(1, 3, 2, requires_grad=True)
bleugrad.expected_bleu(logits, [[0, 0]], max_order=1, smoothing=0.0).value.backward()
print(kernels_for(logits.detach()) is not None, round(logits.grad.abs().sum().item(), 6))
"""


def run_apart(cache, **environment):
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)} | environment
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@needs_compiler
def test_several_processes_may_build_at_once_and_leave_nothing_unfinished(tmp_path):
    processes = [run_apart(tmp_path) for _ in range(3)]
    answers = [process.communicate()[0] for process in processes]
    assert answers == [answers[0]] * 3
    assert answers[0].startswith("True ")
    (kept,) = (tmp_path / "bleugrad" / "kernels").iterdir()
    assert kept.suffix == ".so"


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["no compiler", "a compiler that fails", "no room for the library"])
def test_without_a_library_torch_operations_take_its_place(tmp_path, trouble):
    cache, environment = tmp_path / "cache", {}
    if trouble == "no room for the library":
        cache.write_text("a file where the directory should be")
    else:
        environment = {"CC": "/nowhere/cc" if trouble == "no compiler" else "false"}
    answer, error = run_apart(cache, **environment).communicate()
    assert answer.split() == ["False", run_apart(tmp_path / "other").communicate()[0].split()[1]], error
