"""A run directory: how a result was made, and the result."""
