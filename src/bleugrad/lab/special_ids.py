"""Ids that every vocabulary reserves; they are part of a trained model and never change."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Their tokens, by id."""
