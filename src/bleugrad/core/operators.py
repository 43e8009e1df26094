"""What all custom operators share in how they are differentiated."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep an operator's inputs for its backward pass."""
    ctx.save_for_backward(*inputs)


def outside_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    """Leave autocast, which would run the products of a backward pass in half precision."""
    return torch.autocast(tensor.device.type, enabled=False)


def refuse_double_backward(operator: Any) -> None:
    """Make differentiating through a backward operator an error that says so."""

    def refuse(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(f"{operator._qualname} cannot be differentiated: double backward is not supported")

    setup: Callable[[Any, Any, Any], None] = lambda ctx, inputs, output: None  # noqa: E731
    operator.register_autograd(refuse, setup_context=setup)
