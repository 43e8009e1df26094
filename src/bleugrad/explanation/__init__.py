"""What the loss sees of one sentence: numbers, a text for the terminal, and an interactive page."""
