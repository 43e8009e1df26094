"""The state of a run in a checkpoint, as JSON, its checks, and the random seed of each step."""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from bleugrad.lab.runs.forms import NUMBER, NUMBER_OR_NULL, POSITIVE, TEXT, WHOLE, Form, check_form, form_of
from bleugrad.lab.training.schedule import Schedule
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
    since = position["step"] - step
    inside = position["epoch"] == epoch and position["done"] > since  # validated in the middle of this epoch
    if position["epoch"] <= epoch and not inside:
        raise ValueError(f"state.position.epoch is {position['epoch']}; expected {epoch + 1} after epoch {epoch}")
    least = 0 if inside else position["done"]
    if since < least:
        raise ValueError(
            f"state.position.step is {position['step']}; expected at least {step + least} after epoch {epoch}"
        )
    if state["schedule"]["best_epoch"] > epoch:
        raise ValueError(f"state.schedule.best_epoch is {state['schedule']['best_epoch']}; expected at most {epoch}")


def seed_step(seed: int, *place: int) -> None:
    """Seed torch's generators for one step; ``place`` is the step and the rank. No generator state has to be saved."""
    torch.manual_seed(derived_seed(seed, *place))


def derived_seed(seed: int, *place: int) -> int:
    """A seed of 63 bits for a step and a rank.

    Example:
        >>> derived_seed(0, 1, 0) == derived_seed(0, 1, 0) != derived_seed(0, 0, 1)
        True
    """
    words = ",".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 1
