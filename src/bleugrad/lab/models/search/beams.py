"""Beams of many sentences, and one step of beam search."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.lab.models.protocol import Decoding, Memory, State
from bleugrad.lab.models.search.hypothesis import Hypothesis, Rules
from bleugrad.lab.models.search.largest import largest
from bleugrad.lab.special_ids import BOS, EOS, PAD


@dataclass(frozen=True)
class Beams:
    """Open hypotheses of n sentences, at most W per sentence, the most likely first."""

    sentences: Tensor  # (n,), indices in the batch
    memory: Memory
    state: State  # of the hypotheses before the last token
    origins: Tensor  # (n * W,), the row of the state that each hypothesis continues
    tokens: Tensor  # (n, W, 1 + length), BOS first
    log_probs: Tensor  # (n, W), -inf where there is no hypothesis
    limits: Tensor  # (n,), largest number of tokens
    slots: Tensor  # (n,), free slots of the beam

    def __len__(self) -> int:
        return len(self.sentences)

    @classmethod
    def first(cls, memory: Memory, limits: Tensor, width: int) -> "Beams":
        """One empty hypothesis per sentence."""
        number, device = len(memory), memory.device
        tokens = torch.full((number, 1, 1), BOS, device=device)
        log_probs = torch.zeros(number, 1, device=device)
        sentences = torch.arange(number, device=device)
        slots = torch.full_like(sentences, width)
        return cls(sentences, memory, memory.state, sentences, tokens, log_probs, limits, slots)

    def running(self) -> "Beams":
        """The beams without sentences that have no open hypothesis."""
        runs = self.log_probs[:, 0] > -torch.inf
        if bool(runs.all()):
            return self
        rows = runs.nonzero()[:, 0]
        return Beams(
            self.sentences[rows],
            self.memory.select(rows),
            self.state,
            self.origins.view(len(self), -1)[rows].view(-1),
            self.tokens[rows],
            self.log_probs[rows],
            self.limits[rows],
            self.slots[rows],
        )


def extend(model: Decoding, beams: Beams, rules: Rules, length_penalty: float, found: list[list[Hypothesis]]) -> Beams:
    """The beams one token later, without finished sentences; finished hypotheses are added to ``found``."""
    number, before, filled = beams.tokens.shape
    log_probs, tokens, state = _continuations(model, beams, rules)
    parents = torch.arange(before, device=tokens.device).repeat_interleave(tokens.shape[2])
    log_probs, chosen = log_probs.flatten(1).topk(min(int(beams.slots.max()), log_probs[0].numel()), 1)
    outside = torch.arange(log_probs.shape[1], device=tokens.device) >= beams.slots[:, None]
    log_probs = log_probs.masked_fill(outside, -torch.inf)
    tokens, parents = tokens.flatten(1).gather(1, chosen), parents[chosen]

    ends = (tokens == EOS) & (log_probs > -torch.inf)
    rows, ranks = ends.nonzero(as_tuple=True)
    sentences = beams.sentences[rows].tolist()
    texts = beams.tokens[rows, parents[rows, ranks], 1:].tolist()
    for sentence, text, log_prob in zip(sentences, texts, log_probs[rows, ranks].tolist(), strict=True):
        found[sentence].append(Hypothesis(text, log_prob, log_prob / filled**length_penalty))
    slots = beams.slots - ends.sum(1)

    log_probs, order = log_probs.masked_fill(ends, -torch.inf).sort(dim=1, descending=True, stable=True)
    most = max(1, int((log_probs > -torch.inf).sum(1).max()))
    order = order[:, :most]
    tokens, parents = tokens.gather(1, order), parents.gather(1, order)
    history = beams.tokens.gather(1, parents[:, :, None].expand(-1, -1, filled))
    origins = (parents + torch.arange(number, device=parents.device)[:, None] * before).view(-1)
    tokens = torch.cat([history, tokens[:, :, None]], 2)
    after = Beams(beams.sentences, beams.memory, state, origins, tokens, log_probs[:, :most], beams.limits, slots)
    return after.running()


def _continuations(model: Decoding, beams: Beams, rules: Rules) -> tuple[Tensor, Tensor, State]:
    """Log-probabilities and ids (n, W, k) of the most likely next tokens, for the largest number of free slots k.

    Slots without a hypothesis are not projected; their continuations are -inf.
    """
    number, width, filled = beams.tokens.shape
    last = beams.tokens[:, :, -1].reshape(-1)
    hidden, state = model.step(beams.memory, beams.state, last, origins=beams.origins)
    before = beams.log_probs.reshape(-1)
    rows = (before > -torch.inf).nonzero()[:, 0]
    projected = hidden if len(rows) == len(hidden) else hidden[rows]
    next_log_probs = rules.log_probs(projected, filled - 1, beams.limits[rows // width])
    values, tokens = largest(next_log_probs, min(int(beams.slots.max()), model.target_size))
    values = values + before[rows, None]
    log_probs = values.new_full((number * width, values.shape[1]), -torch.inf).index_copy(0, rows, values)
    ids = tokens.new_full(log_probs.shape, PAD).index_copy(0, rows, tokens)
    return log_probs.view(number, width, -1), ids.view(number, width, -1), state
