"""A worker uses the device that it is given."""

import json
from pathlib import Path

import pytest

from bleugrad.lab.errors import FailureError
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol
from bleugrad.lab.experiments.paper.scheduling import worker
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training import evaluation, run


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("kind", ["base", "test"])
def test_every_stage_uses_the_device_of_the_settings(monkeypatch, device, kind):
    used = []

    def load(directory, device="not given", *_):
        used.append(device)
        raise FailureError("enough")

    def train_run(config, *_, **__):
        used.append(config.device)
        raise FailureError("enough")

    monkeypatch.setattr(evaluation, "load", load)
    monkeypatch.setattr(run, "train_run", train_run)
    protocol = Protocol(build(ReproduceConfig, {"device": device}), Path("out"))
    request = json.loads(json.dumps(protocol.request(PlannedStage(kind, 1, "base"))))
    assert worker._execute(request) == {"error": "enough"}
    assert used == [device]
