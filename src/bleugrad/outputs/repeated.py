"""The output of each sentence repeated, to be compared with several targets; its logits are read once."""

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.matches.frames import frame_statistics
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.paths import path_statistics
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.ctc import CTC
from bleugrad.outputs.graph import Graph
from bleugrad.outputs.output import Output, UnalignedOutput
from bleugrad.outputs.rows import RowOutput, TokenProbabilities
from bleugrad.references.targets import Targets


class RepeatedRows(RowOutput):
    """Rows of B sentences, ``times`` of each side by side. O(B T V) time, and O(B K T L) for the probabilities."""

    def __init__(self, output: RowOutput, times: int) -> None:
        self.shape, self.device, self.name = _repeated(output, times), output.device, output.name
        self.output, self.times = output, times

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if targets is not None:
            raise TypeError("labels have no place in repeated rows; expected no cross-entropy")
        found = self.output.token_probabilities(_side_by_side(ids, self.times), None, word_start)
        opening = found.opening if word_start is None else found.opening.repeat_interleave(self.times, 0)
        return TokenProbabilities(_apart(found.match_probs, self.times), found.target_log_probs, opening)


class _RepeatedUnaligned(UnalignedOutput):
    """What CTC frames and graphs share."""

    def __init__(self, output: CTC | Graph, times: int) -> None:
        self.shape, self.device, self.name = _repeated(output, times), output.device, output.name
        self.lengths = None if output.lengths is None else output.lengths.repeat_interleave(times)
        self.output, self.times = output, times


class RepeatedFrames(_RepeatedUnaligned):
    """CTC frames of B sentences, ``times`` of each side by side."""

    def __init__(self, output: CTC, times: int) -> None:
        super().__init__(output, times)
        self.blank_id = output.blank_id

    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """See :meth:`Output.statistics`."""
        self.check_options(targets)
        ids = torch.nn.functional.pad(_side_by_side(targets.columns, self.times), (0, 1), value=self.blank_id)
        counted = None if targets.mask is None else targets.mask[:: self.times]
        asked = (ids, counted, self.blank_id, self.output.sharpness, False)
        found, again, _ = operations.frame_probabilities(self.output.logits, *asked)
        blank = found[..., -1:].repeat_interleave(self.times, 0)
        match_probs = torch.cat([_apart(found[..., :-1], self.times), blank], 2)
        return frame_statistics(match_probs, again.repeat_interleave(self.times, 0), targets, method)


class RepeatedGraph(_RepeatedUnaligned):
    """Graphs of B sentences, ``times`` of each side by side."""

    def __init__(self, output: Graph, times: int) -> None:
        super().__init__(output, times)
        self.transition_probs = output.transition_probs()

    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """See :meth:`Output.statistics`."""
        self.check_options(targets)
        ids = _side_by_side(targets.columns, self.times)
        asked = (ids, None, None, self.output.sharpness, False)
        match_probs = _apart(operations.row_probabilities(self.output.logits, *asked)[0], self.times)
        return path_statistics(match_probs, self.transition_probs.repeat_interleave(self.times, 0), targets, method)


def repeated(output: Output, times: int) -> Output:
    """The output of B sentences as one of B K sentences, those of a sentence side by side."""
    if isinstance(output, CTC):
        return RepeatedFrames(output, times)
    if isinstance(output, Graph):
        return RepeatedGraph(output, times)
    if isinstance(output, RowOutput):
        return RepeatedRows(output, times)
    raise TypeError(f"output is a {type(output).__name__}; expected rows, CTC or Graph")


def _repeated(output: Output, times: int) -> tuple[int, int, int]:
    batch, steps, vocabulary = output.shape
    return batch * times, steps, vocabulary


def _side_by_side(ids: Tensor, times: int) -> Tensor:
    """(B K, L) to (B, K L)."""
    together: Tensor = ids.unflatten(0, (-1, times)).flatten(1)
    return together


def _apart(probs: Tensor, times: int) -> Tensor:
    """(B, T, K L) to (B K, T, L)."""
    apart: Tensor = probs.unflatten(2, (times, -1))
    return apart.transpose(1, 2).flatten(0, 1)
