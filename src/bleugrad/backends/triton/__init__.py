"""Triton kernels for GPUs: one launch forward and one backward for each operation.

They read float32, bfloat16 and float16 and compute in float32. Other types are computed by torch operations.
"""
