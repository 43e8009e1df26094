"""Inputs of the decoder in training: the reference, its own tokens, or a mixture."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad.lab.models.protocol import Decoding, Memory, state_of
from bleugrad.lab.special_ids import BOS, EOS, PAD

Feeding = Literal["reference", "greedy", "sample", "mixture"]


@dataclass(frozen=True)
class DecoderOutput:
    """Outputs and inputs of a decoder.

    ``mask`` is True up to and including the decoder's own first EOS, and at the positions that ``further`` adds; with
    "reference" and "mixture" at the positions of the reference.
    """

    logits: Tensor  # (B, T, V), differentiable
    inputs: Tensor  # (B, T), the input token of each position, BOS first
    tokens: Tensor  # (B, T), the input token of the next position; PAD after the decoder's own EOS and a reference
    mask: Tensor  # (B, T) bool


def feed(
    model: Decoding,
    memory: Memory,
    inputs: Tensor,
    feeding: Feeding = "reference",
    *,
    own_probability: float = 0.5,
    steps: int | None = None,
    further: int = 0,
    temperature: float = 1.0,
) -> DecoderOutput:
    """Decode with one kind of inputs.

    "reference" is teacher forcing. "greedy" and "sample" feed the most likely or a sampled token, until every row has
    an EOS or ``steps`` positions: the length is random. "mixture" feeds, at each position of the reference, a sampled
    token with ``own_probability``, else the token of the reference.

    Tokens are chosen without gradients first, then decoded in one pass with the same dropout, so the logits are those
    that the tokens were drawn from.

    With ``further``, a decoder that would end takes another token instead of EOS. It continues to the
    end of the reference, or to its own end if that is later, and for that many positions more. They show the effect of
    a later end, which a decoder that stops at EOS never sees.

    ``inputs`` (B, T) are BOS and the tokens of the reference, padded with PAD, after EOS or without it. B is a multiple
    of the number of encoded sources, with the rows of a sentence side by side. ``steps`` is T by default.
    ``temperature`` is that of "sample" and "mixture".
    """
    if feeding == "reference":
        tokens = F.pad(inputs[:, 1:], (0, 1), value=PAD)
        return DecoderOutput(model.project(model.decode(memory, inputs)), inputs, tokens, inputs != PAD)
    if feeding == "mixture":
        return _mixture(model, memory, inputs, own_probability, temperature)
    positions = inputs.shape[1] if steps is None else steps

    def choose(logits: Tensor) -> Tensor:
        return logits.argmax(-1) if feeding == "greedy" else draw(logits, temperature)

    lengths = ((inputs != PAD) & (inputs != EOS)).sum(1)
    least = lengths + further if further else torch.zeros_like(lengths)
    hidden, *chosen = _choose_own(model, memory, positions, choose, least, further)
    return DecoderOutput(model.project(hidden), *chosen)


@dataclass(frozen=True)
class Samples:
    """Sequences that a decoder sampled, each token fed back to it."""

    tokens: Tensor  # (B, T), PAD after the first EOS
    log_probs: Tensor  # (B, T), the log-probability of each token, differentiable; 0 after the first EOS
    mask: Tensor  # (B, T) bool, True up to and including the first EOS


def sample(
    model: Decoding,
    memory: Memory,
    rows: int,
    steps: int,
    *,
    temperature: float = 1.0,
) -> Samples:
    """Sampled sequences and their log-probabilities. Draws the tokens that :func:`feed` draws with "sample".

    Positions after EOS are not projected to the vocabulary, which saves time. ``rows`` is B, a multiple of the number
    of encoded sources. Log-probabilities are those of temperature 1.
    """
    choose = partial(draw, temperature=temperature)
    least = torch.zeros(rows, dtype=torch.long, device=memory.device)
    hidden, _, tokens, mask = _choose_own(model, memory, steps, choose, least, 0)
    log_probs = token_log_probs(model.project(hidden[mask]), tokens[mask])
    return Samples(tokens, log_probs.new_zeros(mask.shape).masked_scatter(mask, log_probs), mask)


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of tokens (...) under logits (..., V), in float32; 0 for tokens of -100."""
    with torch.autocast(logits.device.type, enabled=False):
        rows = logits.flatten(0, -2).float()
        return -F.cross_entropy(rows, tokens.flatten(), reduction="none").view(tokens.shape)


def draw(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """One token per row of logits (B, V), with the probabilities ``softmax(logits / temperature)``.

    Cumulative sums and one uniform number per row are ten times faster than Gumbel noise. Never draws a logit of -inf.
    """
    # float32 sums would give rare tokens of a large vocabulary a wrong share; mps has no float64
    kind = torch.float32 if logits.device.type == "mps" else torch.float64
    sums = F.softmax(logits.float() / temperature, -1).cumsum(-1, dtype=kind)
    total = sums[:, -1:]
    uniform = torch.rand(total.shape, dtype=kind, device=logits.device)
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(uniform * total, below), right=True)[:, 0]


def _choose_own(
    model: Decoding, memory: Memory, steps: int, choose: Callable[[Tensor], Tensor], least: Tensor, further: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens that the decoder chooses: its hidden states (B, T, H), then inputs, tokens and mask of the output.

    Each row has at least ``least`` (B,) positions, and ``further`` after its first EOS.
    """
    rows = len(least)
    noise, state = model.draw_noise(rows, steps), state_of(memory, rows)
    token = torch.full((rows,), BOS, device=memory.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    left = torch.full_like(token, steps)
    taken, reached = [], []
    with torch.no_grad():
        for t in range(steps):
            hidden, state = model.step(memory, state, token, noise.at(t))
            alive = left > 0
            logits = model.project(hidden[alive])
            own = choose(logits)
            ends = torch.zeros_like(ended).masked_scatter(alive, own == EOS)
            if further:
                going_on = logits.index_fill(-1, torch.tensor(EOS, device=token.device), -torch.inf)
                own = torch.where(own == EOS, choose(going_on), own)
            reached.append(alive)
            token = torch.full_like(token, PAD).masked_scatter(alive, own)
            taken.append(token)
            left = torch.where(ends & ~ended, (least - t - 1).clamp(min=further), left - 1)
            ended = ended | ends
            if (left <= 0).all():
                break
    tokens = torch.stack(taken, 1)
    inputs = F.pad(tokens[:, :-1], (1, 0), value=BOS)
    return model.decode(memory, inputs, noise), inputs, tokens, torch.stack(reached, 1)


def _mixture(
    model: Decoding,
    memory: Memory,
    reference: Tensor,
    own_probability: float,
    temperature: float,
) -> DecoderOutput:
    rows, steps = reference.shape
    noise, state = model.draw_noise(rows, steps), state_of(memory, rows)
    draws = torch.rand(rows, steps, device=reference.device)
    own = (draws < own_probability) & (reference != PAD)
    fed = [reference[:, 0]] if steps else []
    with torch.no_grad():
        for t in range(steps - 1):
            hidden, state = model.step(memory, state, fed[t], noise.at(t))
            drawn = draw(model.project(hidden), temperature)
            fed.append(torch.where(own[:, t + 1], drawn, reference[:, t + 1]))
    inputs = torch.stack(fed, 1) if fed else reference
    tokens = F.pad(inputs[:, 1:], (0, 1), value=PAD)
    return DecoderOutput(model.project(model.decode(memory, inputs, noise)), inputs, tokens, reference != PAD)
