"""What all custom operators share in how they are differentiated."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

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


class Run(Protocol):
    """A computation made forward, ready to be gone back over: ``value``, and the cotangent of its first input."""

    @property
    def value(self) -> Tensor:
        """What was computed."""

    def backward(self, grad: Tensor) -> Tensor:
        """The cotangent of the first input from that of the value."""


def keep_run(make: Callable[..., Run], operator: Any, backward_operator: Any, *inputs: Tensor) -> Tensor:
    """The value of ``make(*inputs)``, kept for the backward pass where that is sure to be worth it.

    Elsewhere (torch.compile, no gradient wanted) ``operator`` computes the same, and its backward pass makes it again.
    Only the first input is differentiated.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not inputs[0].requires_grad:
        return cast(Tensor, operator(*inputs))
    return cast(Tensor, _KeptRun.apply(make, backward_operator, *inputs))  # type: ignore[no-untyped-call]


class _KeptRun(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, make: Callable[..., Run], backward_operator: Any, *inputs: Tensor) -> Tensor:
        ctx.backward_operator, ctx.run = backward_operator, make(*inputs)
        ctx.save_for_backward(*inputs)
        return cast(Tensor, ctx.run.value.clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        with outside_autocast(grad):
            again = torch.is_grad_enabled()  # a graph of the backward pass is wanted, which the operator refuses
            first = ctx.backward_operator(grad, *inputs) if again else ctx.run.backward(grad)
        return None, None, first, *(None for _ in inputs[1:])
