"""Workers are spread over the GPUs there are, and end when they are interrupted."""

import queue
import signal
from types import SimpleNamespace

import pytest
import torch

from bleugrad.lab.experiments.paper.scheduling import processes
from bleugrad.lab.experiments.paper.scheduling.processes import Worker, least_used, visible_gpus


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
    monkeypatch.delenv(processes.VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(processes.VISIBLE, variable)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
    assert visible_gpus(device) == expected


def test_a_new_worker_gets_the_gpu_with_the_fewest():
    workers = []
    for _ in range(5):
        workers.append(SimpleNamespace(gpu=least_used(["a", "b"], workers)))
    assert [worker.gpu for worker in workers] == ["a", "b", "a", "b", "a"]
    assert least_used(["a", "b"], workers[1:2]) == "a"
    assert least_used([], workers) is None


@pytest.mark.parametrize("gpu", [None, "3"])
def test_a_worker_sees_its_gpu_only(monkeypatch, gpu):
    given = {}

    def popen(command, env, **more):
        given.update(env)
        raise FileNotFoundError

    monkeypatch.delenv(processes.VISIBLE, raising=False)
    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    with pytest.raises(FileNotFoundError):
        Worker(2, None, gpu)
    assert given.get(processes.VISIBLE) == gpu
    assert given["OMP_NUM_THREADS"] == "2"


def test_a_worker_of_a_background_job_can_be_interrupted(tmp_path):
    replies = queue.Queue()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the shell of a background job does
    try:
        worker = Worker(1, replies)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        worker.send({"kind": "test", "directory": "none", "log": str(tmp_path / "log"), "device": "cpu", "beams": [1]})
        assert "none" in replies.get(timeout=120)[1]["error"]
        worker.interrupt()
        assert replies.get(timeout=15) == (worker, None)
    finally:
        worker.close()
