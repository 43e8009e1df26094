"""The translation model of the paper, how its decoder is fed, and search."""
