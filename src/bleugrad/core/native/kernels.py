"""The compiled kernels as functions of tensors, and when they may be used."""

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from bleugrad.core.native.build import library_path, switched_off

REAL = {torch.float32: "float", torch.float64: "double"}

THREAD_WORK = 2**15
"""How many numbers are worth a thread of their own."""

CHUNK = 256
"""Reference columns of a sentence that a thread takes at a time, a multiple of the kernels' lanes."""

_POINTER, _INTEGER = ctypes.c_void_p, ctypes.c_int64

IN_PARTS = (
    "exponentials",
    "scale_rows",
    "word_counts",
    "word_counts_backward",
    "word_products",
    "word_products_backward",
    "matches",
    "matches_backward",
    "bound",
    "bound_backward",
)
"""Functions that work off some rows or sentences each time, for ``in_parts`` to call."""

SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "in_parts": ([_POINTER, _POINTER, _INTEGER, _INTEGER], ctypes.c_int),
    "count_words": ([_POINTER], _INTEGER),
    "segment_words": ([_POINTER], ctypes.c_int),
    "sum_levels": ([_POINTER], None),
    "sum_levels_backward": ([_POINTER] * 4, None),
}
"""What the others take and return."""


class _Rows(ctypes.Structure):
    _fields_ = [("batch", _INTEGER), ("size", _INTEGER)]


class _Patterns(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("steps", "batch", "columns", "orders", "chunk", "apart", "begin")),
        *((name, _POINTER) for name in ("units", "clips", "overlaps", "spans", "alive", "opening")),
    ]


