"""Kernels in C for CPUs: they read memory once where torch operations read it several times. See ``hatch_build.py``."""
