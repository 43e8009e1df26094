"""The n-grams of a batch as the C functions read them."""

from bleugrad.backends.c.library import Problem, fields


class Patterns(Problem):
    """See ``windows.h`` for the shapes."""

    _fields_ = fields("steps batch columns orders", "units clips overlaps spans alive opening")
