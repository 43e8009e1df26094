"""torch.compile(fullgraph=True): the values and gradients of eager mode, without a break in the graph."""

import os
import shutil

import pytest
import torch

from bleugrad import CTC, ExpectedBLEULoss, Graph, Projection, ReinforceLoss, UnbiasedBLEULoss
from bleugrad.losses.recipe import END_POSITIONS, SHARPNESS
from tests.losses.cases import assert_all_close, draw_batch, gradients

EOS, SLOW = 0, pytest.mark.slow
CODE = pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CXX") or "g++", "clang++"))),
    reason="no C++ compiler, which the code of torch.compile needs",
)
# torch's own, under "warnings are errors"
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def check(loss, compiled, batch, steps, dtype=torch.float64, atol=1e-12, **options):
    logits, labels = draw_batch(batch, steps, dtype=dtype, **options)
    found = gradients(lambda x: compiled(x, labels), logits)
    assert_all_close(found, gradients(lambda x: loss(x, labels), logits), atol)
    assert found[1].abs().max() > 1e-4


TRACED = {
    "corpus": {},
    "sentence": {"level": "sentence", "reduction": "none", "cross_entropy_weight": 0.3},
    "eos": {"eos_id": EOS, "cross_entropy_weight": 0.3},
    "bound eos": {"method": "bound", "eos_id": EOS},
    "recipe": {
        "level": "sentence",
        "eos_id": EOS,
        "end_positions": END_POSITIONS,
        "sharpness": SHARPNESS,
        "cross_entropy_weight": 1.0,
        "adaptive": True,
        "label_smoothing": 0.1,
    },
}


@pytest.mark.parametrize("name", [name if name == "sentence" else pytest.param(name, marks=SLOW) for name in TRACED])
def test_the_graph_has_no_breaks(seed, name):
    """Traced forward and backward, and run without code generation; a second batch of another shape too."""
    loss = ExpectedBLEULoss(**TRACED[name])
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, steps in ((3, 8), (5, 6)):
        check(loss, compiled, batch, steps)


def test_the_graph_of_the_fused_loss_has_no_breaks(seed):
    loss = ExpectedBLEULoss(cross_entropy_weight=0.3)
    hidden, labels = draw_batch(3, 8, 5, words=11)
    weight, bias = torch.randn(11, 5, dtype=torch.float64), torch.randn(11, dtype=torch.float64)

    def call(hidden, weight, bias):
        return loss(Projection(hidden, weight, bias), labels)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found, wanted = (gradients(function, hidden, weight, bias) for function in (compiled, call))
    assert_all_close(found, wanted, 1e-12)


@pytest.mark.parametrize("kind", ["frames", pytest.param("paths", marks=SLOW)])
def test_the_graph_of_a_one_pass_model_has_no_breaks(seed, kind):
    loss, lengths = ExpectedBLEULoss(), torch.tensor([5, 4])
    logits, transitions = torch.randn(2, 5, 7, dtype=torch.float64), torch.randn(2, 5, 5, dtype=torch.float64)
    labels = torch.tensor([[1, 2, 1], [3, 3, -100]])

    def call(logits, transitions):
        if kind == "frames":
            return loss(CTC(logits, blank_id=0, lengths=lengths), labels) + 0 * transitions.sum()
        return loss(Graph(logits, transitions, lengths=lengths), labels)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found, wanted = (gradients(function, logits, transitions) for function in (compiled, call))
    assert_all_close(found, wanted, 1e-12)


@pytest.mark.parametrize("kind", [ReinforceLoss, pytest.param(UnbiasedBLEULoss, marks=SLOW)])
def test_the_graph_of_a_sampled_loss_has_no_breaks(seed, kind):
    loss, (logits, labels) = kind(samples=2), draw_batch(3, 8)
    numbers = torch.rand(3, 8, 2, dtype=torch.float64)
    loss.uniform = lambda *_: numbers
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found, wanted = (gradients(lambda x, call=call: call(x, labels), logits) for call in (compiled, loss))
    assert_all_close(found, wanted, 1e-12)


@CODE
@SLOW
def test_exact_for_changing_batch_and_length(seed):
    """One compilation, dynamic shapes, float32."""
    loss = ExpectedBLEULoss(cross_entropy_weight=0.3)
    compiled = torch.compile(loss, fullgraph=True, dynamic=True)
    for batch, steps in ((3, 8), (5, 6), (4, 17)):
        check(loss, compiled, batch, steps, dtype=torch.float32, atol=1e-6)


@CODE
@SLOW
def test_bound_with_eos(seed):
    loss = ExpectedBLEULoss(method="bound", eos_id=EOS)
    check(loss, torch.compile(loss, fullgraph=True), 3, 8)


@CODE
@SLOW
def test_fused(seed):
    """The projection compiled with what makes the hidden states."""
    loss = ExpectedBLEULoss(eos_id=EOS, cross_entropy_weight=0.3)
    states, labels = draw_batch(3, 8, 5, words=11)
    weight, bias = torch.randn(11, 5, dtype=torch.float64), torch.randn(11, dtype=torch.float64)

    def call(states, weight, bias):
        return loss(Projection(torch.tanh(states), weight, bias), labels)

    found = gradients(torch.compile(call, fullgraph=True), states, weight, bias)
    assert_all_close(found, gradients(call, states, weight, bias), 1e-12)
