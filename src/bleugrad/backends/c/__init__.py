"""Kernels in C for what torch operations cannot do in one pass; optional, and built on demand."""
