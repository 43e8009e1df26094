"""The n-grams of a batch as the C functions read them."""

from bleugrad.backends.c.library import Problem, fields

CHUNK = 256
"""Reference columns of a sentence that a thread takes at a time, a multiple of the lanes in ``common.h``."""


class Patterns(Problem):
    """See ``windows.h`` for the shapes. ``begin`` and ``apart`` say which chunks of columns a call works on."""

    _fields_ = fields("steps batch columns orders chunk apart begin", "units clips overlaps spans alive opening")
