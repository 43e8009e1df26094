"""The state of a run in a checkpoint, as JSON, its checks, and the random seed of each step."""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from bleugrad.lab.runs.forms import NUMBER, NUMBER_OR_NULL, POSITIVE, TEXT, WHOLE, Form, check_form, form_of
from bleugrad.lab.training.optimizer import Schedule
from bleugrad.lab.training.scores import Scores


@dataclass
class Position:
    """The position of a run: ``step`` updates, ``done`` of them in this ``epoch``.

    ``loss`` is the sum of the losses since the last validation.
    """

    epoch: int = 1
    done: int = 0
    step: int = 0
    loss: float = 0.0


FORM: dict[str, Form] = {
    "position": form_of(Position),
    "schedule": form_of(Schedule) | {"learning_rate": POSITIVE},
    "history": [{"epoch": WHOLE, "step": WHOLE, "train_loss": NUMBER_OR_NULL, **form_of(Scores)}],
    "records_end": WHOLE,
    "vocabularies": {"source": TEXT, "target": TEXT},
    "data": TEXT,
    "processes": WHOLE,
}


def check_state(state: Any) -> None:
    """Raise a ValueError that names the first wrong key, type, range or count."""
    optional = {"skip_penalty": NUMBER} if isinstance(state, dict) and "skip_penalty" in state else {}
    check_form(state, FORM | optional, "state")
    position, history = state["position"], state["history"]
    epoch, step = (history[-1]["epoch"], history[-1]["step"]) if history else (0, 0)
    if position["epoch"] != epoch + 1:
        raise ValueError(f"state.position.epoch is {position['epoch']}; expected {epoch + 1} after epoch {epoch}")
    if position["step"] != step + position["done"]:
        raise ValueError(f"state.position.step is {position['step']}; expected {step + position['done']}")
    if state["schedule"]["best_epoch"] > epoch:
        raise ValueError(f"state.schedule.best_epoch is {state['schedule']['best_epoch']}; expected at most {epoch}")


def seed_step(seed: int, *place: int) -> None:
    """Seed torch's generators for one step; ``place`` is the step and the rank. No generator state has to be saved."""
    words = ",".join(map(str, (seed, *place)))
    torch.manual_seed(int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 1)
