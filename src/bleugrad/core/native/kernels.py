"""The compiled kernels as functions of tensors, and when they may be used."""

import ctypes
import functools
import itertools
import math
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from bleugrad.core.native.build import library_path, switched_off

REAL = {torch.float32: "float", torch.float64: "double"}

THREAD_WORK = 2**18
"""How many numbers are worth a thread of their own."""

_POINTER, _INTEGER = ctypes.c_void_p, ctypes.c_int64

SIGNATURES: dict[str, tuple[int, int]] = {
    "exponentials": (5, 3),
    "scale_rows": (5, 3),
    "count_words": (1, 0),
    "segment_words": (1, 0),
    "sum_levels": (1, 0),
    "sum_levels_backward": (4, 0),
    "word_counts": (2, 2),
    "word_counts_backward": (3, 2),
    "word_products": (2, 2),
    "word_products_backward": (3, 2),
    "matches": (2, 2),
    "matches_backward": (5, 2),
    "bound": (3, 2),
    "bound_backward": (5, 2),
}
"""How many pointers and then integers each function takes."""

RESULTS: dict[str, Any] = {
    "exponentials": None,
    "scale_rows": None,
    "count_words": _INTEGER,
    "sum_levels": None,
    "sum_levels_backward": None,
    "word_products": None,
}
"""What they return, where it is not whether memory was short."""


class _Patterns(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("steps", "batch", "columns", "orders")),
        *((name, _POINTER) for name in ("units", "clips", "overlaps", "spans", "alive", "opening")),
    ]


class _Words(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("steps", "batch", "columns", "words", "step", "sentence")),
        *((name, _POINTER) for name in ("probs", "starts", "spans", "continued")),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [("steps", _INTEGER), ("batch", _INTEGER), ("opening", _POINTER), ("limits", _POINTER)]


class _Sums(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("problems", "numbers", "size", "levels")),
        *((name, _POINTER) for name in ("mass", "sums")),
    ]


class _Segments(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("batch", "several", "width", "most")),
        *((name, _POINTER) for name in ("ids", "lengths", "opens", "counts")),
        *((name, _POINTER) for name in ("starts", "spans", "numbers", "continued")),
    ]


def kernels_for(tensor: Tensor, dtype: torch.dtype | None = None) -> "Kernels | None":
    """The kernels for such a tensor, computing in ``dtype`` or its own, or None where torch operations have to do.

    That is on other devices, for other types than float32 and float64, inside transforms and while compilers trace,
    where no library can be built, and where the environment variable BLEUGRAD_KERNELS is 0.
    """
    dtype = dtype or tensor.dtype
    if tensor.device.type != "cpu" or dtype not in REAL or switched_off() or torch.compiler.is_compiling():
        return None
    if type(tensor) not in (Tensor, torch.nn.Parameter) or is_functorch_wrapped_tensor(tensor):
        return None
    return _load(REAL[dtype])


@functools.cache
def _load(real: str) -> "Kernels | None":
    path = library_path(real)
    if path is None:
        return None
    try:
        return Kernels(ctypes.CDLL(str(path)))
    except OSError:
        return None


