"""Teacher-forced logits of a training run, explained as its loss sees them."""

from argparse import ArgumentParser

import pytest
import torch

import bleugrad
from bleugrad.explanation.explain import explain
from bleugrad.lab.commands import explain as command
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.run import train_run
from bleugrad.lab.training.run_logits import logits_of_run
from bleugrad.lab.training.system import load

SETTINGS = {
    "data": {"builtin_train": 60, "builtin_valid": 4, "builtin_test": 4, "min_count": 1, "batch_size": 20},
    "model": {"embedding": 8, "hidden": 8},
    "optimizer": {"epochs": 2},
    "objective": {"name": "bound", "max_order": 2, "smoothing": 0.5, "level": "sentence"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run") / "run"
    train_run(build(TrainConfig, SETTINGS), directory)
    return directory


def test_the_loss_of_the_run_is_what_is_explained(trained):
    given = logits_of_run(trained, 2)[0]
    corpus = prepare(build(TrainConfig, SETTINGS).data)
    target = load(trained).vocabularies.target
    assert given.source == corpus.test.sources[1]
    assert given.references == [[*target.encode(text), 3] for text in corpus.test.references[1]]
    assert given.logits.shape == (len(given.references[0]), len(target))
    seen = explain(given.logits, given.references, samples=0, **given.options())
    assert (seen.method, len(seen.orders), seen.smoothing) == ("bound", 2, 0.5)
    assert seen.references[0][-1] == "</s>"
    loss = bleugrad.ExpectedBLEULoss(method="bound", max_order=2, smoothing=0.5, level="sentence")
    labels = torch.tensor([given.references[0]])
    expected = loss(given.logits[None].double(), labels, references=[given.references]).item()
    assert 1 - seen.bound_value == pytest.approx(expected, abs=1e-12)


def test_each_row_is_given_the_source_and_the_reference_before_it(trained):
    (given,) = (given for given in logits_of_run(trained, 1) if given.name.startswith("best"))
    system = load(trained)
    source = system.vocabularies.source.encode(given.source)
    memory = system.model.encode(torch.tensor([[*source, 3]]), torch.tensor([len(source) + 1]))
    inputs = torch.tensor([[2, *given.references[0][:-1]]])
    with torch.no_grad():
        expected = system.model.project(system.model.decode(memory, inputs))[0]
    assert torch.allclose(expected, given.logits, atol=1e-6)


def test_checkpoints_come_in_the_order_of_the_training(trained):
    steps = [int(given.name.split()[-1]) for given in logits_of_run(trained, 1)]
    assert steps == sorted(set(steps))


def test_the_command_explains_a_sentence_of_a_run(trained, capsys):
    parser = ArgumentParser()
    command.configure(parser)
    command.execute(parser.parse_args([str(trained), "--sentence", "1", "--split", "valid", "--samples", "0"]))
    out = capsys.readouterr().out
    given = logits_of_run(trained, 1, "valid")[-1]
    assert out.startswith(f"source: {given.source}\n")
    assert explain(given.logits, given.references, samples=0, **given.options()).text(80) in out


def test_a_sentence_that_is_not_there_is_said_so(trained):
    with pytest.raises(UsageError, match="--sentence is 5; expected 1 to 4, the sentences of test"):
        logits_of_run(trained, 5)
    with pytest.raises(UsageError, match="split is 'no'"):
        logits_of_run(trained, 1, "no")
