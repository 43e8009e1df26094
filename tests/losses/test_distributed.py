"""Two gloo processes, each with a part of the batch, against one process with all of it."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bleugrad import (
    GLEU,
    NIST,
    ROUGE,
    Expectation,
    ExpectedBLEULoss,
    ExpectedScoreLoss,
    MinimumRiskLoss,
    Projection,
    ReinforceLoss,
    UnbiasedBLEULoss,
)
from tests.losses.cases import IGNORE
from tests.processes import PROCESSES, run_processes

WORDS, WIDTH, EOS = 12, 6, 0
STARTS = torch.arange(WORDS) % 3 > 0
LENGTHS = (7, 4, 9, 1, 6)  # of the sentences of the whole batch
pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="torch was built without gloo"
)


def fixed(kind, **options):
    """The loss with the same random numbers for every sentence, whichever process holds it."""
    loss = kind(**options)

    def uniform(batch, steps, device):
        generator = torch.Generator().manual_seed(1)
        numbers = torch.rand(max(LENGTHS), loss.samples, generator=generator, dtype=torch.float64)
        return numbers[:steps].expand(batch, -1, -1)

    loss.uniform = uniform
    return loss


REINFORCE, MINIMUM_RISK, UNBIASED = (
    partial(fixed, kind) for kind in (ReinforceLoss, MinimumRiskLoss, UnbiasedBLEULoss)
)


def of_score(process_group, **options):
    """The loss of a score other than BLEU."""
    return ExpectedScoreLoss(Expectation(**options), process_group=process_group)


@dataclass(frozen=True)
class Case:
    """Sentences [0:split] go to process 0, the rest to process 1."""

    options: dict = field(default_factory=dict)
    split: int = 2
    several: bool = False
    ignored: tuple = ()
    dtype: torch.dtype = torch.float64
    fused: bool = False
    kind: Callable = ExpectedBLEULoss
    numbers: tuple = (1, 2, 3, 1, 2)  # of references, where there are several

    def batch(self):
        """Source, labels and references (None where they are the labels) of the whole batch."""
        generator = torch.Generator().manual_seed(3)
        source = torch.randint(1, WORDS, (len(LENGTHS), max(LENGTHS)), generator=generator)
        labels = torch.randint(1, 5, source.shape, generator=generator)
        lengths = torch.tensor(LENGTHS)[:, None]
        if self.options.get("eos_id") is not None:
            labels[torch.arange(max(LENGTHS)) == lengths - 1] = EOS
        labels[torch.arange(max(LENGTHS)) >= lengths] = IGNORE
        labels[list(self.ignored)] = IGNORE
        references = [
            [torch.randint(1, 5, (3 + (3 * b + k) % 5,), generator=generator).tolist() for k in range(self.numbers[b])]
            for b in range(len(LENGTHS))
        ]
        return source, labels, references if self.several else None

    def part(self, rank):
        """What process `rank` sees, cut to the length of its own longest sentence."""
        source, labels, references = self.batch()
        rows = slice(0, self.split) if rank == 0 else slice(self.split, None)
        width = max(LENGTHS[rows], default=0)
        return source[rows, :width], labels[rows, :width], None if references is None else references[rows]

    def model(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WORDS)).to(self.dtype)

    def run(self, model, batch, group):
        """The loss, and the gradients of the model's parameters after one backward pass."""
        source, labels, references = batch
        if self.fused:
            body, head = model.module[:2], model.module[2]
            output = Projection(body(source), head.weight, head.bias)
        else:
            output = model(source)
        loss = self.kind(process_group=group, **self.options)(output, labels, references=references)
        loss.backward()
        return loss.detach(), [parameter.grad for parameter in model.parameters()]


