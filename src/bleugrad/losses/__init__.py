"""Losses to train with: all are called as ``loss(logits, labels)``, and 0 is perfect."""
