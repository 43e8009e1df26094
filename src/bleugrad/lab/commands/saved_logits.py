"""Reads saved logits and vocabularies."""

import json
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import torch
from torch import Tensor

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.extras import require_extra


def read_logits(path: Path, name: str | None = None) -> list[Tensor]:
    """The logits (T, V) of each checkpoint in a file: one, or C of a (C, T, V) tensor. No code in it is executed.

    Args:
        path: .safetensors, .npy, .npz, .pt or .pth.
        name: name of the tensor; default: the only one, or "logits".
    """
    readers: dict[str, Callable[[Path], Tensor | Mapping[str, Any]]] = {".safetensors": _read_safetensors}
    readers |= {".npy": _read_numpy, ".npz": _read_numpy, ".pt": _read_torch, ".pth": _read_torch}
    if path.suffix not in readers:
        raise UsageError(f"{path} ends in {path.suffix!r}; expected one of {', '.join(readers)}, or a run's directory")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    tensor = _pick(readers[path.suffix](path), path, name)
    if not tensor.is_floating_point() or tensor.dim() not in (2, 3) or 0 in tensor.shape:
        raise UsageError(
            f"{path} holds {tensor.dtype} of shape {tuple(tensor.shape)}; expected floating logits (T, V), "
            "or (checkpoints, T, V)"
        )
    return list(tensor) if tensor.dim() == 3 else [tensor]


def read_vocabulary_list(path: Path) -> list[str]:
    """Tokens by id: a text file with one per line, a JSON list, or a JSON object of tokens to ids or with "tokens"."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no vocabulary {path}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text; expected a vocabulary as text or JSON") from None
    if path.suffix != ".json":
        return text.removesuffix("\n").split("\n")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if isinstance(content, Mapping):
        content = content["tokens"] if "tokens" in content else _by_id(content, path)
    if not isinstance(content, list) or not all(isinstance(token, str) for token in content):
        raise UsageError(f"{path} holds no list of tokens; expected a list of texts, or an object of tokens to ids")
    return content


def token_ids(text: str, vocabulary: Sequence[str] | None, what: str = "the reference") -> list[int]:
    """Ids of tokens separated by spaces; without a vocabulary they are the ids themselves."""
    words = text.split()
    if vocabulary is None:
        wrong = [word for word in words if not (word.isascii() and word.isdigit())]
        if wrong:
            raise UsageError(f"{what} holds {wrong[0]!r}; expected token ids, or the tokens' texts with --vocabulary")
        return [int(word) for word in words]
    ids = {token: index for index, token in reversed(list(enumerate(vocabulary)))}
    unknown = [word for word in words if word not in ids]
    if unknown:
        raise UsageError(
            f"{what} holds {unknown[0]!r}, which is not in the vocabulary; expected its tokens, separated by spaces"
        )
    return [ids[word] for word in words]


def _by_id(content: Mapping[str, Any], path: Path) -> list[str]:
    tokens = {index: token for token, index in content.items() if type(index) is int}
    if len(tokens) != len(content) or set(tokens) != set(range(len(content))):
        raise UsageError(f"{path} does not give each token an id of its own from 0 to {len(content) - 1}")
    return [tokens[index] for index in range(len(content))]


def _pick(found: Tensor | Mapping[str, Any], path: Path, name: str | None) -> Tensor:
    """The tensor of this name, or the only one."""
    if isinstance(found, Tensor):
        if name is not None:
            raise UsageError(f"{path} holds one tensor without a name; leave --name out")
        return found
    tensors = {key: value for key, value in found.items() if isinstance(value, Tensor)}
    wanted = name
    if name is None:
        wanted = next(iter(tensors)) if len(tensors) == 1 else "logits"
    if wanted not in tensors:
        asked = "several tensors" if name is None else f"no tensor {name!r}"
        names = ", ".join(map(str, tensors)) or "none"
        raise UsageError(f"{path} holds {asked}; choose one with --name: {names}")
    return tensors[wanted]


def _read_safetensors(path: Path) -> Mapping[str, Tensor]:
    require_extra("translation", "safetensors", f"reading {path}")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise FailureError(f"{path} is truncated, damaged, or not a safetensors file: {error}") from None


def _read_numpy(path: Path) -> Tensor | Mapping[str, Tensor]:
    import numpy as np

    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return torch.from_numpy(found)
            return {key: torch.from_numpy(found[key]) for key in found.files}
    except (ValueError, TypeError, EOFError, SyntaxError, TokenError, zipfile.BadZipFile) as error:
        raise FailureError(f"{path} is truncated, damaged, or holds no plain numbers: {error}") from None


def _read_torch(path: Path) -> Tensor | Mapping[str, Any]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError, zipfile.BadZipFile):
        raise FailureError(
            f"{path} is truncated, damaged, or holds more than tensors; save the logits alone: torch.save(logits, FILE)"
        ) from None
    if not isinstance(found, Tensor | Mapping):
        raise UsageError(f"{path} holds a {type(found).__name__}; expected a tensor, or a dict of tensors")
    return found