class Kernels:
    """The functions of one library, for tensors of its type."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.functions: dict[str, Any] = {}
        for name, (pointers, integers) in SIGNATURES.items():
            function = self.functions[name] = getattr(library, name)
            function.argtypes = [_POINTER] * pointers + [_INTEGER] * integers
            function.restype = RESULTS.get(name, ctypes.c_int)

    def exponentials(self, logits: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """exp(logits - the row's maximum), 1 / its sum, and the softmax's sum over the chosen columns.

        ``logits`` (rows, V) in float32, ``chosen`` (V,) bool.
        """
        logits, chosen, (rows, size) = logits.contiguous(), chosen.contiguous(), logits.shape
        out, inverse, picked = torch.empty_like(logits), logits.new_empty(rows), logits.new_empty(rows)
        self._rows("exponentials", rows, size, _addresses(logits, chosen, out, inverse, picked))
        return out, inverse, picked

    def scale_rows(self, values: Tensor, chosen: Tensor, inverse: Tensor, scale: Tensor, more: Tensor) -> None:
        """Multiply (rows, V) by inverse * (scale + more where chosen), numbers of each row, in place; float32."""
        inputs = _contiguous(chosen, inverse, scale, more)
        self._rows("scale_rows", values.shape[0], values.shape[1], _addresses(values, *inputs))

    def _rows(self, name: str, rows: int, size: int, pointers: list[int | None]) -> None:
        function = self.functions[name]
        _in_threads(rows, rows * size, lambda first, last: function(*pointers, first, last, size))

    def sum_levels(self, mass: Tensor, levels: int) -> tuple[Tensor, Tensor]:
        """Neighbours convolved, so often: (1, P, B, S) to (1, P, fewer, more), and all levels' results in a line."""
        mass, shapes = mass.contiguous(), _level_shapes(mass.shape, levels)
        sums = mass.new_empty(sum(math.prod(shape) for shape in shapes))
        problem = _Sums(*mass.shape[1:], levels, *_addresses(mass, sums))
        self.functions["sum_levels"](ctypes.addressof(problem))
        return sums[-math.prod(shapes[-1]) :].view(shapes[-1]), sums

    def sum_levels_backward(self, grad: Tensor, mass: Tensor, levels: int, sums: Tensor) -> Tensor:
        """The cotangent of the masses from that of what :meth:`sum_levels` returns first."""
        mass, grad = mass.contiguous(), grad.contiguous()
        grad_mass, room = torch.empty_like(mass), sums.new_empty(sums.numel() - grad.numel())
        problem = _Sums(*mass.shape[1:], levels, *_addresses(mass, sums))
        self.functions["sum_levels_backward"](ctypes.addressof(problem), *_addresses(grad, grad_mass, room))
        return grad_mass

    def segment_words(
        self, ids: Tensor, lengths: Tensor, opens: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """``starts``, ``spans``, ``numbers`` and ``continued`` (B, K, W) of the words, and how many there are (B, K).

        ``ids`` (B, K, R) and ``lengths`` (B, K) are references; ``opens`` (V,) bool says which tokens open a word.
        """
        ids, lengths, opens = ids.contiguous(), lengths.contiguous(), opens.contiguous()
        counts = torch.empty_like(lengths)
        problem = _Segments(*ids.shape, 0, *_addresses(ids, lengths, opens, counts))
        problem.most = max(1, self.functions["count_words"](ctypes.addressof(problem)))
        shape = (*lengths.shape, problem.most)
        starts, spans, numbers = ids.new_empty(3, *shape).unbind()
        continued = torch.empty(shape, dtype=torch.bool)
        problem.starts, problem.spans, problem.numbers, problem.continued = _addresses(
            starts, spans, numbers, continued
        )
        if self.functions["segment_words"](ctypes.addressof(problem)):
            raise MemoryError("no memory to number the words of the references")
        return starts, spans, numbers, continued, counts

    def word_counts(self, opening: Tensor, limits: Tensor) -> Tensor:
        """Probability of each number of words, (B, T + 1), where token t opens one with probability (T, B).

        ``limits`` (B,) long is the number of tokens.
        """
        steps, batch = opening.shape
        probs = opening.new_empty(batch, steps + 1)
        self._sentences("word_counts", _counts(opening, limits), [probs], steps * probs.numel())
        return probs

    def word_counts_backward(self, grad: Tensor, opening: Tensor, limits: Tensor) -> Tensor:
        """The cotangent of ``opening``."""
        grad, grad_opening = grad.contiguous(), opening.new_empty(opening.shape)
        work = opening.shape[0] * grad.numel()
        self._sentences("word_counts_backward", _counts(opening, limits), [grad, grad_opening], work)
        return grad_opening

    def word_products(self, probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
        """Probability that the window ending at t is each word: (T, B, L) to (T, B, W)."""
        words = _words(probs, starts, spans, continued)
        products = probs.new_empty(*probs.shape[:2], starts.shape[1])
        self._sentences("word_products", words, [products], products.numel())
        return products

    def word_products_backward(
        self, grad: Tensor, probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor
    ) -> Tensor:
        """The cotangent of ``probs``."""
        words = _words(probs, starts, spans, continued)
        grad_probs = torch.zeros_like(words.inputs[0])  # which keeps its strides
        self._sentences("word_products_backward", words, [grad.contiguous(), grad_probs], grad.numel())
        return grad_probs

    def matches(
        self,
        units: Tensor,
        alive: Tensor | None,
        opening: Tensor | None,
        clips: Tensor,
        overlaps: Tensor,
        spans: Tensor | None,
    ) -> Tensor:
        """Expected new matches at each position: (T, B, L) to (T, B, N)."""
        new = units.new_zeros(*units.shape[:2], clips.shape[1])
        patterns = _patterns(units, clips, overlaps, spans, alive, opening)
        self._sentences("matches", patterns, [new], units.numel() * clips.shape[1])
        return new

    def matches_backward(
        self,
        grad: Tensor,
        units: Tensor,
        alive: Tensor | None,
        opening: Tensor | None,
        clips: Tensor,
        overlaps: Tensor,
        spans: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The cotangents of ``units``, ``alive`` and ``opening``, 0 for what is not given."""
        cells = units.shape[:2]
        cotangents = (units.new_zeros(units.shape), units.new_zeros(cells), units.new_zeros(cells))
        patterns = _patterns(units, clips, overlaps, spans, alive, opening)
        self._sentences("matches_backward", patterns, [grad.contiguous(), *cotangents], units.numel() * clips.shape[1])
        return cotangents

    def bound(self, units: Tensor, boundary: Tensor | None, clips: Tensor, spans: Tensor | None) -> Tensor:
        """The paper's formula for a fixed length: (T, B, L) to (B, N)."""
        matches = units.new_zeros(clips.shape[:2])
        patterns = _patterns(units, clips, None, spans, None, None)
        self._sentences("bound", patterns, [*_contiguous(boundary), matches], units.numel() * clips.shape[1])
        return matches

    def bound_backward(
        self, grad: Tensor, units: Tensor, boundary: Tensor | None, clips: Tensor, spans: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The cotangents of ``units`` and ``boundary``, 0 where that is not given."""
        cotangents = (units.new_zeros(units.shape), units.new_zeros(units.shape[:2]))
        patterns = _patterns(units, clips, None, spans, None, None)
        given = _contiguous(boundary, grad)
        self._sentences("bound_backward", patterns, [*given, *cotangents], units.numel() * clips.shape[1])
        return cotangents

    def _sentences(
        self, name: str, problem: "_Patterns | _Words | _Counts", tensors: list[Tensor | None], work: int
    ) -> None:
        """Call a function for all sentences."""
        function, pointers = self.functions[name], [ctypes.addressof(problem), *_addresses(*tensors)]
        failed = _in_threads(problem.batch, work, lambda first, last: function(*pointers, first, last))
        if failed:
            raise MemoryError(f"the kernel {name} found no memory for its working arrays")


def _addresses(*tensors: Tensor | None) -> list[int | None]:
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def _level_shapes(shape: tuple[int, ...], levels: int) -> list[tuple[int, int, int, int]]:
    """The shapes of the levels above masses (1, P, B, S)."""
    parts, problems, numbers, size = shape
    shapes = []
    for _ in range(levels):
        numbers, size = (numbers + 1) // 2, 2 * size - 1
        shapes.append((parts, problems, numbers, size))
    return shapes


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _patterns(
    units: Tensor,
    clips: Tensor,
    overlaps: Tensor | None,
    spans: Tensor | None,
    alive: Tensor | None,
    opening: Tensor | None,
) -> _Patterns:
    steps, batch, columns = units.shape
    floats = (None if given is None else given.to(units.dtype) for given in (alive, opening))
    inputs = _contiguous(units, clips, overlaps, spans, *floats)
    patterns = _Patterns(steps, batch, columns, clips.shape[1], *_addresses(*inputs))
    patterns.inputs = inputs  # which live as long as their addresses are used
    return patterns


def _counts(opening: Tensor, limits: Tensor) -> _Counts:
    inputs = _contiguous(opening, limits)
    counts = _Counts(*opening.shape, *_addresses(*inputs))
    counts.inputs = inputs
    return counts


def _words(probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> _Words:
    if probs.stride(2) != 1 or not probs.transpose(0, 1).is_contiguous():
        probs = probs.contiguous()
    inputs = [probs, *_contiguous(starts, spans, continued)]
    words = _Words(*probs.shape, starts.shape[1], *probs.stride()[:2], *_addresses(*inputs))
    words.inputs = inputs
    return words


def _in_threads(count: int, work: int, call: Callable[[int, int], int | None]) -> bool:
    """Call for ranges that make up 0..count, in as many threads as torch uses; whether any result was not 0.

    The functions are called without the interpreter's lock, so threads of Python do.
    """
    threads = max(1, min(torch.get_num_threads(), count, work // THREAD_WORK))
    if threads == 1:
        return bool(call(0, count))
    results: list[int | None] = []
    edges = [count * part // threads for part in range(threads + 1)]
    others = [
        threading.Thread(target=lambda ends=ends: results.append(call(*ends))) for ends in itertools.pairwise(edges[1:])
    ]
    for other in others:
        other.start()
    results.append(call(edges[0], edges[1]))
    for other in others:
        other.join()
    return any(results)
