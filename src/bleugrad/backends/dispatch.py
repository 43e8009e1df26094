"""How operations are called: one signature, a torch implementation, faster ones, and one autograd rule.

An implementation of the operation ``name`` is the module ``bleugrad.backends.<backend>.<name>`` with two functions:

``forward(keep, *inputs) -> (outputs, kept)``
    The outputs as a tuple. If ``keep`` is True a backward pass may follow, and ``kept`` may hold anything that makes
    it cheaper, or None. It must not hold an output, which would be a reference cycle. The rule saves inputs and
    outputs.

``backward(kept, needs, grads, outputs, inputs) -> gradients``
    One gradient for each differentiable input whose entry of ``needs`` is True, None for the others. Entries of
    ``grads`` are None where no gradient reaches an output, never all of them. ``kept`` is None where nothing was kept
    or an earlier backward pass used it up; then the implementation computes it again. It may overwrite
    ``kept``.

Both return None where the implementation does not support the inputs; then the next backend is tried, and torch last.

An operation on ids needs no module in C: its C function takes the sizes of the ids, the numbers, the inputs and the
outputs, whose shapes are declared by :class:`IdShapes`.
"""

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.devices import has_triton

Outputs: TypeAlias = tuple[Tensor, ...]

PLAIN = (Tensor, torch.nn.Parameter)
"""Tensors with memory of their own: no subclasses, whose operations the dispatcher must see."""

_last_used: dict[str, str] = {}


def last_used() -> dict[str, str]:
    """The backend that the last call of each operation in this process used: operation name to backend name.

    >>> import torch, bleugrad
    >>> _ = bleugrad.expected_bleu(torch.zeros(1, 3, 2), [[0, 0]])
    >>> last_used()["exact_matches"] in ("c", "triton", "torch")
    True
    """
    return dict(_last_used)


class IdShapes:
    """The shapes of the outputs of an operation on ids (B, K, R), as letters: L is K R, N the last input, D is N - 1.

    They are int64 tensors. A question mark after the letters makes one bool.
    """

    def __init__(self, *outputs: str) -> None:
        self.outputs = outputs

    def __call__(self, ids: Tensor, *others: Any) -> Outputs:
        """Empty outputs."""
        (batch, references, width), number = ids.shape, others[-1] if isinstance(others[-1], int) else 1
        sizes = {"B": batch, "K": references, "R": width, "L": references * width, "N": number, "D": number - 1}
        shapes = [[sizes[letter] for letter in output.rstrip("?")] for output in self.outputs]
        kinds = [torch.bool if output.endswith("?") else torch.int64 for output in self.outputs]
        return tuple(ids.new_empty(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=True))


