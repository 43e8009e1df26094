"""The compiled libraries: where they are, when they may be used, and how their functions are called."""

import ctypes
import functools
import os
import struct
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.fingerprint import fingerprint

SWITCH = "BLEUGRAD_KERNELS"
"""Set to 0, this environment variable turns the kernels off."""

FOLDER = Path(__file__).parent
"""Where the build of the package puts the libraries."""

REAL = {torch.float32: "float", torch.float64: "double"}

THREAD_WORK = 2**15
"""How many numbers are worth a thread of their own."""

POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64

PARTED = (
    "row_probabilities",
    "row_probabilities_backward",
    "frame_probabilities",
    "frame_probabilities_backward",
    "counted_rows",
    "counted_rows_backward",
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


def fields(integers: str, pointers: str, numbers: str = "") -> list[tuple[str, Any]]:
    """The fields of a :class:`Problem`, in the order of the C struct; ``numbers`` are of the C type double."""
    kinds = ((integers, INTEGER), (pointers, POINTER), (numbers, ctypes.c_double))
    return [(name, kind) for names, kind in kinds for name in names.split()]


def library_for(tensor: Tensor, dtype: torch.dtype | None = None) -> "Library | None":
    """The library that computes in ``dtype``, or in the type of the tensor; None where there is none.

    That is on other devices, for other types than float32 and float64, where the libraries cannot be used, and where
    the environment variable BLEUGRAD_KERNELS is 0.
    """
    dtype = dtype or tensor.dtype
    if tensor.device.type != "cpu" or dtype not in REAL or os.environ.get(SWITCH) == "0":
        return None
    return _libraries().get(REAL[dtype])


@functools.cache
def _libraries() -> dict[str, "Library"]:
    """The library of each C type; none, with one warning, if any cannot be used."""
    instead = f"slower torch operations take their place ({SWITCH}=0 chooses them without this warning)"
    try:
        return {real: Library(_open(_path(real))) for real in REAL.values()}
    except FileNotFoundError:
        found = "no compiled kernels: bleugrad was built without a C compiler; install one, then bleugrad again"
    except (OSError, AttributeError, ValueError) as error:  # it does not load, or lacks a function
        found = f"the compiled kernels cannot be used: {error}; install bleugrad again (in a clone: pip install -e .)"
    warnings.warn(f"{found}; {instead}", RuntimeWarning, stacklevel=2)
    return {}


def _path(real: str) -> Path:
    """The library for what torch finds the processor capable of, which ATEN_CPU_CAPABILITY may lower."""
    path = FOLDER / f"{real}_{torch.backends.cpu.get_cpu_capability().lower()}.so"
    return path if path.exists() else FOLDER / f"{real}_default.so"


def _open(path: Path) -> ctypes.CDLL:
    _check_size(path)
    library = ctypes.CDLL(str(path))
    found = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "fingerprint")))
    if found != fingerprint().encode():
        raise OSError(f"{path} was not compiled from these sources")
    return library


def _check_size(path: Path) -> None:
    """Refuse an ELF file that ends before its last part, the table of sections: Linux would map it, and crash later."""
    with path.open("rb") as file:
        head, size = file.read(64), file.seek(0, os.SEEK_END)
    if head.startswith(b"\x7fELF") and len(head) == 64:
        (start,), (each, number) = struct.unpack_from("=Q", head, 40), struct.unpack_from("=HH", head, 58)
        if size < start + each * number:
            raise OSError(f"{path} is cut off")


@functools.cache
def _team() -> Any:
    """The function that starts torch's own threads, from the OpenMP runtime that torch has loaded; None elsewhere.

    No library is linked with OpenMP: a second runtime beside torch's would compete with it, and may end the process.
    """
    torch_library = ctypes.CDLL(torch._C.__file__) if sys.platform == "linux" else None
    found = getattr(torch_library, "GOMP_parallel", None)
    return found and ctypes.cast(found, POINTER)


class Library:
    """The functions that were compiled for one type."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._in_parts = library.in_parts
        self._in_parts.argtypes = [POINTER, POINTER, INTEGER, INTEGER, POINTER]
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
        if self._in_parts(self._parted[name], array, parts, threads, _team()):
            raise MemoryError(f"out of memory in the compiled function {name}")


def run(
    name: str,
    like: Tensor,
    kind: Any,
    sizes: tuple[int | float, ...],
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


def make_problem(kind: Any, sizes: tuple[int | float, ...], *tensors: Tensor | None) -> Any:
    """A :class:`Problem` of some kind, with its sizes and the addresses of its tensors, copied if not contiguous."""
    inputs = [None if tensor is None else tensor.contiguous() for tensor in tensors]
    problem = kind(*sizes, *addresses(*inputs))
    problem.inputs = inputs
    return problem
