"""Minimum risk over a decoder's candidates whose risks are exact expectations: the loss for what a beam sees."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative
from bleugrad.expectation import score_output
from bleugrad.losses.base import BLEULossBase
from bleugrad.matches.method import MatchMethod
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists, check_ids


@dataclass(kw_only=True, eq=False, repr=False)
class CandidateBLEULoss(BLEULossBase):
    """1 - expected BLEU of the rows of each candidate, weighted by the candidates' probabilities.

    A search finds S candidates for each sentence, without gradient. The decoder is then fed each candidate, with
    gradient, all in parallel. For candidate x with log-probability ``log p(x)``, its rows (the distributions of the
    decoder that is fed x), and ``len(x)`` tokens::

        score(x) = log p(x) / len(x) ^ length_penalty
        q(x)     = exp(alpha score(x)) / sum over candidates of exp(alpha score)
        loss     = sum over candidates of q(x) (1 - expected BLEU of the rows of x)

    The gradient goes through both factors. The risk of a candidate is an expectation over its neighbourhood instead of
    the BLEU of one sequence. The candidates represent all sequences, so the loss is an **estimate** of 1 - E[BLEU].
    With one candidate it is :class:`bleugrad.ExpectedBLEULoss` of that candidate's rows.

    Args:
        alpha: sharpness of q. With 0 all candidates have the same weight, for any ``length_penalty``, and q has no
            gradient.
        length_penalty: 0 for log-probabilities, 1 for their mean per token, as in the search that ranks the candidates.
        method: this and the other options are those of :class:`bleugrad.ExpectedBLEULoss` at sentence level.

    Add the cross-entropy of the reference yourself: it needs a pass of the decoder that is fed the reference.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> candidates = torch.tensor([[[5, 17, 3, 2], [5, 3, 2, -100]]])  # one sentence, two candidates, EOS is 2
        >>> logits = torch.randn(2, 4, 100)  # of a decoder that was fed the candidates
        >>> loss = bleugrad.CandidateBLEULoss(eos_id=2)(logits, candidates, torch.tensor([[5, 17, 4, 3]]))
        >>> round(loss.item(), 3)
        0.68
    """

    alpha: float = 1.0
    length_penalty: float = 1.0
    method: MatchMethod | str = "exact"
    sharpness: float = 1.0
    end_positions: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_nonnegative("alpha", self.alpha)
        check_nonnegative("length_penalty", self.length_penalty)

    def forward(
        self, logits: Tensor | Output, candidates: Tensor, references: Tensor | IdLists, *, mask: Tensor | None = None
    ) -> Tensor:
        """Compute the loss.

        Args:
            logits: (B S, T, V) of a decoder that was fed the candidates, with those of a sentence next to each other;
                or a :class:`bleugrad.Projection` of as many rows.
            candidates: (B, S, T) token ids, with EOS, padded with ``ignore_index``. Those without tokens do not count.
            references: (B, R), (B, K, R) or nested lists, one entry per sentence.
            mask: (B, S, T) bool, positions that count. Default: positions with a token.
        """
        if not isinstance(candidates, Tensor) or candidates.dim() != 3 or candidates.shape[1] == 0:
            found = tuple(candidates.shape) if isinstance(candidates, Tensor) else type(candidates).__name__
            raise ValueError(f"candidates is {found}; expected token ids (B, S, T), with S of at least 1 per sentence")
        batch, number, _ = check_ids("candidates", candidates).shape
        value, statistics, targets = score_output(
            logits,
            self.expectation,
            labels=candidates.flatten(0, 1),
            references=repeated(references, number, batch),
            mask=None if mask is None else mask.flatten(0, 1),
            word_start=self.word_start,
            label_log_probs=True,
        )
        assert statistics.label_log_probs is not None
        assert targets.labelled is not None
        log_probs = torch.where(targets.labelled, statistics.label_log_probs, 0).sum(1)
        lengths = targets.labelled.sum(1)
        return self._weighted(*(one.view(batch, number) for one in (value, log_probs, lengths)))

    def from_log_probs(
        self, logits: Tensor | Output, log_probs: Tensor, references: Tensor | IdLists, *, mask: Tensor
    ) -> Tensor:
        """Compute the loss of candidates that are distributions with known log-probabilities: members of a soft beam.

        ``log_probs`` (B, S) is log p of each candidate, with its gradient. ``mask`` (B, S, T) is True at positions that
        count, EOS included; a candidate without positions does not count. For the others, see :meth:`forward`.
        """
        if log_probs.dim() != 2 or mask.dim() != 3 or mask.shape[:2] != log_probs.shape:
            found = f"log_probs is {tuple(log_probs.shape)} and mask {tuple(mask.shape)}"
            raise ValueError(f"{found}; expected (B, S) and (B, S, T) of S candidates per sentence")
        again = repeated(references, log_probs.shape[1], len(log_probs))
        value, _, _ = score_output(
            logits, self.expectation, references=again, mask=mask.flatten(0, 1), word_start=self.word_start
        )
        return self._weighted(value.view_as(log_probs), log_probs, mask.sum(2))

    def _weighted(self, value: Tensor, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """The loss of candidates with expected BLEU ``value``, log-probabilities and lengths, all (B, S)."""
        scores = log_probs / lengths.clamp(min=1) ** self.length_penalty
        there = lengths > 0
        counted = there.any(1)
        shares = (self.alpha * scores).masked_fill(counted[:, None] & ~there, -torch.inf).softmax(1)
        return self.reduce((shares * (1 - value)).sum(1), counted)


def repeated(references: Tensor | IdLists, number: int, batch: int) -> Tensor | IdLists:
    """Repeat the references of each sentence ``number`` times, next to each other."""
    if len(references) != batch:
        raise ValueError(f"references has {len(references)} entries; expected {batch}, one for each sentence")
    if isinstance(references, Tensor):
        return references.repeat_interleave(number, 0)
    return [one for one in references for _ in range(number)]  # type: ignore[return-value]
