"""Kernels in C for CPUs: they read memory once where torch operations read it several times. Built on demand."""
