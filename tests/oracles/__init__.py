"""Naive implementations to test against: loops, counters and full enumeration. They share no code with src.

A hypothesis distribution is a (T, V) array of independent rows; a reference is a list of token ids, and every
function takes the list of a sentence's references. Nothing here imports torch or bleugrad.
"""
