"""Objectives of several sequences per sentence that a beam search finds: hard candidates, or members of a soft beam."""

import torch
from torch import Tensor

from bleugrad import CandidateBLEULoss, MinimumRiskLoss
from bleugrad.lab.data.batches import IGNORED, Batch, decoder_inputs
from bleugrad.lab.models.feeding import token_log_probs
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.soft_beam import soft_beam
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.objectives.base import FedObjective, references_of, row_options, score_options
from bleugrad.lab.training.objectives.config import CandidatesConfig, SoftBeamConfig
from bleugrad.outputs import RowOutput, TokenProbabilities


class SparseRows(RowOutput):
    """Distributions given by the probabilities of a few tokens; all other tokens have probability 0.

    ``G[b, t, j]`` is the sum of ``probs[b, t, c]`` over the entries c whose token is ``ids[b, j]``. Nothing is
    normalised. O(B T C + B V) time, and memory without a tensor of the size (B, T, V).

    Args:
        tokens: (B, T, C) ids, within 0..V-1. A token may occur several times in a row.
        probs: (B, T, C), their probabilities, which sum to 1 in each row.
        vocabulary: V.

    Example:
        >>> import torch, bleugrad
        >>> tokens = torch.tensor([[[5, 7], [6, 6]]])
        >>> rows = SparseRows(tokens, torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]), vocabulary=9)
        >>> bleugrad.expected_bleu(rows, torch.tensor([[5, 6]]), max_order=2).matches.tolist()
        [[1.75, 0.75]]
    """

    name = "probs"

    def __init__(self, tokens: Tensor, probs: Tensor, vocabulary: int) -> None:
        batch, steps, _ = probs.shape
        if tokens.shape != probs.shape or tokens.is_floating_point():
            found = f"tokens is {tokens.dtype} {tuple(tokens.shape)}"
            raise ValueError(f"{found}; expected token ids of the shape of probs, {tuple(probs.shape)}")
        self.shape, self.device = (batch, steps, vocabulary), probs.device
        self.tokens, self.probs = tokens, probs.to(torch.promote_types(probs.dtype, torch.float32))

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if targets is not None:
            raise TypeError("labels have no log-probability where tokens have probability 0; expected no cross-entropy")
        batch, steps, vocabulary = self.shape
        number = ids.shape[1]
        column = torch.arange(number, device=ids.device).expand(batch, -1)
        column_of = ids.new_full((batch, vocabulary), number).scatter(1, ids, column)  # any of several equal ids
        found = column_of.gather(1, self.tokens.flatten(1)).view_as(self.tokens)
        sums = self.probs.new_zeros(batch, steps, number + 1).scatter_add(2, found, self.probs)
        matched = sums.gather(2, column_of.gather(1, ids)[:, None].expand(-1, steps, -1))
        opening = matched.new_empty(0) if word_start is None else (self.probs * word_start[self.tokens]).sum(2)
        return TokenProbabilities(matched, matched.new_empty(0), opening)


class Candidates(FedObjective):
    """A loss of the candidates of a beam search, which the decoder is fed.

    ``candidate_loss`` is "expected" for exact expected BLEU of the rows of each candidate, see
    :class:`bleugrad.CandidateBLEULoss`, or "risk" for a baseline that scores the candidates themselves,
    :class:`bleugrad.MinimumRiskLoss`.
    """

    config: CandidatesConfig

    def make_loss(self, word_start: Tensor | None) -> CandidateBLEULoss | MinimumRiskLoss:
        """Summed over sentences."""
        config, shared = self.config, score_options(self.config) | {"word_start": word_start}
        if config.candidate_loss == "risk":
            return MinimumRiskLoss(alpha=config.alpha, **shared)
        shared |= {"sharpness": config.sharpness, "end_positions": config.end_positions}
        return CandidateBLEULoss(alpha=config.candidate_alpha, **shared)

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        candidates, references = self.search(batch), references_of(batch)
        memory = self.model.encode(batch.source, batch.source_lengths)
        rows = self.model.project(self.model.decode(memory, decoder_inputs(candidates.flatten(0, 1))))
        if isinstance(self.loss, CandidateBLEULoss):
            loss = self.loss(rows, candidates, references)
        else:
            log_probs = token_log_probs(rows, candidates.flatten(0, 1)).view(candidates.shape)
            loss = self.loss.from_samples(candidates, log_probs, references)
        return self.mixed(self.mean(loss, len(batch)), memory, batch)

    def search(self, batch: Batch) -> Tensor:
        """(B, S, T), the candidates with EOS, the best first; all padding where the search found fewer."""
        width = self.config.candidates
        found = beam(self.model, batch.source, batch.source_lengths, width, self.longest(batch), n_best=width)
        longest = max((len(one.tokens) + 1 for best in found for one in best), default=1)
        candidates = torch.full((len(batch), width, longest), IGNORED)
        for row, best in zip(candidates, found, strict=True):
            for place, one in zip(row, best, strict=False):
                place[: len(one.tokens) + 1] = torch.tensor([*one.tokens, EOS])
        return candidates.to(batch.labels.device)


class SoftBeam(FedObjective):
    """Expected BLEU of the members of a relaxed beam search, weighted by their probabilities.

    The gradient goes through the distributions of each member and through the weights, and with ``input_gradient``
    through the mixtures that the decoder was fed. See :func:`bleugrad.lab.models.search.soft_beam.soft_beam`.
    """

    config: SoftBeamConfig
    tau = 1.0  # sharpness of the choices of the beam

    def make_loss(self, word_start: Tensor | None) -> CandidateBLEULoss:
        """Summed over sentences."""
        return CandidateBLEULoss(alpha=self.config.candidate_alpha, word_start=word_start, **row_options(self.config))

    def begin_epoch(self, epoch: int, done: float) -> None:
        """Set the sharpness of the beam, which is geometric from the first to the last epoch."""
        self.tau = self.config.tau_first * (self.config.tau_last / self.config.tau_first) ** done

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory, config = self.model.encode(batch.source, batch.source_lengths), self.config
        found = soft_beam(
            self.model,
            memory,
            config.candidates,
            self.longest(batch),
            self.tau,
            config.beam_tokens,
            rows=config.beam_rows,
            sharpness=config.sharpness,
            input_gradient=config.input_gradient,
        )
        rows = SparseRows(found.tokens.flatten(0, 1), found.probs.flatten(0, 1), self.model.target_size)
        loss = self.loss.from_log_probs(rows, found.scores, references_of(batch), mask=found.mask)
        return self.mixed(self.mean(loss, len(batch)), memory, batch)
