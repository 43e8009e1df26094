"""Expected BLEU of a decoder that is fed its own samples: closed form for outputs, score function for inputs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bleugrad.expectation import Expectation, score_output
from bleugrad.losses.base import Group, LossBase, LossOptions
from bleugrad.losses.candidates import score_sequences
from bleugrad.losses.sampling import with_gradient_of
from bleugrad.matches.method import MatchMethod
from bleugrad.outputs.output import Output
from bleugrad.outputs.placed import PlacedRows
from bleugrad.outputs.rows import RowOutput, as_output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.bleu import BLEU


class FedSamplesBLEULoss(LossBase):
    """1 - expected BLEU of the rows of a decoder that is fed its own samples, with an **unbiased gradient**.

    A decoder is random in two ways: in the tokens x that it is fed, and in the tokens that it emits given them. The
    rows of a decoder that was fed x are distributions, and f(x) is the expected BLEU of these rows (that of
    :func:`bleugrad.expected_bleu`). The loss estimates the mean over the inputs::

        J      = sum over x of p(x) (1 - f(x))
        grad J = E[-grad f(x) - sum over t of (f(x) - b_t) grad log p(x_t | x_<t)]

    for any b_t that does not depend on x_t and the tokens after it. The first term is the closed form for the outputs,
    the second the score function of the inputs: a stochastic computation graph (Schulman et al., 2015).

    The control variate b_t is also an expected BLEU: of the sample's rows up to t, which are known before x_t is drawn,
    followed by the rows of another sample of the sentence, averaged over the other samples. The second term then
    contains only the effect of the inputs from x_t on. With one sample b_t is 0.

    J is not 1 - E[BLEU] of the samples x themselves: the tokens that are scored are drawn again from the same rows.
    :class:`bleugrad.ReinforceLoss` with ``from_samples`` estimates that. The first term alone, which is the gradient of
    :class:`bleugrad.ExpectedBLEULoss` of the rows, is biased.

    Args:
        method: this and the other options are those of :class:`bleugrad.ExpectedBLEULoss` at sentence level.

    Time is that of :class:`bleugrad.CandidateBLEULoss`, one more softmax without gradient, and the expected matches of
    up to S (S - 1) T sequences per sentence, which do not read the vocabulary.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> samples = torch.tensor([[[5, 17, 3, 2], [5, 3, 2, -100]]])  # one sentence, two samples, EOS is 2
        >>> logits = torch.randn(2, 4, 100, requires_grad=True)  # of the decoder that was fed the samples
        >>> loss = bleugrad.FedSamplesBLEULoss(eos_id=2)(logits, samples, torch.tensor([[5, 17, 4, 3]]))
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.679, torch.Size([2, 4, 100]))
    """

    def __init__(
        self,
        *,
        method: MatchMethod | str = "exact",
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        sharpness: float = 1.0,
        end_positions: int | str = 0,
        ignore_index: int = -100,
        word_start: Tensor | None = None,
        reduction: str = "mean",
        process_group: Group = None,
    ) -> None:
        score = BLEU(max_order, weights, smoothing)
        expectation = Expectation(score, method, "sentence", eos_id, ignore_index, sharpness, end_positions)
        super().__init__(LossOptions(expectation, reduction, process_group, 0.0), word_start)

    def forward(
        self, logits: Tensor | Output, samples: Tensor, references: Tensor | IdLists, *, mask: Tensor | None = None
    ) -> Tensor:
        """Compute the loss; ``samples`` are drawn from the logits token by token.

        The arguments are those of :meth:`bleugrad.CandidateBLEULoss.forward`, with samples in the place of candidates.
        """
        given = (samples, references, mask, self.word_start, self.options)
        bleu, log_probs, counted = score_sequences("samples", logits, *given)
        baselines = self.baselines(logits, references, counted)
        surrogate = bleu + ((bleu.detach()[..., None] - baselines) * log_probs).sum(2)
        return self.options.reduce(with_gradient_of(1 - bleu.mean(1), -surrogate.mean(1)), counted.any(2).any(1))

    @torch.no_grad()
    def baselines(self, logits: Tensor | Output, references: Tensor | IdLists, counted: Tensor) -> Tensor:
        """Return b_t of each token, (B, S, T). ``counted`` (B, S, T) are the tokens of the samples."""
        (batch, number, steps), device = counted.shape, counted.device
        output = as_output(logits)
        if number == 1 or not isinstance(output, RowOutput):
            return torch.zeros(counted.shape, device=device)
        sample = torch.arange(number, device=device)
        others = sample.expand(number, -1)[sample[:, None] != sample].view(number, number - 1)
        place = torch.arange(counted.numel(), device=device).view_as(counted)
        until = torch.ones(steps, steps, dtype=torch.bool, device=device).tril()

        def joined(values: Tensor) -> Tensor:  # (B, S, S - 1, T, T): row u of a sample until token t, of another after
            return torch.where(until, values[:, :, None, None], values[:, others][:, :, :, None])

        needed = counted[:, :, None].expand(-1, -1, number - 1, -1)
        sentences = torch.arange(batch * number, device=device).view(batch, number, 1, 1).expand_as(needed)[needed]
        rows = PlacedRows(output, joined(place)[needed], sentences)
        again = picked(references, sentences.div(number, rounding_mode="floor"))
        value, _, _ = score_output(
            rows, self.options.expectation, references=again, mask=joined(counted)[needed], word_start=self.word_start
        )
        return value.new_zeros(needed.shape).masked_scatter(needed, value).mean(2)


def picked(references: Tensor | IdLists, index: Tensor) -> Tensor | IdLists:
    """Return the references of the sentences ``index``."""
    if isinstance(references, Tensor):
        return references[index.to(references.device)]
    return [references[one] for one in index.tolist()]
