"""The compiled libraries: where they are, when they may be used, and how their functions are called."""

import ctypes
import functools
import os
import struct
import sys
import warnings
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


def library_for(tensor: Tensor, dtype: torch.dtype | None = None) -> "Library | None":
    """The library that computes in ``dtype``, or in the type of the tensor; None where there is none.

    That is on other devices, for other types than float32 and float64, where the libraries cannot be used, and where
    the environment variable BLEUGRAD_KERNELS is 0.
    """
    real = REAL.get(dtype or tensor.dtype)
    return _libraries().get(real) if real and tensor.is_cpu and os.environ.get(SWITCH) != "0" else None


@functools.cache
def _libraries() -> dict[str, "Library"]:
    """The library of each C type; none, with one warning, if any cannot be used."""
    instead = f"slower torch operations take their place ({SWITCH}=0 chooses them without this warning)"
    try:
        return {real: Library(_open(_path(real))) for real in REAL.values()}
    except FileNotFoundError:
        found = "no compiled kernels: bleugrad was built without a C compiler; install one, then bleugrad again"
    except (OSError, AttributeError, ValueError) as error:  # it does not load, or is another library
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
    return found and ctypes.cast(found, ctypes.c_void_p)


class Library:
    """The functions that were compiled for one type."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library, self._functions = library, dict[str, tuple[Any, Any]]()
        self._in_parts = library.in_parts
        self._in_parts.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]

    def run(self, name: str, parts: int, work: int, *fields: float) -> None:
        """Call a function for all parts of a problem, given by the fields of its struct; see :func:`run`."""
        if name not in self._functions:
            function = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
            kinds = ["d" if isinstance(field, float) else "q" for field in fields]
            self._functions[name] = function, struct.Struct("".join(kinds)).pack
        function, pack = self._functions[name]
        threads = max(1, min(torch.get_num_threads(), parts, work // THREAD_WORK))
        if self._in_parts(function, pack(*fields), parts, threads, _team()):
            raise MemoryError(f"out of memory in the compiled function {name}")


def run(
    name: str,
    sizes: tuple[int | float, ...],
    *tensors: Tensor | None,
    parts: int,
    work: int,
    dtype: torch.dtype | None = None,
) -> bool:
    """Call a C function for all ``parts``, sentences or rows, in threads of torch.

    Returns False, and does nothing, if there is no library for the first tensor; see :func:`library_for`.

    Args:
        name: of the function.
        sizes: the first fields of its struct. A float is of the C type double.
        tensors: their addresses are the other fields. Inputs that are not contiguous are copied; tensors that are
            written to must be contiguous.
        parts: how many there are.
        work: how many numbers it computes; small problems run in one thread.
        dtype: what it computes in, if that is not the type of the first tensor.
    """
    library = library_for(tensors[0], dtype)  # type: ignore[arg-type]
    if library is None:
        return False
    given = [None if tensor is None else tensor.contiguous() for tensor in tensors]  # as long as C uses addresses
    library.run(name, parts, work, *sizes, *[0 if tensor is None else tensor.data_ptr() for tensor in given])
    return True
