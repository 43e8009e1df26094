"""The compiled library: when it may be used, and how its functions are called."""

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.build import SWITCH, library_path, warn_once

REAL = {torch.float32: "float", torch.float64: "double"}

THREAD_WORK = 2**15
"""How many numbers are worth a thread of their own."""

POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64

PARTED = (
    "counted_rows",
    "counted_rows_backward",
    "exponentials",
    "scale_rows",
    "frame_exponentials",
    "frame_gradient",
    "frame_matches",
    "frame_matches_backward",
    "path_matches",
    "path_matches_backward",
    "word_counts",
    "word_counts_backward",
    "word_products",
    "word_products_backward",
    "matches",
    "matches_backward",
    "bound",
    "bound_backward",
)
"""Functions that work on some rows or sentences per call, for :meth:`Library.run`."""

WHOLE = ("ngram_clips", "segment_words", "sum_levels", "sum_levels_backward")
"""Functions that work on everything at once, for :meth:`Library.call`."""


class Problem(ctypes.Structure):
    """The input of a C function. ``inputs`` keeps the tensors alive as long as their addresses are used."""

    inputs: list[Tensor | None]


def fields(integers: str, pointers: str) -> list[tuple[str, Any]]:
    """The fields of a :class:`Problem`, in the order of the C struct."""
    return [*((name, INTEGER) for name in integers.split()), *((name, POINTER) for name in pointers.split())]


def library_for(tensor: Tensor, dtype: torch.dtype | None = None) -> "Library | None":
    """The library that computes in ``dtype``, or in the type of the tensor; None where there is none.

    That is on other devices, for other types than float32 and float64, where no library can be built, and where the
    environment variable BLEUGRAD_KERNELS is 0.
    """
    dtype = dtype or tensor.dtype
    if tensor.device.type != "cpu" or dtype not in REAL or os.environ.get(SWITCH) == "0":
        return None
    return _load(REAL[dtype])


@functools.cache
def _load(real: str) -> "Library | None":
    path = library_path(real)
    if path is None:
        return None
    try:
        return Library(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:  # it does not load, or lacks a function
        warn_once(f"the compiled kernels cannot be loaded, slower torch operations take their place: {error}")
        return None


class Library:
    """The functions that were compiled for one type."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._in_parts = library.in_parts
        self._in_parts.argtypes = [POINTER, POINTER, INTEGER, INTEGER]
        self._parted = {name: ctypes.cast(getattr(library, name), POINTER) for name in PARTED}
        self._whole = {name: getattr(library, name) for name in WHOLE}

    def call(self, name: str, problem: Problem, *tensors: Tensor | None) -> int:
        """Call a function once with the problem and the addresses of tensors, and return its result."""
        return int(self._whole[name](ctypes.byref(problem), *map(POINTER, addresses(*tensors))))

    def run(self, name: str, problem: Any, work: int, *tensors: Tensor | None, parts: int | None = None) -> None:
        """Call a function for all parts, by default ``problem.batch`` sentences or rows, in threads of torch.

        ``work`` is how many numbers it computes; small problems run in one thread. Tensors that are written to must be
        contiguous.
        """
        parts = problem.batch if parts is None else parts
        inputs = [None if tensor is None else tensor.contiguous() for tensor in tensors]
        pointers = [ctypes.addressof(problem), *addresses(*inputs)]
        threads = max(1, min(torch.get_num_threads(), parts, work // THREAD_WORK))
        array = (POINTER * len(pointers))(*pointers)
        if self._in_parts(self._parted[name], array, parts, threads):
            raise MemoryError(f"out of memory in the compiled function {name}")


def run(
    name: str,
    like: Tensor,
    kind: Any,
    sizes: tuple[int, ...],
    inputs: Sequence[Tensor | None],
    *written: Tensor | None,
    work: int,
    parts: int | None = None,
) -> bool:
    """Run a function of the library on a problem, see :func:`make_problem` and :meth:`Library.run`.

    Returns False, and does nothing, if there is no library for the type of ``like``.
    """
    library = library_for(like)
    if library is None:
        return False
    library.run(name, make_problem(kind, sizes, *inputs), work, *written, parts=parts)
    return True


def call(name: str, kind: Any, sizes: tuple[int, ...], *tensors: Tensor | None) -> bool:
    """Call a function of integers once, see :func:`make_problem`. Returns False if there is no library.

    Raises MemoryError if the function does not return 0.
    """
    library = library_for(tensors[0], torch.float32) if tensors[0] is not None else None
    if library is None:
        return False
    if library.call(name, make_problem(kind, sizes, *tensors)):
        raise MemoryError(f"out of memory in the compiled function {name}")
    return True


def addresses(*tensors: Tensor | None) -> list[int | None]:
    """The addresses of contiguous tensors, None for None."""
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def make_problem(kind: Any, sizes: tuple[int, ...], *tensors: Tensor | None) -> Any:
    """A :class:`Problem` of some kind, with its sizes and the addresses of its tensors, copied if not contiguous."""
    inputs = [None if tensor is None else tensor.contiguous() for tensor in tensors]
    problem = kind(*sizes, *addresses(*inputs))
    problem.inputs = inputs
    return problem
