"""Checkpoints: one safetensors file each, complete or absent, with the state of the run as JSON in its header.

Tensors are named ``model.NAME``, ``optimizer.KEY.NAME`` and ``recent.NUMBER.NAME``. Nothing in the file is ever
executed. Weights, optimizer and state are in one file, because a rename replaces one file: they always belong together.
The header has a checksum of the whole file, computed with zeros in its place. It finds damage, not forgery, so names,
shapes, types and ranges are checked too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import write_bytes
from bleugrad.lab.training.run_state import check_state

FOLDER, LAST, BEST = "checkpoints", "last.safetensors", "best.safetensors"
HEADER, VERSION = "bleugrad checkpoint", 2
NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class Checkpoint:
    """Weights by parameter name, the optimizer's tensors by key and parameter name, and the state of the run.

    ``recent`` are the weights at the last validations, by number and parameter name, for their average.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any] = field(repr=False)
    recent: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def take(cls, model: nn.Module, optimizer: torch.optim.Optimizer | None, state: dict[str, Any]) -> "Checkpoint":
        """A copy of all tensors on the CPU; without an optimizer only the weights."""
        of_weight = {} if optimizer is None else optimizer.state
        moments = {
            f"{key}.{name}": value
            for name, weight in model.named_parameters()
            for key, value in of_weight.get(weight, {}).items()
        }
        return cls(weights_of(model), _copied(moments), state)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights on the CPU; a matrix that several layers share is there once."""
    return _copied(dict(model.named_parameters()))


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a model. If they do not fit, raise an error with the first difference."""
    _check_fit(path, {name: _form(value) for name, value in model.named_parameters()}, weights)
    copy_weights(model, weights)


def copy_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights that fit into a model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def put_optimizer(
    model: nn.Module, optimizer: torch.optim.Adam, tensors: Mapping[str, Tensor], step: int, path: Path
) -> None:
    """Load the tensors of a checkpoint after ``step`` updates into Adam; others are an error.

    Fused kernels do not check sizes: a tensor of another shape would be read beyond its end.
    """
    parameters = dict(model.named_parameters())
    forms = {name: _form(value) for name, value in parameters.items()}
    expected = {f"{key}.{name}": forms[name] for key in ("exp_avg", "exp_avg_sq") for name in forms}
    expected |= {f"step.{name}": _form(torch.tensor(0.0, dtype=torch.float32)) for name in forms}
    _check_fit(path, expected if step else {}, tensors)
    for full, value in tensors.items():
        key, name = full.split(".", 1)
        optimizer.state[parameters[name]][key] = value.to(parameters[name].device)


def split_recent(model: nn.Module, recent: Mapping[str, Tensor], most: int, path: Path) -> list[dict[str, Tensor]]:
    """The weights of each of at most ``most`` last validations; others are an error."""
    forms = {name: _form(value) for name, value in model.named_parameters()}
    number = len(recent) // max(len(forms), 1)
    expected = {f"{place}.{name}": form for place in range(min(number, most)) for name, form in forms.items()}
    _check_fit(path, expected, recent)
    return [{name: recent[f"{place}.{name}"] for name in forms} for place in range(number)]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    from safetensors.torch import save

    tensors = {f"model.{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"optimizer.{name}": value for name, value in checkpoint.optimizer.items()}
    tensors |= {f"recent.{name}": value for name, value in checkpoint.recent.items()}
    header = {"version": VERSION, "checksum": NO_CHECKSUM, "state": checkpoint.state}
    # one entry, because the order of several entries is not deterministic
    content = save(tensors, {HEADER: json.dumps(header, allow_nan=False)})
    content = content.replace(NO_CHECKSUM.encode(), _checksum(content).encode(), 1)
    try:
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        kept = "; what was saved before is untouched" if path.parent.exists() and any(path.parent.iterdir()) else ""
        raise FailureError(f"cannot save {path}: {error.strerror}{kept}") from None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        content = path.read_bytes()
        state = _checked_state(path, content)
        tensors = load(content)
    except FileNotFoundError:
        raise FailureError(f"there is no checkpoint {path}") from None
    except OSError as error:
        raise FailureError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise FailureError(
            f"{path} is cut off, damaged, or no checkpoint at all ({error}); it was left as it is"
        ) from None
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "recent": {}}
    for full, value in tensors.items():
        part, _, name = full.partition(".")
        if part not in parts:
            raise FailureError(f"{path} holds {full!r}, which is no tensor of a checkpoint; it was left as it is")
        parts[part][name] = value
    return Checkpoint(parts["model"], parts["optimizer"], state, parts["recent"])


def remove_checkpoints(run: Path) -> None:
    """Remove the checkpoints of a run that is replaced; a file that is no checkpoint is an error, and stays."""
    paths = [path for path in (run / FOLDER / LAST, run / FOLDER / BEST) if path.exists()]
    for path in paths:
        read_checkpoint(path)
    for path in paths:
        path.unlink()
    remove_unfinished(run)


def remove_unfinished(run: Path) -> None:
    """Remove the incomplete files of a killed process."""
    for name in (LAST, BEST):
        for path in (run / FOLDER).glob(f".{name}.*"):
            path.unlink()


def _checked_state(path: Path, content: bytes) -> dict[str, Any]:
    parsed = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata = parsed.get("__metadata__") if isinstance(parsed, dict) else None
    if not isinstance(metadata, dict) or HEADER not in metadata:
        raise FailureError(f"{path} holds tensors, but is no checkpoint of bleugrad; it was left as it is")
    header = json.loads(metadata[HEADER])
    if not isinstance(header, dict):
        raise ValueError("its header is not a table")
    version = header.get("version")
    if version != VERSION:
        missing = ", which has no checksum" if version == 1 else ""
        raise FailureError(
            f"{path} has format {version!r:.40}{missing}; this version of bleugrad reads format {VERSION}; use the "
            "version that wrote it, or remove the file and train again; it was left as it is"
        )
    checksum = str(header.get("checksum"))
    if _checksum(content.replace(checksum.encode(), NO_CHECKSUM.encode(), 1)) != checksum:
        raise ValueError("its checksum is wrong")
    state: dict[str, Any] = header.get("state", {})
    check_state(state)
    return state


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=len(NO_CHECKSUM) // 2).hexdigest()


def _check_fit(path: Path, expected: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Raise unless the tensors have the names and forms that are expected."""
    found = {name: _form(value) for name, value in tensors.items()}
    for name in (*expected, *found):
        if expected.get(name) != found.get(name):
            forms = [forms.get(name, "absent") for forms in (found, expected)]
            cause = "architecture (model.kind, layers, tied)" if "absent" in forms else "size of a layer or vocabulary"
            raise FailureError(
                f"{path} does not fit the model: {name} is {forms[0]} in the checkpoint and {forms[1]} in the model; "
                f"the {cause} is not that of the run"
            )


def _form(value: Tensor) -> str:
    shape = "x".join(map(str, value.shape)) or "a number"
    return f"{shape} of {value.dtype}".replace("torch.", "")
