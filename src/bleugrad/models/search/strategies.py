"""Translations of a trained model: greedy, beam search and sampling, many sentences at once.

A hypothesis is complete: it ends with EOS, which is forced where it reaches its greatest length. Its log-probability is
the model's, EOS included, and its score ``log_prob / length ** length_penalty``, where the length counts the EOS. PAD
and BOS are never produced. A sentence that is done leaves the batch, so that no work is spent on it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.models.attention_lstm import AttentionLSTM
from bleugrad.models.draws import draw
from bleugrad.models.search.beams import Beams, extend
from bleugrad.models.search.hypothesis import Hypothesis, Rules
from bleugrad.models.state import Memory
from bleugrad.special_ids import BOS, EOS

__all__ = ["Hypothesis", "beam", "greedy", "sample"]


def greedy(
    model: AttentionLSTM,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    minimum: int = 0,
    forbid_unk: bool = False,
) -> list[Hypothesis]:
    """The most likely token at each step. See :func:`beam` for the arguments; equal to it with ``width`` 1."""
    choice = _Choice(temperature=None, generator=None)
    return _one_path(model, source, source_lengths, maximum, Rules(model.projection(), minimum, forbid_unk), choice)


def sample(
    model: AttentionLSTM,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    minimum: int = 0,
    temperature: float = 1.0,
    forbid_unk: bool = False,
    generator: torch.Generator | None = None,
) -> list[Hypothesis]:
    """A translation of each sentence drawn from the model.

    Args:
        model: see :func:`beam`, also for the arguments that are not here.
        source: (B, S).
        source_lengths: (B,).
        maximum: most tokens.
        minimum: fewest tokens.
        temperature: logits are divided by it before the draw; ``log_prob`` is that of the model itself.
        forbid_unk: never produce UNK.
        generator: of the draws, on the model's device.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected more than 0")
    choice = _Choice(temperature, generator)
    return _one_path(model, source, source_lengths, maximum, Rules(model.projection(), minimum, forbid_unk), choice)


@torch.no_grad()
def beam(
    model: AttentionLSTM,
    source: Tensor,
    source_lengths: Tensor,
    width: int = 5,
    maximum: int | Tensor = 100,
    minimum: int = 0,
    length_penalty: float = 1.0,
    n_best: int = 1,
    forbid_unk: bool = False,
) -> list[list[Hypothesis]]:
    """The best hypotheses of a beam of each sentence, the best first.

    A beam has ``width`` places. At each step the likeliest continuations of a sentence's running hypotheses fill the
    places that are left; those that end with EOS are finished and keep their place, the others run on. A sentence is
    done when all places are kept. With as many places as there are translations this is exhaustive search.

    Args:
        model: any mode; dropout does not act.
        source: (B, S) ids.
        source_lengths: (B,).
        width: places of the beam.
        maximum: most tokens of a translation, EOS not counted; a number, or (B,) one for each sentence.
        minimum: fewest tokens.
        length_penalty: 0 ranks by log-probability, 1 by its mean over tokens.
        n_best: hypotheses returned, at most ``width``; fewer where no more were found.
        forbid_unk: never produce UNK.
    """
    if width < 1:
        raise ValueError(f"width is {width}; expected at least 1")
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best is {n_best}; expected 1 to width = {width}")
    memory, limits = _start(model, source, source_lengths, maximum, minimum)
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    running, rules = Beams.first(memory, limits, width), Rules(model.projection(), minimum, forbid_unk)
    while len(running):
        running = extend(model, running, rules, length_penalty, found)
    if not all(found):
        raise ValueError("the model gives no token a probability; expected finite parameters and a word to choose")
    ranked = [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]
    return [each[:n_best] for each in ranked]


@dataclass(frozen=True)
class _Choice:
    """How one path goes on: the most likely token, or with a temperature a drawn one."""

    temperature: float | None
    generator: torch.Generator | None

    def __call__(self, log_probs: Tensor) -> Tensor:
        if self.temperature is None:
            return log_probs.argmax(-1)
        return draw(log_probs, self.temperature, self.generator)


@torch.no_grad()
def _one_path(
    model: AttentionLSTM,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    rules: Rules,
    choose: _Choice,
) -> list[Hypothesis]:
    memory, limits = _start(model, source, source_lengths, maximum, rules.minimum)
    device = source.device
    found: list[Hypothesis | None] = [None] * len(source)
    sentences, state = torch.arange(len(source), device=device), memory.state
    tokens = torch.full((len(source), 1), BOS, device=device)
    log_probs = torch.zeros(len(source), device=device)
    while len(sentences):
        length = tokens.shape[1] - 1
        hidden, state = model.step(memory, state, tokens[:, -1])
        next_log_probs = rules.log_probs(hidden, length, limits)
        token = choose(next_log_probs)
        log_probs = log_probs + next_log_probs.gather(1, token[:, None])[:, 0]
        ended = token == EOS
        for row in ended.nonzero()[:, 0].tolist():
            log_prob = float(log_probs[row])
            found[int(sentences[row])] = Hypothesis(tokens[row, 1:].tolist(), log_prob, log_prob / (length + 1))
        tokens = torch.cat([tokens, token[:, None]], 1)
        if ended.any():
            rows = (~ended).nonzero()[:, 0]
            memory, state, limits = memory.select(rows), state.select(rows), limits[rows]
            sentences, tokens, log_probs = sentences[rows], tokens[rows], log_probs[rows]
    return [hypothesis for hypothesis in found if hypothesis is not None]


def _start(
    model: AttentionLSTM, source: Tensor, source_lengths: Tensor, maximum: int | Tensor, minimum: int
) -> tuple[Memory, Tensor]:
    limits = torch.as_tensor(maximum, device=source.device).expand(len(source))
    if minimum < 0:
        raise ValueError(f"minimum is {minimum}; expected at least 0")
    if len(limits) and int(limits.min()) < minimum:
        raise ValueError(f"maximum is {int(limits.min())}; expected at least minimum = {minimum}")
    training = model.training
    model.eval()
    try:
        return model.encode(source, source_lengths), limits
    finally:
        model.train(training)
