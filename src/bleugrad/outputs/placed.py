"""Rows of an output in other places: sequences that are put together from the rows of several others."""

import torch
from torch import Tensor

from bleugrad.outputs.rows import RowOutput, TokenProbabilities


class PlacedRows(RowOutput):
    """Row t of sentence n is row ``places[n, t]`` of all rows of another output, laid end to end. For scores only.

    The rows are read once, for each sentence of the other output: O(B T V) time, and O(N T L) for the N sentences here.

    Args:
        output: B sentences of T rows.
        places: (N, T), from 0 to B T - 1.
        sentences: (N,), for each n a sentence of ``output`` with the same references. All rows of n are rows of
            sentences with these references.
    """

    def __init__(self, output: RowOutput, places: Tensor, sentences: Tensor) -> None:
        self.shape, self.device = (*places.shape, output.shape[2]), output.device
        self.output, self.places, self.sentences = output, places, sentences

    def sharpened(self, sharpness: float) -> "PlacedRows":
        """See :meth:`bleugrad.outputs.rows.Rows.sharpened`."""
        return PlacedRows(self.output.sharpened(sharpness), self.places, self.sentences)  # type: ignore[arg-type]

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if targets is not None:
            raise TypeError("labels have no place in rows of several sentences; expected no cross-entropy")
        of_sentences = ids.new_zeros(self.output.shape[0], ids.shape[1])
        of_sentences[self.sentences] = ids
        found = self.output.token_probabilities(of_sentences, None, word_start)
        matched = found.match_probs.flatten(0, 1)[self.places]
        opening = found.opening if word_start is None else found.opening.flatten()[self.places]
        return TokenProbabilities(matched, torch.empty_like(found.target_log_probs), opening)
