"""Checkpoints: one safetensors file each, whole or absent, with the state of the run as JSON in its header.

Tensors are named ``model.NAME`` and ``optimizer.KEY.NAME``. Nothing in the file is ever executed. Weights, optimizer
and state are in one file because a rename replaces one file at a time: they belong together at every moment.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bleugrad.errors import FailureError
from bleugrad.runs.files import write_bytes

FOLDER, LAST, BEST = "checkpoints", "last.safetensors", "best.safetensors"
EVALUATIONS = "evaluations"
HEADER, VERSION = "bleugrad checkpoint", 1


@dataclass(frozen=True)
class Checkpoint:
    """Weights by parameter name, the optimizer's tensors by key and parameter name, and the state of the run."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any] = field(repr=False)


def take_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def take_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors as they are now, on the CPU, by the names of the model's parameters."""
    return {
        f"{key}.{name}": value.detach().cpu().clone()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a model they were made for; anything else is an error that names the first difference."""
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    for name in (*expected, *found):
        if expected.get(name) != found.get(name):
            raise FailureError(
                f"{path} does not fit the model: {name} is {_shape(found.get(name))} in the checkpoint "
                f"and {_shape(expected.get(name))} in the model; the settings or vocabularies are not those of the run"
            )
    model.load_state_dict(dict(weights))


def put_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer the tensors that :func:`take_optimizer` took."""
    parameters = dict(model.named_parameters())
    for full, value in tensors.items():
        key, name = full.split(".", 1)
        parameter = parameters[name]
        device = parameter.device if value.dim() else value.device
        optimizer.state[parameter][key] = value.to(device)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all; the one it replaces is untouched until then."""
    from safetensors.torch import save

    tensors = {f"model.{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"optimizer.{name}": value for name, value in checkpoint.optimizer.items()}
    header = json.dumps({"version": VERSION, "state": checkpoint.state}, allow_nan=False)
    content = save(tensors, {HEADER: header})  # one entry: of several, the order would differ from time to time
    try:
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        kept = "; what was saved before is untouched" if path.parent.exists() and any(path.parent.iterdir()) else ""
        raise FailureError(f"cannot save {path}: {error.strerror}{kept}") from None


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, or an error that says why the file is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            state = _checked_state(path, file.metadata())
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise FailureError(f"there is no checkpoint {path}") from None
    except OSError as error:
        raise FailureError(f"cannot read {path}: {error.strerror or error}") from None
    except SafetensorError as error:
        raise FailureError(
            f"{path} is cut off, damaged, or no checkpoint at all ({error}); it was left as it is"
        ) from None
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    prefix = "optimizer."
    optimizer = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    return Checkpoint(weights, optimizer, state)


def remove_checkpoints(run: Path) -> None:
    """Remove the checkpoints of a run that is to be replaced; one that cannot be read is an error, and stays."""
    for name in (LAST, BEST):
        path = run / FOLDER / name
        if path.exists():
            read_checkpoint(path)
    for name in (LAST, BEST):
        (run / FOLDER / name).unlink(missing_ok=True)
    remove_unfinished(run)


def remove_evaluations(run: Path) -> None:
    """Remove translations and scores of best weights that are to be replaced."""
    for kind in ("txt", "json"):
        for path in (run / EVALUATIONS).glob(f"*.{kind}"):
            path.unlink()


def remove_unfinished(run: Path) -> None:
    """Remove what a killed process had begun to write."""
    for name in (LAST, BEST):
        for path in (run / FOLDER).glob(f".{name}.*"):
            path.unlink()


def _checked_state(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    if metadata is None or HEADER not in metadata:
        raise FailureError(f"{path} holds tensors, but is no checkpoint of bleugrad; it was left as it is")
    header = json.loads(metadata[HEADER])
    if header["version"] != VERSION:
        raise FailureError(
            f"{path} has format {header['version']}, and this version of bleugrad reads format {VERSION}; use the "
            "version that wrote it; the file was left as it is"
        )
    state: dict[str, Any] = header["state"]
    return state


def _shape(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else "x".join(map(str, shape))
