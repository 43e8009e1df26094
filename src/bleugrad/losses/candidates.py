"""Minimum risk over a decoder's candidates whose risks are exact expectations: the loss for what a beam sees."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative
from bleugrad.expectation import Expectation, expected_score
from bleugrad.losses.base import LossBase
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists, check_ids
from bleugrad.scores.bleu import BLEU

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from typing_extensions import Unpack


class CandidateOptions(TypedDict, total=False):
    """The options of :class:`CandidateBLEULoss` that :class:`bleugrad.ExpectedBLEULoss` has, too."""

    method: str
    max_order: int
    weights: Sequence[float] | None
    smoothing: float
    eos_id: int | None
    sharpness: float
    end_positions: int | str
    ignore_index: int
    word_start: Tensor | None
    reduction: str
    process_group: Optional["ProcessGroup"]


class FedSequencesLoss(LossBase):
    """A loss of sequences that a decoder was fed, S per sentence, from exact expected BLEU of the rows of each."""

    def __init__(self, options: CandidateOptions) -> None:
        rest: dict[str, Any] = dict(options)
        score = BLEU(**{name: rest.pop(name) for name in ("max_order", "weights", "smoothing") if name in rest})
        chosen = ("method", "eos_id", "ignore_index", "sharpness", "end_positions")
        expected = {name: rest.pop(name) for name in chosen if name in rest}
        super().__init__(Expectation(score, level="sentence", **expected), **rest)

    def scored(
        self, logits: Tensor | Output, sequences: Tensor, references: Tensor | IdLists, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Expected BLEU of the rows (B, S), log-probabilities of the tokens (B, S, T), and which count (B, S, T)."""
        shape = sequences.shape[:2]
        value, statistics, targets = expected_score(
            logits,
            self.expectation,
            labels=sequences.flatten(0, 1),
            references=repeated(references, shape[1], shape[0]),
            mask=None if mask is None else mask.flatten(0, 1),
            word_start=self.word_start,
            label_log_probs=True,
            pool=self.pool,
        )
        assert statistics.label_log_probs is not None
        assert targets.labelled is not None
        log_probs = torch.where(targets.labelled, statistics.label_log_probs, 0)
        return value.view(shape), log_probs.view(sequences.shape), targets.labelled.view(sequences.shape)


