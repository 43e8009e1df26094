"""Checks of what a caller passes: every message names the argument, what was found and what is expected."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

LEVELS = ("sentence", "corpus")
METHODS = ("exact", "bound")
LARGEST_ORDER = 100
LARGEST_FLOAT = torch.finfo(torch.float32).max


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        expected = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} is {value!r}; expected {expected}")


def check_order(max_order: object) -> int:
    """Return ``max_order`` as an int from 1 to ``LARGEST_ORDER``."""
    order = check_int("max_order", max_order)
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"max_order is {order}; expected 1 to {LARGEST_ORDER} (BLEU-4 is max_order=4)")
    return order


def check_int(name: str, value: object) -> int:
    """Return ``value`` if it is an int of 64 bits, as in a tensor."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}; expected an int")
    if value.bit_length() > 63:
        raise ValueError(f"{name} is an int of {value.bit_length()} bits; expected at most 63 and a sign")
    return value


def check_nonnegative(name: str, value: float) -> float:
    """Return ``value`` as a float of at least 0 that float32 can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}; expected a number")
    if isinstance(value, int):
        check_int(name, value)
    if not 0 <= value <= LARGEST_FLOAT:
        raise ValueError(f"{name} is {value}; expected a finite number from 0 to {LARGEST_FLOAT:.4g}")
    return float(value)


def check_weights(weights: Sequence[float] | Tensor | None, max_order: int) -> tuple[float, ...]:
    """Return one weight an order: uniform for None, else non-negative and summing to 1."""
    if weights is None:
        return (1.0 / max_order,) * max_order
    try:
        found = tuple(float(weight) for weight in weights)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"weights is {weights!r}; expected {max_order} numbers") from None
    if len(found) != max_order:
        raise ValueError(f"weights has {len(found)} entries; expected max_order = {max_order}, one for each order")
    if not all(math.isfinite(weight) and weight >= 0 for weight in found):
        raise ValueError(f"weights is {found}; expected finite numbers of at least 0")
    if abs(sum(found) - 1) > 1e-6:
        raise ValueError(f"weights sums to {sum(found):.6g}; expected 1, so divide each by their sum")
    return found


def check_ids(name: str, ids: Tensor) -> Tensor:
    """Return ``ids`` as int64; anything but an integer tensor is an error."""
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"{name} has dtype {ids.dtype}; expected integer token ids (torch.long)")
    return ids.long()


def check_range(name: str, ids: Tensor, valid: Tensor, vocabulary: int | None, ignore_index: int) -> None:
    """Raise if a valid id is negative or not below ``vocabulary``. Skipped while torch.compile traces."""
    if torch.compiler.is_compiling() or ids.numel() == 0:
        return
    low, high = torch.aminmax(torch.where(valid, ids, 0))
    if low < 0:
        raise ValueError(
            f"{name} holds the id {int(low)}; expected ids of at least 0, or ignore_index = {ignore_index} as padding"
        )
    if vocabulary is not None and high >= vocabulary:
        raise ValueError(f"{name} holds the id {int(high)}; expected ids below the vocabulary size {vocabulary}")


def check_batch(name: str, found: int, expected: int, of: str) -> None:
    """Raise unless two batch sizes agree."""
    if found != expected:
        raise ValueError(f"{name} has {found} sentences; expected {expected}, the batch size of {of}")


def check_floating(name: str, value: object, shape: str, dimensions: int) -> Tensor:
    """Return ``value`` if it is a floating tensor of that many dimensions; ``shape`` names them."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a tensor of shape {shape}")
    if not torch.compiler.is_compiling() and is_functorch_wrapped_tensor(value):
        raise RuntimeError(
            f"{name} is inside a torch.func transform (vmap, grad, ...), which is not supported; "
            f"batch sentences as {shape}, and differentiate with .backward() or torch.autograd.grad"
        )
    if not value.is_floating_point():
        raise TypeError(f"{name} has dtype {value.dtype}; expected a floating type")
    if value.dim() != dimensions:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
    return value


def check_logits(logits: object) -> Tensor:
    """Return ``logits`` if it is a (B, T, V) floating tensor."""
    found = check_floating("logits", logits, "(B, T, V)", 3)
    if found.shape[2] == 0:
        raise ValueError(f"logits has shape {tuple(found.shape)}; expected (B, T, V) with V of at least 1")
    return found


def check_mask(mask: Tensor | None, batch: int, steps: int) -> None:
    """Raise unless ``mask`` is None or a (B, T) bool tensor."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask is {found}; expected a bool tensor, True where a position counts")
    if mask.shape != (batch, steps):
        raise ValueError(f"mask has shape {tuple(mask.shape)}; expected {(batch, steps)}, as the logits' (B, T)")


def check_eos(eos_id: object, vocabulary: int) -> int | None:
    """Return ``eos_id`` if it is None or an id of the vocabulary."""
    if eos_id is None:
        return None
    found = check_int("eos_id", eos_id)
    if not 0 <= found < vocabulary:
        raise ValueError(f"eos_id is {found}; expected an id of the vocabulary, 0 to {vocabulary - 1}")
    return found


def check_word_start(word_start: object, vocabulary: int) -> Tensor:
    """Return ``word_start`` if it is a (V,) bool tensor."""
    if not isinstance(word_start, Tensor) or word_start.dtype != torch.bool:
        found = word_start.dtype if isinstance(word_start, Tensor) else type(word_start).__name__
        raise TypeError(f"word_start is {found}; expected a bool tensor (V,), True for tokens that open a word")
    if word_start.shape != (vocabulary,):
        raise ValueError(f"word_start has shape {tuple(word_start.shape)}; expected the vocabulary's, ({vocabulary},)")
    return word_start


def check_projection(hidden: object, weight: object, bias: object) -> None:
    """Raise unless ``hidden`` is (B, T, H), ``weight`` (V, H) and ``bias`` (V,) or None."""
    width = check_floating("hidden", hidden, "(B, T, H)", 3).shape[2]
    vocabulary, found = check_floating("weight", weight, "(V, H)", 2).shape
    if found != width or vocabulary == 0:
        raise ValueError(f"weight has shape {(vocabulary, found)}; expected (V, {width}), its H that of hidden")
    if bias is None:
        return
    entries = check_floating("bias", bias, "(V,)", 1).shape[0]
    if entries != vocabulary:
        raise ValueError(f"bias has shape ({entries},); expected ({vocabulary},), V as in weight")


def check_finite_rows(match_probs: Tensor, valid: Tensor | None, name: str = "logits") -> None:
    """Raise if a counted row of logits has no softmax: NaN in its first match probability shows it after the fact."""
    if torch.compiler.is_compiling() or match_probs.numel() == 0:
        return
    bad = match_probs.detach()[..., 0].isnan()
    bad = bad if valid is None else bad & valid
    if bad.any():
        sentence, step = (int(index) for index in bad.nonzero()[0])
        raise ValueError(
            f"{name} holds NaN or +inf, or a row of only -inf, first at sentence {sentence}, position {step}; "
            "expected rows with a softmax"
        )
