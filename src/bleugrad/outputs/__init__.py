"""What a model emits, and the expected statistics of it. A new kind of output subclasses one of these classes."""

from bleugrad.outputs.graph import path_log_probs
from bleugrad.outputs.output import Output
from bleugrad.outputs.rows import RowOutput, TokenProbabilities

__all__ = ["Output", "RowOutput", "TokenProbabilities", "path_log_probs"]