class Operation:
    """A function of tensors with several implementations, differentiable in some of its inputs.

    Args:
        name: of the operation, of its modules, and of the operator ``torch.ops.bleugrad.<name>``.
        inputs: in the syntax of operator schemas, ``"Tensor probs, Tensor? alive"``, tensors first.
        outputs: how many tensors it returns; one alone is returned as it is, several as a tuple.
        shapes: the outputs, with their shapes and types but without values, from the inputs; used by compilers.
        gradients: the names of the inputs it is differentiable in.
        backends: those that have an accelerated implementation, in the order in which they are tried.

    An operation with the input ``bool inplace`` may write a gradient over its first input. Compiled graphs and double
    backward passes do not allow that, so the operators leave the input as it is.

    Called under torch.compile, the operation is one opaque operator in the graph. Elsewhere it calls the implementation
    directly and skips the custom-op overhead.
    """

    def __init__(
        self,
        name: str,
        inputs: str,
        outputs: int,
        shapes: Callable[..., Outputs],
        gradients: tuple[str, ...] = (),
        backends: tuple[str, ...] = (),
    ) -> None:
        self.name, self.shapes, self.backends = name, shapes, (*backends, "torch")
        kinds, declared = zip(*(declaration.split() for declaration in inputs.split(", ")), strict=True)
        self.number, self.differentiable = outputs, tuple(declared.index(gradient) for gradient in gradients)
        self.tensors = sum(kind.startswith("Tensor") for kind in kinds)
        self.inplace = declared.index("inplace") if "inplace" in declared else None
        self._modules: dict[str, ModuleType] = {}
        self._operator = self._define(inputs)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs; see :mod:`bleugrad.backends.operations` for the inputs and outputs of each operation."""
        if torch.compiler.is_compiling():
            return self._operator(*inputs)
        keep = False
        for value in inputs[: self.tensors]:
            if value is None:
                continue
            if type(value) not in PLAIN or is_functorch_wrapped_tensor(value):
                return self._operator(*inputs)
            keep |= value.requires_grad
        if keep and torch.is_grad_enabled():
            return _Rule.apply(self, *inputs)  # type: ignore[no-untyped-call]
        outputs = self.forward(False, inputs)[0]
        return outputs if self.number > 1 else outputs[0]

    def forward(self, keep: bool, inputs: tuple[Any, ...]) -> tuple[Outputs, Any, ModuleType | None]:
        """The outputs, ``kept``, and the module of the first backend that supports the inputs."""
        for backend in self.backends:
            if backend == "triton" and not has_triton(inputs[0]):
                continue
            result = self._forward(backend, keep, inputs)
            if result is not None:
                _last_used[self.name] = backend
                return *result, self._modules.get(backend)
        raise AssertionError(f"no backend supports {self.name}")  # the torch backend supports everything

    def _forward(self, backend: str, keep: bool, inputs: tuple[Any, ...]) -> Any:
        """The outputs and ``kept`` by one backend; None where it does not support the inputs."""
        if backend != "c" or not isinstance(self.shapes, IdShapes):
            return self._module(backend).forward(keep, *inputs)
        ids, outputs = inputs[0], self.shapes(*inputs)
        sizes, given = (*ids.shape, *inputs[self.tensors :]), (*inputs[: self.tensors], *outputs)
        done = run(self.name, sizes, *given, parts=len(ids), work=outputs[0].numel(), dtype=torch.float32)
        return (outputs, None) if done else None

    def _module(self, backend: str) -> ModuleType:
        if backend not in self._modules:
            self._modules[backend] = import_module(f"bleugrad.backends.{backend}.{self.name}")
        return self._modules[backend]

    def _single(self, outputs: Outputs) -> Tensor | Outputs:
        return outputs if self.number > 1 else outputs[0]

    def backward(
        self,
        implementation: ModuleType | None,
        kept: Any,
        needs: tuple[bool, ...],
        grads: tuple[Tensor | None, ...],
        outputs: Outputs,
        inputs: tuple[Any, ...],
    ) -> list[Tensor | None]:
        """One gradient for each input, by ``implementation``, or by the first that supports the inputs.

        Outside autocast, which would run matrix products in half precision.
        """
        kind, given = outputs[0].device.type, (needs, grads, outputs, inputs)
        with torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
            found = None if implementation is None else implementation.backward(kept, *given)
            for backend in self.backends:
                if found is None and (backend != "triton" or has_triton(outputs[0])):
                    found = self._module(backend).backward(None, *given)
        assert found is not None, f"no backend supports the backward pass of {self.name}"
        return self._place(found, needs, len(inputs))

    def _place(self, found: Any, needs: tuple[bool, ...], number: int) -> list[Tensor | None]:
        gradients: list[Tensor | None] = [None] * number
        for index, gradient, needed in zip(self.differentiable, found, needs, strict=True):
            gradients[index] = gradient if needed else None
        return gradients

    def _define(self, inputs: str) -> Any:
        """The operators for compilers, forward and backward; the second refuses to be differentiated."""
        results = ["Tensor"] * self.number
        grads = [f"Tensor? grad_{index}" for index in range(self.number)]
        outputs = [f"Tensor output_{index}" for index in range(self.number)]
        after = [*grads, *outputs, inputs, "bool[] needs"]
        found = ["Tensor"] * len(self.differentiable)

        def run(*values: Any) -> Any:
            outputs = self.forward(False, values)[0]
            return self._single(tuple(output.contiguous() for output in outputs))

        def split(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return values[: self.number], values[self.number : 2 * self.number], values[2 * self.number :]

        def run_backward(*values: Any) -> Any:
            grads, outputs, given = split(values[:-1])
            needs = values[-1]
            if self.inplace is not None:
                given = (*given[: self.inplace], False, *given[self.inplace + 1 :])
            placed = self.backward(None, None, tuple(needs), grads, outputs, given)
            empty = outputs[0].new_empty
            results = [placed[index] for index in self.differentiable]
            return _as_result([empty(0) if one is None else one.contiguous() for one in results])

        def fake_backward(*values: Any) -> Any:
            _, outputs, given = split(values[:-1])
            needs = values[-1]
            wanted = [
                given[index] if needed else None for index, needed in zip(self.differentiable, needs, strict=True)
            ]
            empty = outputs[0].new_empty
            return _as_result([empty(0) if one is None else one.new_empty(one.shape) for one in wanted])

        operator = _custom_op(self.name, run, f"({inputs}) -> {_signature(results)}")
        operator.register_fake(lambda *values: self._single(self.shapes(*values)))
        if not self.differentiable:
            return operator._opoverload
        backward_operator = _custom_op(
            f"{self.name}_backward", run_backward, f"({', '.join(after)}) -> {_signature(found)}"
        )
        backward_operator.register_fake(fake_backward)
        backward_operator.register_autograd(self._refuse, setup_context=lambda ctx, inputs, output: None)
        self._backward_operator = backward_operator._opoverload

        def rule(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            return tuple(self.traced_backward(ctx, grads)) if _any(grads) else (None,) * len(ctx.needs_input_grad)

        operator.register_autograd(rule, setup_context=self.save)
        return operator._opoverload

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor | Outputs) -> None:
        """Keep inputs and outputs for the backward pass."""
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[: self.tensors], *outputs)
        ctx.constants = inputs[self.tensors :]

    def saved(self, ctx: Any) -> tuple[tuple[Any, ...], Outputs, tuple[bool, ...]]:
        """Inputs and outputs, and which differentiable inputs need a gradient."""
        tensors = ctx.saved_tensors  # asked for once: activation checkpointing computes them then
        inputs = (*tensors[: self.tensors], *ctx.constants)
        first = len(ctx.needs_input_grad) - len(inputs)
        needs = tuple(bool(ctx.needs_input_grad[first + index]) for index in self.differentiable)
        return inputs, tensors[self.tensors :], needs

    def traced_backward(self, ctx: Any, grads: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """The gradients by the backward operator, where a compiler or a double backward pass traces it."""
        inputs, outputs, needs = self.saved(ctx)
        found = self._backward_operator(*grads, *outputs, *inputs, list(needs))
        found = found if isinstance(found, tuple | list) else (found,)
        return self._place(found, needs, len(inputs))

    def _refuse(self, ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(f"bleugrad::{self.name} is differentiable once: double backward is not supported")


class _Rule(torch.autograd.Function):
    """The autograd rule of every operation outside compilers."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *inputs: Any) -> Any:
        outputs, ctx.kept, ctx.implementation = operation.forward(True, inputs)
        ctx.operation, ctx.constants = operation, inputs[operation.tensors :]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[: operation.tensors], *outputs)
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        operation = ctx.operation
        if not _any(grads):
            return (None,) * len(ctx.needs_input_grad)
        if torch.is_grad_enabled():
            return None, *operation.traced_backward(ctx, grads)
        inputs, outputs, needs = operation.saved(ctx)
        kept, ctx.kept = ctx.kept, None
        found = operation.backward(ctx.implementation, kept, needs, grads, outputs, inputs)
        if operation.inplace is not None and inputs[operation.inplace]:
            inputs[0].detach()[:0].zero_()  # changes nothing, but tells autograd that the input was overwritten
        return None, *found


def _custom_op(name: str, function: Callable[..., Any], schema: str) -> Any:
    return torch.library.custom_op(f"bleugrad::{name}", function, mutates_args=(), schema=schema)


def _any(grads: tuple[Tensor | None, ...]) -> bool:
    """Whether a gradient reaches any output; implementations rely on it."""
    return any(grad is not None for grad in grads)


def _signature(results: list[str]) -> str:
    return results[0] if len(results) == 1 else f"({', '.join(results)})"


def _as_result(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)
