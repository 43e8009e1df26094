"""The products of the probabilities of each word's tokens."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, match_probs: Tensor, *words: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.word_probabilities`."""
    products = match_probs.new_empty(*match_probs.shape[:2], words[0].shape[1])
    return ((products,), None) if _run("word_products", match_probs, words, products, None) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the match probabilities."""
    match_probs, *words = inputs
    swapped = match_probs.transpose(0, 1).is_contiguous()
    found = match_probs.new_zeros(match_probs.transpose(0, 1).shape if swapped else match_probs.shape)
    done = _run("word_products_backward", match_probs, words, grads[0], found)
    return (found.transpose(0, 1) if swapped else found,) if done else None


def _run(name: str, probs: Tensor, words: Any, products: Tensor, grad_probs: Tensor | None) -> bool:
    """Probabilities (T, B, L) are read as they lie in memory, which may be (B, T, L)."""
    (steps, batch, columns), rows = probs.shape, probs.transpose(0, 1)
    strides, probs = ((columns, steps * columns), rows) if rows.is_contiguous() else ((batch * columns, columns), probs)
    sizes, given = (steps, batch, columns, products.shape[2], *strides), (probs, *words, products, grad_probs)
    return run(name, sizes, *given, parts=batch, work=products.numel())