class _Words(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("steps", "batch", "columns", "words", "step", "sentence")),
        *((name, _POINTER) for name in ("probs", "starts", "spans", "continued")),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("steps", "batch")),
        *((name, _POINTER) for name in ("opening", "limits", "alive", "stop")),
    ]


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
        self.parts = {name: ctypes.cast(getattr(library, name), _POINTER) for name in IN_PARTS}
        self.functions: dict[str, Any] = {}
        for name, (arguments, result) in SIGNATURES.items():
            function = self.functions[name] = getattr(library, name)
            function.argtypes, function.restype = arguments, result

    def exponentials(self, logits: Tensor, chosen: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """exp(logits - the row's maximum), 1 / its sum, and the softmax's sum over the chosen columns, if there are.

        ``logits`` (rows, V) in float32, ``chosen`` (V,) bool; without it the last result is empty.
        """
        logits, (rows, size) = logits.contiguous(), logits.shape
        chosen = None if chosen is None else chosen.float()
        out, inverse = torch.empty_like(logits), logits.new_empty(rows)
        picked = logits.new_empty(0 if chosen is None else rows)
        self._in_parts("exponentials", _Rows(rows, size), [logits, chosen, out, inverse, picked], rows * size)
        return out, inverse, picked

    def scale_rows(
        self, values: Tensor, inverse: Tensor, scale: Tensor, chosen: Tensor | None = None, more: Tensor | None = None
    ) -> None:
        """Multiply (rows, V) by inverse * (scale + more where chosen), numbers of each row, in place; float32."""
        inputs = _contiguous(inverse, scale, None if more is None else chosen, more)
        self._in_parts("scale_rows", _Rows(*values.shape), [values, *inputs], values.numel())

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

    def word_counts(self, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None) -> Tensor:
        """Probability of each number of words, (B, T + 1), where token t opens one with probability (T, B).

        ``limits`` (B,) long is the number of tokens, of which ``alive`` (T, B) and ``stop`` (B, T + 1) may leave fewer.
        """
        steps, batch = opening.shape
        probs = opening.new_empty(batch, steps + 1)
        self._in_parts("word_counts", _counts(opening, limits, alive, stop), [probs], steps * probs.numel())
        return probs

    def word_counts_backward(
        self, grad: Tensor, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The cotangents of ``opening``, ``alive`` and ``stop``, None for what is not given."""
        counts = _counts(opening, limits, alive, stop)
        cotangents = tuple(None if of is None else of.new_empty(of.shape) for of in (opening, alive, stop))
        work = opening.shape[0] * grad.numel()
        self._in_parts("word_counts_backward", counts, [grad.contiguous(), *cotangents], work)
        return cotangents

    def word_products(self, probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
        """Probability that the window ending at t is each word: (T, B, L) to (T, B, W)."""
        words = _words(probs, starts, spans, continued)
        products = probs.new_empty(*probs.shape[:2], starts.shape[1])
        self._in_parts("word_products", words, [products], products.numel())
        return products

    def word_products_backward(
        self, grad: Tensor, probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor
    ) -> Tensor:
        """The cotangent of ``probs``."""
        words = _words(probs, starts, spans, continued)
        grad_probs = torch.zeros_like(words.inputs[0])  # which keeps its strides
        self._in_parts("word_products_backward", words, [grad.contiguous(), grad_probs], grad.numel())
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
        patterns = _patterns(units, clips, overlaps, spans, alive, opening)
        new = units.new_zeros(_chunks(patterns), *units.shape[:2], clips.shape[1])
        self._in_chunks("matches", patterns, [new], 1)
        return _sum_of(new)

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
        patterns = _patterns(units, clips, overlaps, spans, alive, opening)
        grad_units = units.new_zeros(units.shape)
        cells = (_chunks(patterns), *units.shape[:2])
        grad_alive, grad_opening = units.new_zeros(cells), units.new_zeros(cells)  # an operator's results share nothing
        tensors = [grad.contiguous(), grad_units, grad_alive, grad_opening]
        self._in_chunks("matches_backward", patterns, tensors, 2)
        return grad_units, _sum_of(grad_alive), _sum_of(grad_opening)

    def bound(self, units: Tensor, boundary: Tensor | None, clips: Tensor, spans: Tensor | None) -> Tensor:
        """The paper's formula for a fixed length: (T, B, L) to (B, N)."""
        matches = units.new_zeros(clips.shape[:2])
        patterns = _patterns(units, clips, None, spans, None, None)
        self._in_parts("bound", patterns, [*_contiguous(boundary), matches], units.numel() * clips.shape[1])
        return matches

    def bound_backward(
        self, grad: Tensor, units: Tensor, boundary: Tensor | None, clips: Tensor, spans: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The cotangents of ``units`` and ``boundary``, 0 where that is not given."""
        cotangents = (units.new_zeros(units.shape), units.new_zeros(units.shape[:2]))
        patterns = _patterns(units, clips, None, spans, None, None)
        given = _contiguous(boundary, grad)
        self._in_parts("bound_backward", patterns, [*given, *cotangents], units.numel() * clips.shape[1])
        return cotangents

    def _in_parts(
        self,
        name: str,
        problem: "_Rows | _Patterns | _Words | _Counts",
        tensors: Sequence[Tensor | None],
        work: int,
        parts: int | None = None,
    ) -> None:
        """Call a function for all sentences, rows or parts, in as many of torch's threads as there is work for."""
        pointers = [ctypes.addressof(problem), *_addresses(*tensors)]
        parts = problem.batch if parts is None else parts
        threads = max(1, min(torch.get_num_threads(), parts, work // THREAD_WORK))
        array = (_POINTER * len(pointers))(*pointers)
        if self.functions["in_parts"](self.parts[name], array, parts, threads):
            raise MemoryError(f"the kernel {name} found no memory for its working arrays")

    def _in_chunks(self, name: str, patterns: _Patterns, tensors: Sequence[Tensor | None], apart: int) -> None:
        """Call a function for all chunks of columns; ``apart`` is 2 where it may not work on neighbours at once."""
        chunks, work = _chunks(patterns), patterns.steps * patterns.batch * patterns.columns * patterns.orders
        patterns.apart = apart
        for begin in range(min(apart, chunks)):
            patterns.begin = begin
            parts = patterns.batch * len(range(begin, chunks, apart))
            self._in_parts(name, patterns, tensors, work // apart, parts)


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
    patterns = _Patterns(steps, batch, columns, clips.shape[1], CHUNK, 1, 0, *_addresses(*inputs))
    patterns.inputs = inputs  # which live as long as their addresses are used
    return patterns


def _chunks(patterns: _Patterns) -> int:
    return max(1, -(-int(patterns.columns) // CHUNK))


def _sum_of(chunks: Tensor) -> Tensor:
    return chunks[0] if chunks.shape[0] == 1 else chunks.sum(0)


def _counts(opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None) -> _Counts:
    inputs = _contiguous(opening, limits, alive, stop)
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
