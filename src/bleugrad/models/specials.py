"""Ids every vocabulary reserves; they are part of a trained model and never change."""

PAD = 0
UNK = 1
BOS = 2
EOS = 3
