"""The n-grams of a batch as the C functions read them."""

from bleugrad.backends.c.library import Problem, fields

CHUNK = 256
"""Reference columns of a sentence that a thread takes at a time, a multiple of the lanes in ``common.h``."""


class NgramProblem(Problem):
    """The struct ``Patterns`` of ``windows.h``. ``begin`` and ``apart`` select the chunks of columns of a call."""

    _fields_ = fields("steps batch columns orders chunk apart begin", "units clips overlaps spans alive opening")
