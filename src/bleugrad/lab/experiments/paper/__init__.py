"""The paper's translation experiment: cross-entropy first, then one objective or another from the same weights."""
