"""The reference implementation of every operation, in torch operations, for any device."""
