"""Hypothesis lengths, fixed or random, in tokens or words."""
