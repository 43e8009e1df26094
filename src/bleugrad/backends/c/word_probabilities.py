"""The products of the probabilities of each word's tokens."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs


class _Words(Problem):
    _fields_ = fields("steps batch columns words step sentence", "probs starts spans continued")


def forward(keep: bool, match_probs: Tensor, *words: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.word_probabilities`."""
    if (library := library_for(match_probs)) is None:
        return None
    products = match_probs.new_empty(*match_probs.shape[:2], words[0].shape[1])
    library.run("word_products", _problem(match_probs, *words), products.numel(), products)
    return (products,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the match probabilities."""
    if (library := library_for(inputs[0])) is None:
        return None
    words = _problem(*inputs)
    grad_probs = torch.zeros_like(words.inputs[0])  # with the same strides
    written = grad_probs if grad_probs.is_contiguous() else grad_probs.transpose(0, 1)
    library.run("word_products_backward", words, grads[0].numel(), grads[0], written)
    return (grad_probs,)


def _problem(probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Any:
    if not probs.transpose(0, 1).is_contiguous():
        probs = probs.contiguous()
    problem = make_problem(_Words, (*probs.shape, starts.shape[1], *probs.stride()[:2]), None, starts, spans, continued)
    problem.probs, problem.inputs[0] = probs.data_ptr(), probs  # either layout will do
    return problem
