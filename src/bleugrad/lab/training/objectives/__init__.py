"""Objectives: their settings, and from a batch to the loss."""
