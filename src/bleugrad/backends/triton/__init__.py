"""Triton kernels for GPUs: one launch for each operation, forward and backward, or a few.

They read float32, bfloat16 and float16 and compute in float32. Other types go to the torch operations.
"""
