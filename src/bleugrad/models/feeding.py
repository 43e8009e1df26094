"""How the decoder is fed while training: the reference's tokens, its own, a mixture, or Gumbel samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad.models.attention_lstm import AttentionLSTM
from bleugrad.models.draws import draw
from bleugrad.models.noise import Noise
from bleugrad.models.state import DecoderState, Memory
from bleugrad.special_ids import BOS, EOS, PAD

Feeding = Literal["reference", "greedy", "sample", "mixture", "gumbel"]


@dataclass(frozen=True)
class DecoderOutput:
    """What a decoder said, and what it was fed.

    Attributes:
        logits: (B, T, V), differentiable.
        inputs: (B, T), the token given at each position; BOS first.
        tokens: (B, T), the token taken at each position, which is the next position's input. After the decoder's own
            EOS, and at the end of a reference, it is PAD.
        mask: (B, T) bool, True up to the decoder's own first EOS, that included, and at the positions further on that
            were asked for; with "reference" and "mixture" at the positions of the reference.
    """

    logits: Tensor
    inputs: Tensor
    tokens: Tensor
    mask: Tensor


def feed(
    model: AttentionLSTM,
    memory: Memory,
    inputs: Tensor,
    feeding: Feeding = "reference",
    *,
    own_probability: float = 0.5,
    steps: int | None = None,
    further: int = 0,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> DecoderOutput:
    """Logits of a decoder fed as ``feeding`` says.

    "reference" is teacher forcing. "greedy" and "sample" feed the decoder's own most likely or drawn token, from BOS
    until every row has its EOS or ``steps`` positions are full: the length is random. "mixture" feeds, at each position
    of the reference, its own drawn token with ``own_probability`` and the reference's otherwise. "gumbel" draws with
    Gumbel noise, feeds the drawn token's embedding, and backpropagates as if the softmax at ``temperature`` had been
    fed (straight-through).

    No gradient flows through a choice of token, except with "gumbel". The other feedings choose tokens without gradient
    first, then decode them all at once, with the same dropout: the logits are those the tokens were drawn from.

    A decoder that stops at its own EOS never learns what it would have written had it gone on. With ``further`` it
    takes another token where it would end, and has as many positions more: they tell what a later end is worth.

    Args:
        model: in training mode its dropout acts.
        memory: the encoded sources; their number divides B, rows of a sentence side by side.
        inputs: (B, T), the reference's tokens after BOS, padded with PAD. Without ``steps`` its T is the number of
            positions.
        feeding: see above.
        own_probability: of "mixture".
        steps: positions at most, with "greedy", "sample" and "gumbel".
        further: positions after the own EOS, with "greedy" and "sample"; EOS is then never taken.
        temperature: logits are divided by it before "sample" and "mixture" draw; that of the softmax of "gumbel".
        generator: of the draws, on the model's device.
    """
    _check(feeding, own_probability, steps, further, temperature)
    if feeding == "reference":
        tokens = F.pad(inputs[:, 1:], (0, 1), value=PAD)
        return DecoderOutput(model.project(model.decode(memory, inputs)), inputs, tokens, inputs != PAD)
    if feeding == "mixture":
        return _mixture(model, memory, inputs, own_probability, temperature, generator)
    positions = inputs.shape[1] if steps is None else steps
    if feeding == "gumbel":
        return _gumbel(model, memory, len(inputs), positions, temperature, generator)

    def choose(logits: Tensor) -> Tensor:
        return logits.argmax(-1) if feeding == "greedy" else draw(logits, temperature, generator)

    return _own(model, memory, len(inputs), positions, further, choose)


def _own(
    model: AttentionLSTM, memory: Memory, rows: int, steps: int, further: int, choose: Callable[[Tensor], Tensor]
) -> DecoderOutput:
    noise = model.draw_noise(rows, steps)
    token, state = _first(memory, rows)
    ended = torch.zeros_like(token, dtype=torch.bool)
    left = torch.full_like(token, steps)
    taken, reached = [], []
    with torch.no_grad():
        for t in range(steps):
            hidden, state = model.step(memory, state, token, noise.at(t))
            logits = model.project(hidden)
            token = choose(logits)
            ends = token == EOS
            if further:
                going_on = logits.index_fill(-1, torch.tensor(EOS, device=token.device), -torch.inf)
                token = torch.where(ends, choose(going_on), token)
            reached.append(left > 0)
            token = token.masked_fill(left <= 0, PAD)
            taken.append(token)
            left = torch.where(ends & ~ended, further, left - 1)
            ended = ended | ends
            if (left <= 0).all():
                break
    return _decoded(model, memory, torch.stack(taken, 1), torch.stack(reached, 1), noise)


def _decoded(model: AttentionLSTM, memory: Memory, tokens: Tensor, mask: Tensor, noise: Noise) -> DecoderOutput:
    inputs = F.pad(tokens[:, :-1], (1, 0), value=BOS)
    return DecoderOutput(model.project(model.decode(memory, inputs, noise)), inputs, tokens, mask)


def _mixture(
    model: AttentionLSTM,
    memory: Memory,
    reference: Tensor,
    own_probability: float,
    temperature: float,
    generator: torch.Generator | None,
) -> DecoderOutput:
    rows, steps = reference.shape
    noise = model.draw_noise(rows, steps)
    draws = torch.rand(rows, steps, generator=generator, device=reference.device)
    own = (draws < own_probability) & (reference != PAD) & (torch.arange(steps, device=reference.device) > 0)
    _, state = _first(memory, rows)
    fed = [reference[:, 0]] if steps else []
    with torch.no_grad():
        for t in range(steps - 1):
            hidden, state = model.step(memory, state, fed[t], noise.at(t))
            drawn = draw(model.project(hidden), temperature, generator)
            fed.append(torch.where(own[:, t + 1], drawn, reference[:, t + 1]))
    inputs = torch.stack(fed, 1) if fed else reference
    tokens = F.pad(inputs[:, 1:], (0, 1), value=PAD)
    return DecoderOutput(model.project(model.decode(memory, inputs, noise)), inputs, tokens, reference != PAD)


def _gumbel(
    model: AttentionLSTM,
    memory: Memory,
    rows: int,
    steps: int,
    temperature: float,
    generator: torch.Generator | None,
) -> DecoderOutput:
    noise = model.draw_noise(rows, steps)
    token, state = _first(memory, rows)
    embedded = model.target_embedding(token)
    ended = torch.zeros_like(token, dtype=torch.bool)
    logits, taken = [], []
    for t in range(steps):
        hidden, state = model.step_embedded(memory, state, embedded, noise.at(t))
        logits.append(model.project(hidden))
        disturbed = logits[-1].float() + _gumbel_noise(logits[-1], generator)
        token = disturbed.argmax(-1).masked_fill(ended, PAD)
        taken.append(token)
        soft = F.softmax(disturbed / temperature, -1).masked_fill(ended[:, None], 0)
        embedded = _straight_through(model, token, soft)
        ended = ended | (token == EOS)
        if ended.all():
            break
    tokens = torch.stack(taken, 1)
    inputs = F.pad(tokens[:, :-1], (1, 0), value=BOS)
    return DecoderOutput(torch.stack(logits, 1), inputs, tokens, _until_eos(tokens))


def _straight_through(model: AttentionLSTM, token: Tensor, soft: Tensor) -> Tensor:
    """The token's embedding; its gradient is that of the embeddings mixed by ``soft``, and of the token's own."""
    embeddings = model.target_embedding.weight
    mixed = soft.to(embeddings.dtype) @ embeddings.detach()
    return F.embedding(token, embeddings) + mixed - mixed.detach()


def _first(memory: Memory, rows: int) -> tuple[Tensor, DecoderState]:
    token = torch.full((rows,), BOS, device=memory.bias.device)
    return token, memory.state_of(rows)


def _gumbel_noise(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    exponential = torch.empty(logits.shape, device=logits.device).exponential_(generator=generator)
    return -exponential.log()


def _until_eos(tokens: Tensor) -> Tensor:
    is_eos = tokens == EOS
    return is_eos.cumsum(1) - is_eos.long() == 0


def _check(feeding: str, own_probability: float, steps: int | None, further: int, temperature: float) -> None:
    if feeding not in get_args(Feeding):
        raise ValueError(f"feeding is {feeding!r}; expected {' or '.join(map(repr, get_args(Feeding)))}")
    if not 0 <= own_probability <= 1:
        raise ValueError(f"own_probability is {own_probability}; expected 0 to 1")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    if further < 0 or (further and feeding not in ("greedy", "sample")):
        raise ValueError(
            f"further is {further} with feeding {feeding!r}; expected 0, or more with 'greedy' or 'sample'"
        )
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected more than 0")
