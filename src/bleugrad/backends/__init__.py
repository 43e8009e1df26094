"""Where operations are computed: torch operations everywhere, compiled C code on CPUs, Triton kernels on GPUs.

:mod:`~bleugrad.backends.operations` lists the operations with their signatures. Each folder here is a backend, and each
of its files implements the operation of that name. :func:`last_used` says which backend was used.
"""

from bleugrad.backends.operation import last_used

__all__ = ["last_used"]
