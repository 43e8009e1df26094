"""Where operations are computed: torch operations everywhere, compiled C code on CPUs, Triton kernels on GPUs.

:mod:`~bleugrad.backends.operations` lists the operations with their signatures. Each folder here is a backend. Each of
its files implements the operation of that name, or is a part that several operations share. The torch backend defines
every operation. The others exist where a kernel is faster: a device without them is slower, and has the same results.
:func:`last_used` says which backend was used.
"""

from bleugrad.backends.dispatch import last_used

__all__ = ["last_used"]
