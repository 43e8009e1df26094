"""Two gloo processes under torchrun against one process with the doubled batch; every sentence is evaluated once.

No thread of theirs is left when they are done.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bleugrad.lab.runs.files import read_records
from bleugrad.lab.runs.lock import locked
from bleugrad.lab.training.checkpoints import read_checkpoint
from tests.lab.training.corpora import write_corpus
from tests.lab.training.several_processes import RUNS, main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="torch was built without gloo",
    ),
]
LEFT_THREADS = str(Path(__file__).with_name("left_threads.py"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", LEFT_THREADS]
REPOSITORY = Path(__file__).parents[2]


def torchrun(*words, code=0):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*TORCHRUN, *map(str, words)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The folder with the runs of one process and of two, on 41 sentences to train on and 7 to validate on."""
    pytest.importorskip("lightning_fabric")
    folder = tmp_path_factory.mktemp("both")
    corpus = tmp_path_factory.mktemp("corpus")
    write_corpus(corpus, train=41)
    main(corpus, folder)
    torchrun("tests.lab.training.several_processes", corpus, folder)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_give_the_weights_of_one_with_the_whole_batch(both, name):
    one, two = (read_checkpoint(both / f"{name}-{world}" / "checkpoints" / "last.safetensors") for world in (1, 2))
    assert one.state["position"]["step"] == two.state["position"]["step"] >= 6
    assert (one.state["processes"], two.state["processes"]) == (1, 2)
    for weight in one.weights:
        if weight.endswith(("key_value.bias", "leaving_entering.bias")):
            felt = int(
                weight.endswith("key_value.bias")
            )  # that of keys has no effect: Adam follows its rounding errors
            one.weights[weight], two.weights[weight] = (each.weights[weight].chunk(2)[felt] for each in (one, two))
        torch.testing.assert_close(two.weights[weight], one.weights[weight], rtol=0, atol=2e-5)
    for moment in one.optimizer:
        torch.testing.assert_close(two.optimizer[moment], one.optimizer[moment], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_record_what_one_does(both, name):
    one, two = (read_records(both / f"{name}-{world}" / "metrics.jsonl") for world in (1, 2))
    assert len(one) == len(two)
    for alone, together in zip(one, two, strict=True):
        assert alone.keys() == together.keys()
        for key in ("loss", "gradient_norm", "train_loss"):
            if key in alone:
                assert together[key] == pytest.approx(alone[key], rel=1e-4)
        if alone["kind"] == "epoch":
            assert together["sentences"] == alone["sentences"] == 7


def test_every_sentence_is_translated_once(both):
    one, two = (json.loads((both / f"translations-{world}.json").read_text()) for world in (1, 2))
    assert two["tokens"] == one["tokens"]
    assert len(two["tokens"]) == 9
    first, second = two["parts"]
    assert sorted(first + second) == [1, 2, 3, 5, 6, 7], "those that are not empty"
    assert len(first) == len(second) == 3


def test_the_same_command_works_under_torchrun(both, tmp_path):
    (tmp_path / "train.toml").write_text((both / "ce-1" / "config.toml").read_text())
    words = ["train", "--config", tmp_path / "train.toml", "--optimizer-epochs", "1", "--output", tmp_path / "run"]
    done = torchrun("bleugrad", *words)
    assert "processes: 2 (cpu)" in done.stdout
    assert done.stdout.count("epoch 1:") == 1, "only one process speaks"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    assert not (tmp_path / "run" / ".lock").exists()


def test_two_machines_train_together(both, tmp_path):
    """Two launchers with one process each, as on two machines that see the same folder."""
    (tmp_path / "train.toml").write_text((both / "ce-1" / "config.toml").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d"]
    launch += ["--rdzv-id=test", f"--rdzv-endpoint=127.0.0.1:{port}", LEFT_THREADS, "bleugrad", "train"]
    words = ["--config", tmp_path / "train.toml", "--optimizer-epochs", "1", "--data-batch-size", "4"]
    words += ["--output", tmp_path / "run"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), "OMP_NUM_THREADS": "1"}
    machines = [
        subprocess.Popen([*launch, *map(str, words)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [machine.communicate(timeout=300) for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said[0][1][-2000:] + said[1][1][-2000:]
    spoken = b"".join(out for out, _ in said)
    assert spoken.count(b"processes: 2 (cpu)") == spoken.count(b"epoch 1:") == 1
    one, two = (read_checkpoint(run / "checkpoints" / "best.safetensors") for run in (both / "ce-1", tmp_path / "run"))
    assert two.state["processes"] == 2
    assert two.state["history"][0]["train_loss"] == pytest.approx(one.state["history"][0]["train_loss"], rel=1e-4)


def test_no_process_of_a_run_starts_where_another_run_is_at_work(both, tmp_path):
    (tmp_path / "train.toml").write_text((both / "ce-1" / "config.toml").read_text())
    with locked(tmp_path / "run"):
        done = torchrun("bleugrad", "train", "--config", tmp_path / "train.toml", "--output", tmp_path / "run", code=1)
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    assert f"is in use by process {os.getpid()} on " in done.stderr
