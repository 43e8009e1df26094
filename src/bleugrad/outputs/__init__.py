"""What a model emits, and the expected statistics of it."""