class CandidateBLEULoss(FedSequencesLoss):
    """1 - expected BLEU of the rows of each candidate, weighted by the candidates' probabilities.

    A search finds S candidates for each sentence, without gradient. The decoder is then fed each candidate, with
    gradient, all in parallel. For candidate x with log-probability ``log p(x)``, its rows (the distributions of the
    decoder that is fed x), and ``len(x)`` tokens::

        score(x) = log p(x) / len(x) ^ length_penalty
        q(x)     = exp(alpha score(x)) / sum over candidates of exp(alpha score)
        loss     = sum over candidates of q(x) (1 - expected BLEU of the rows of x)

    The gradient goes through both factors. It is minimum risk training in which the risk of a candidate is an
    expectation over its neighbourhood instead of the BLEU of one sequence. The expected matches are exact given the
    inputs of the decoder, BLEU of them is the surrogate of :func:`bleugrad.expected_bleu`, and the candidates stand for
    all sequences, so the loss is an **estimate** of 1 - E[BLEU]. With one candidate it is
    :class:`bleugrad.ExpectedBLEULoss` of that candidate's rows.

    Args:
        alpha: sharpness of q. 0 gives all candidates the same weight, and no gradient through q.
        length_penalty: 0 for log-probabilities, 1 for their mean per token, as in the search that ranks the candidates.
        options: those of :class:`bleugrad.losses.candidates.CandidateOptions`, by name;
            :class:`bleugrad.ExpectedBLEULoss` describes them.

    Add the cross-entropy of the reference yourself: it needs a pass of the decoder that is fed the reference.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> candidates = torch.tensor([[[5, 17, 3, 2], [5, 3, 2, -100]]])  # one sentence, two candidates, EOS is 2
        >>> logits = torch.randn(2, 4, 100, requires_grad=True)  # of a decoder that was fed the candidates
        >>> loss = bleugrad.CandidateBLEULoss(eos_id=2)(logits, candidates, torch.tensor([[5, 17, 4, 3]]))
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.68, torch.Size([2, 4, 100]))
    """

    def __init__(
        self, *, alpha: float = 1.0, length_penalty: float = 1.0, **options: "Unpack[CandidateOptions]"
    ) -> None:
        super().__init__(options)
        self.alpha = check_nonnegative("alpha", alpha)
        self.length_penalty = check_nonnegative("length_penalty", length_penalty)

    def extra_repr(self) -> str:
        """The options."""
        return f"alpha={self.alpha}, length_penalty={self.length_penalty}, {super().extra_repr()}"

    def forward(
        self,
        logits: Tensor | Output,
        candidates: Tensor,
        references: Tensor | IdLists,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            logits: (B S, T, V) of a decoder fed the candidates, those of a sentence side by side; or a
                :class:`bleugrad.Projection` of as many rows.
            candidates: (B, S, T) token ids, with EOS, padded with ``ignore_index``. A candidate without tokens does not
                count.
            references: (B, R), (B, K, R) or nested lists, one entry per sentence.
            mask: (B, S, T) bool, positions that count, by default those with a token.
        """
        check_sequences("candidates", candidates)
        value, log_probs, counted = self.scored(logits, candidates, references, mask)
        return self._weighted(value, log_probs.sum(2), counted.sum(2))

    def from_log_probs(
        self, logits: Tensor | Output, log_probs: Tensor, references: Tensor | IdLists, *, mask: Tensor
    ) -> Tensor:
        """The loss of candidates that are distributions with log-probabilities of their own: members of a soft beam.

        Args:
            logits: (B S, T, V), those of a sentence side by side, or an output object of as many rows.
            log_probs: (B, S), log p of each candidate, with its gradient.
            references: (B, R), (B, K, R) or nested lists, one entry per sentence.
            mask: (B, S, T) bool, positions that count, EOS included. A candidate without positions does not count.
        """
        if log_probs.dim() != 2 or mask.dim() != 3 or mask.shape[:2] != log_probs.shape:
            found = f"log_probs is {tuple(log_probs.shape)} and mask {tuple(mask.shape)}"
            raise ValueError(f"{found}; expected (B, S) and (B, S, T) of S candidates per sentence")
        again = repeated(references, log_probs.shape[1], len(log_probs))
        value, _, _ = expected_score(
            logits,
            self.expectation,
            references=again,
            mask=mask.flatten(0, 1),
            word_start=self.word_start,
            pool=self.pool,
        )
        return self._weighted(value.view_as(log_probs), log_probs, mask.sum(2))

    def _weighted(self, value: Tensor, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """The risks of candidates with this expected BLEU, weighted by log-probabilities and lengths, all (B, S)."""
        scores = log_probs / lengths.clamp(min=1) ** self.length_penalty
        there = lengths > 0
        counted = there.any(1)
        shares = (self.alpha * scores).masked_fill(counted[:, None] & ~there, -torch.inf).softmax(1)
        return self.reduce((shares * (1 - value)).sum(1), counted)


def check_sequences(name: str, sequences: object) -> Tensor:
    """Return ``sequences`` if they are ids (B, S, T) with S of at least 1."""
    if not isinstance(sequences, Tensor) or sequences.dim() != 3 or sequences.shape[1] == 0:
        shape = tuple(sequences.shape) if isinstance(sequences, Tensor) else type(sequences).__name__
        raise ValueError(f"{name} is {shape}; expected token ids (B, S, T), with S of at least 1 per sentence")
    return check_ids(name, sequences)


def repeated(references: Tensor | IdLists, number: int, batch: int) -> Tensor | IdLists:
    """The references of each sentence ``number`` times, side by side."""
    if len(references) != batch:
        raise ValueError(f"references has {len(references)} entries; expected {batch}, one for each sentence")
    if isinstance(references, Tensor):
        return references.repeat_interleave(number, 0)
    return [one for one in references for _ in range(number)]  # type: ignore[return-value]
