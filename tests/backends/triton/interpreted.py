"""The Triton kernels in Triton's interpreter: the values of the C kernels, and the number of launches.

``test_kernels.py`` runs these tests in a process of its own, since Triton reads TRITON_INTERPRET when it is imported.
"""

import dataclasses
import importlib
import pkgutil

import pytest
import torch

from bleugrad.backends import devices, last_used
from tests.backends import test_devices
from tests.backends.cases import frames_and_gradient, loss_and_gradient

ALL = {"row_probabilities", "exact_matches", "ngram_clips"}


@pytest.fixture
def interpreted(monkeypatch, torch_operations):
    """The kernels run on CPU tensors."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    builder = interpreter.interpreter_builder
    monkeypatch.setattr(
        builder, "options", dataclasses.replace(builder.options, sanitize_overflow=False)
    )  # half the time
    devices.SYNCHRONOUS.discard("cpu")
    yield
    devices.SYNCHRONOUS.add("cpu")


@pytest.mark.parametrize(
    ("name", "dtype", "others"),
    [
        ("tokens", torch.float32, set()),
        ("eos", torch.bfloat16, set()),
        ("words, end positions", torch.float32, {"segment_words", "word_counts", "word_probabilities"}),
        pytest.param("words", torch.float16, {"word_counts"}, marks=pytest.mark.slow),
        pytest.param("words, eos", torch.float32, {"word_counts"}, marks=pytest.mark.slow),
        pytest.param("recipe", torch.float32, set(), marks=pytest.mark.slow),
    ],
)
def test_values_and_gradients_are_those_of_the_compiled_kernels(request, name, dtype, others):
    max_order = 3 if name == "tokens" else 2  # the interpreter is slow
    expected = loss_and_gradient(name, dtype, max_order)
    request.getfixturevalue("interpreted")
    found = loss_and_gradient(name, dtype, max_order)
    assert {key for key, backend in last_used().items() if backend == "triton"} >= ALL | others
    tolerance = 1e-6 if dtype == torch.float32 else 1e-3  # the gradient has the type of the logits
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=tolerance)


def test_frames_have_the_values_of_the_compiled_kernels(request):
    """Repeats, self-overlap, a frame that does not count, and a sentence with fewer frames."""
    expected = frames_and_gradient(torch.float32)
    request.getfixturevalue("interpreted")
    found = frames_and_gradient(torch.float32)
    assert last_used()["frame_matches"] == "triton"
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("references", "width", "vocabulary"), [(1, 1, 2), (1, 37, 2), (3, 6, 3), (2, 20, 1)], ids=str)
def test_ngram_counts_are_those_of_torch(interpreted, seed, references, width, vocabulary):
    """More columns than a block, tokens that repeat, an empty reference, and orders longer than a reference."""
    ids, lengths = torch.randint(vocabulary, (2, references, width)), torch.randint(width + 1, (2, references))
    lengths[0, 0], lengths[1, -1] = width, 0
    inputs = (ids * (torch.arange(width) < lengths[..., None]), lengths, 4)
    names = [f"bleugrad.backends.{backend}.ngram_clips" for backend in ("triton", "torch")]
    found, wanted = (importlib.import_module(name).forward(False, *inputs)[0] for name in names)
    for one, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, which interprets
def test_rows_without_a_softmax_and_ids_out_of_range(interpreted):
    """They give NaN, and rows that no gradient reaches get zeros."""
    kernels = importlib.import_module("bleugrad.backends.triton.row_probabilities")
    logits = torch.zeros(1, 4, 3)
    logits[0, 1, 0], logits[0, 2], logits[0, 3, 2] = torch.nan, -torch.inf, torch.inf
    inputs = (logits, torch.tensor([[0, 1, 7]]), None, None, 1.0, False)
    outputs, kept = kernels.forward(True, *inputs)
    torch.testing.assert_close(outputs[0][0, 0, :2], torch.full((2,), 1 / 3))
    assert outputs[0][0, 1:].isnan().all()
    assert outputs[0][0, :, 2].isnan().all()
    inputs = (logits, torch.tensor([[0, 1]]), None, None, 1.0, False)
    outputs, kept = kernels.forward(True, *inputs)
    grad = torch.tensor([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    (found,) = kernels.backward(kept, (True,), (grad, None, None, None, None), outputs, inputs)
    torch.testing.assert_close(found[0, 0], torch.tensor([2 / 9, -1 / 9, -1 / 9]))
    assert (found[0, 1:] == 0).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"eos_id": 0}, {"word_start": test_devices.STARTS}, {"word_start": test_devices.STARTS, "eos_id": 0}],
    ids=["tokens", "eos", "words", "words, eos"],
)
def test_operations_of_a_step(interpreted, monkeypatch, options):
    """At most 150 at any batch and T, and the host waits for nothing. Kernels count as one each and are not run."""
    launches = []
    package = importlib.import_module("bleugrad.backends.triton")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        found = importlib.import_module(module.name)
        if module.name != "bleugrad.backends.triton.launching":
            monkeypatch.setattr(found, "launch", lambda *_, **__: launches.append(1))
    monkeypatch.setattr(torch.Tensor, "abs", lambda values: torch.ones(1))  # there is no gradient

    def found(batch, steps):
        launches.clear()
        return test_devices.counted(batch, steps, **options) + len(launches)

    assert found(32, 9) == found(32, 128) == found(65, 7) <= 150
    assert found(1, 1100) <= 150
