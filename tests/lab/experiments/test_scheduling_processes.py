"""Workers are spread over the GPUs there are, and end when they are interrupted."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bleugrad.lab.experiments.paper.scheduling import worker
from bleugrad.lab.experiments.paper.scheduling.worker import Worker, least_used, serve, visible_gpus


@pytest.mark.parametrize(
    ("device", "variable", "number", "expected"),
    [
        ("auto", None, 0, []),
        ("auto", None, 3, ["0", "1", "2"]),
        ("cuda", "2, 5", 2, ["2", "5"]),
        ("auto", "GPU-8f2", 1, ["GPU-8f2"]),
        ("auto", "", 2, ["0", "1"]),
        ("cpu", "0,1", 2, []),
    ],
)
def test_gpus_that_the_workers_share(monkeypatch, device, variable, number, expected):
    monkeypatch.delenv(worker.VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(worker.VISIBLE, variable)
    monkeypatch.setattr("torch.cuda.device_count", lambda: number)
    assert visible_gpus(device) == expected


def test_a_new_worker_gets_the_gpu_with_the_fewest():
    workers = []
    for _ in range(5):
        workers.append(SimpleNamespace(gpu=least_used(["a", "b"], workers)))
    assert [one.gpu for one in workers] == ["a", "b", "a", "b", "a"]
    assert least_used(["a", "b"], workers[1:2]) == "a"
    assert least_used([], workers) is None


def tell_environment(connection, environment):
    """A worker that answers every request with its environment."""
    loaded = "torch" in sys.modules
    names = (worker.VISIBLE, "OMP_NUM_THREADS")
    worker._execute = lambda request: {name: os.environ.get(name) for name in names} | {"torch was loaded": loaded}
    serve(connection, environment)


@pytest.mark.parametrize("gpu", [None, "3"])
def test_a_worker_sees_its_gpu_only(monkeypatch, tmp_path, gpu):
    monkeypatch.delenv(worker.VISIBLE, raising=False)
    monkeypatch.setattr(worker, "serve", tell_environment)
    started = Worker(2, gpu)
    try:
        started.send({"log": str(tmp_path / "log")})
        assert started.reply() == {worker.VISIBLE: gpu, "OMP_NUM_THREADS": "2", "torch was loaded": False}
    finally:
        started.close()
    assert started.end_in_words() == "its process ended with code 0"


def test_a_worker_of_a_background_job_can_be_interrupted(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the shell of a background job does
    try:
        started = Worker(1)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        started.send({"kind": "test", "directory": "none", "log": str(tmp_path / "log"), "device": "cpu", "beams": [1]})
        assert "none" in started.reply()["error"]
        started.interrupt()
        assert started.connection.poll(15)
        assert started.reply() is None
    finally:
        started.close()


def test_an_interrupt_before_the_workers_are_closed_does_not_wait_for_them():
    script = f"""
from {worker.__name__} import Worker
worker = Worker(1)
raise KeyboardInterrupt
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, timeout=120, check=False
    )
    assert b"KeyboardInterrupt" in done.stderr


def test_a_killed_worker_is_reported(tmp_path):
    started = Worker(1)
    os.kill(started.process.pid, signal.SIGKILL)
    assert started.reply() is None
    assert started.end_in_words() == "its process was killed by signal 9"
    started.send({})
    started.close()