class Alone(nn.Module):
    """Stands where DistributedDataParallel does, in one process."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, source):
        return self.module(source)


CASES = {
    "corpus": Case(),
    "corpus bound": Case({"method": "bound"}),
    "corpus eos": Case({"eos_id": EOS}),
    "corpus bound eos": Case({"method": "bound", "eos_id": EOS}),
    "several references": Case({"smoothing": 0.5}, several=True),
    "several references eos": Case({"eos_id": EOS}, several=True, split=3),
    "cross-entropy": Case({"cross_entropy_weight": 0.7}),
    "cross-entropy eos": Case({"cross_entropy_weight": 0.7, "eos_id": EOS}, split=4),
    "ROUGE": Case({"score": ROUGE(2, "f1"), "eos_id": EOS}, kind=of_score),
    "GLEU": Case({"score": GLEU()}, several=True, kind=of_score),
    "GLEU eos": Case({"score": GLEU(), "eos_id": EOS}, split=5, kind=of_score),
    "NIST": Case({"score": NIST({(1,): 1.0, (2,): 0.5, (1, 2): 2.0}, 2), "eos_id": EOS}, split=1, kind=of_score),
    "sentence mean": Case({"level": "sentence"}),
    "sentence mean eos cross-entropy": Case({"level": "sentence", "eos_id": EOS, "cross_entropy_weight": 0.3}, split=1),
    "sentence mean ignored rows": Case({"level": "sentence", "cross_entropy_weight": 0.3}, ignored=(1, 3)),
    "one process with nothing that counts": Case({"eos_id": EOS, "cross_entropy_weight": 0.3}, ignored=(0, 1)),
    "float32": Case({"cross_entropy_weight": 0.1}, dtype=torch.float32),
    "float32 eos": Case({"eos_id": EOS}, dtype=torch.float32),
    "fused": Case({"eos_id": EOS, "cross_entropy_weight": 0.3}, fused=True),
    "reinforce": Case({"samples": 2}, kind=REINFORCE),
    "reinforce words": Case({"word_start": STARTS, "cross_entropy_weight": 0.3}, ignored=(1,), kind=REINFORCE),
    "minimum risk": Case({"eos_id": EOS, "cross_entropy_weight": 0.3}, split=4, kind=MINIMUM_RISK),
    "unbiased": Case({"eos_id": EOS, "cross_entropy_weight": 0.3}, several=True, split=1, kind=UNBIASED),
    "unbiased words": Case({"word_start": STARTS}, kind=UNBIASED),
}
APART = {
    "one process without sentences": Case({"cross_entropy_weight": 0.3}, split=0),
    "one process without sentences eos": Case({"eos_id": EOS, "cross_entropy_weight": 0.3}, split=0),
    "one process without sentences words": Case({"word_start": STARTS, "cross_entropy_weight": 0.3}, split=0),
    "one process without sentences words eos": Case({"word_start": STARTS, "eos_id": EOS}, split=5),
    "one process without sentences unbiased": Case(
        {"eos_id": EOS, "cross_entropy_weight": 0.3}, split=0, kind=UNBIASED
    ),
    "one process without sentences reinforce words": Case({"word_start": STARTS}, split=5, kind=REINFORCE),
    "nothing that counts minimum risk": Case({"word_start": STARTS}, ignored=(0, 1), kind=MINIMUM_RISK),
    "one reference beside two": Case({"eos_id": EOS}, several=True, numbers=(1, 1, 2, 1, 2)),
    "two references beside one": Case({"eos_id": EOS, "smoothing": 0.5}, several=True, numbers=(2, 1, 1, 1, 1)),
    "one reference beside two in words": Case({"word_start": STARTS}, several=True, numbers=(1, 1, 2, 1, 2)),
    "nothing that counts beside two references": Case(
        {"eos_id": EOS, "cross_entropy_weight": 0.3}, several=True, ignored=(0, 1), numbers=(1, 1, 2, 1, 2)
    ),
    "nothing that counts in words": Case({"word_start": STARTS}, ignored=(0, 1)),
    "nothing that counts in words of sentences": Case({"word_start": STARTS, "level": "sentence"}, ignored=(0, 1)),
}  # apart: a collective that one process leaves out takes both of them down
SHARDED = ("corpus", "corpus eos", "cross-entropy", "sentence mean")  # also run without pooling


def average_gradients(model):
    """What DistributedDataParallel does, for a loss that does not go through the model's forward."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= PROCESSES


def work(rank, cases):
    """[case name, pooled] -> (loss, gradients) of one process: every case with pooling, some without."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    results = {}
    for name, case in cases.items():
        for pooled in (True, False) if name in SHARDED else (True,):
            group = dist.group.WORLD if pooled else None
            model = (Alone if case.fused else DistributedDataParallel)(case.model())
            loss, grads = case.run(model, case.part(rank), group)
            if case.fused:
                average_gradients(model)
            results[name, pooled] = loss, grads
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run_processes(work, tmp_path_factory.mktemp("processes"), CASES)


def in_one_process(case):
    return case.run(Alone(case.model()), case.batch(), None)


def check(results, name, case):
    tolerance = 1e-12 if case.dtype == torch.float64 else 1e-6
    loss, grads = in_one_process(case)
    assert max(grad.abs().max() for grad in grads) > 1e-3
    for rank in range(PROCESSES):
        found, found_grads = results[rank][name, True]
        torch.testing.assert_close(found, loss, rtol=0, atol=tolerance)
        for actual, expected in zip(found_grads, grads, strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
    assert torch.equal(results[0][name, True][0], results[1][name, True][0])


@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_loss_and_gradients_of_one(results, name):
    check(results, name, CASES[name])


def test_processes_may_hold_different_shapes_of_data(tmp_path):
    """No sentences (the last batch of an epoch), nothing that counts, or fewer references than the other process."""
    results = run_processes(work, tmp_path, APART)
    for name, case in APART.items():
        check(results, name, case)


@pytest.mark.parametrize("name", SHARDED)
def test_without_the_group_they_differ(results, name):
    """Each process then has the loss of its own part, and the averaged gradient is another one."""
    case = CASES[name]
    loss, grads = in_one_process(case)
    first, second = (results[rank][name, False][0] for rank in range(PROCESSES))
    assert (first - second).abs() > 1e-3
    assert ((first + second) / 2 - loss).abs() > 1e-4
    found = results[0][name, False][1]
    assert max((a - b).abs().max() for a, b in zip(found, grads, strict=True)) > 1e-4


@pytest.mark.parametrize("name", SHARDED)
def test_without_the_group_each_has_the_loss_of_its_part(results, name):
    case = CASES[name]
    for rank in range(PROCESSES):
        loss, _ = case.run(Alone(case.model()), case.part(rank), None)
        torch.testing.assert_close(results[rank][name, False][0], loss, rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"eos_id": EOS}, {"word_start": STARTS}, {"level": "sentence"}])
def test_the_backward_pass_of_a_process_without_parameters_still_sums(tmp_path, options):
    """Logits that nothing depends on, as of a process without data: the others wait for its sums."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        loss = ExpectedBLEULoss(process_group=dist.group.WORLD, **options)(
            torch.zeros(0, 3, WORDS), torch.ones(0, 3).long()
        )
        loss.backward()
    finally:
        dist.destroy_process_group()
