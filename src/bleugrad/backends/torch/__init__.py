"""The definition of every operation, in torch operations for any device.

Values are not read back from asynchronous devices (GPUs), so there is no host synchronisation. The recursions walk over
positions in Python, with a few operations for each of them: slow on a GPU, which has Triton kernels for that. Memory is
O(T B L), times N for the windows of all orders.
"""
