"""Beam search for many sentences at once."""

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


@torch.no_grad()
def beam(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    width: int = 5,
    maximum: int | Tensor = 100,
    minimum: int = 0,
    length_penalty: float = 1.0,
    n_best: int = 1,
    forbid_unk: bool = False,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of each sentence by beam search, the best first; fewer if no more were found.

    A beam has ``width`` slots; one slot is greedy search. At each step the most likely continuations of the open
    hypotheses of a sentence fill the free slots. Those that end with EOS keep their slot. A sentence is done when no
    slot is free, and leaves the batch. If there are as many slots as translations, the search is exhaustive.

    A hypothesis ends with EOS, which is forced at the largest length. Its log-probability includes EOS. Its score is
    ``log_prob / length ** length_penalty``, where the length includes EOS. PAD and BOS are never generated.

    ``source`` (B, S) has lengths (B,). ``maximum`` and ``minimum`` are numbers of tokens without EOS, the first for all
    sentences or (B,) for each. A ``length_penalty`` of 0 ranks by log-probability, 1 by its mean over tokens. The model
    may be in any mode; dropout is off.
    """
    if width < 1:
        raise ValueError(f"width is {width}; expected at least 1")
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best is {n_best}; expected 1 to width = {width}")
    limits = torch.as_tensor(maximum, device=source.device).expand(len(source))
    if minimum < 0:
        raise ValueError(f"minimum is {minimum}; expected at least 0")
    if len(limits) and int(limits.min()) < minimum:
        raise ValueError(f"maximum is {int(limits.min())}; expected at least minimum = {minimum}")
    training = model.training
    try:
        memory = model.eval().encode(source, source_lengths)
    finally:
        model.train(training)
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    running, rules = Beams.first(memory, limits, width), Rules(model.projection(), minimum, forbid_unk)
    while len(running):
        running = _extend(model, running, rules, length_penalty, found)
    if not all(found):
        raise ValueError("the model gives no token a probability; expected finite parameters and a word to choose")
    ranked = [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]
    return [each[:n_best] for each in ranked]


def _extend(model: Decoding, beams: Beams, rules: Rules, length_penalty: float, found: list[list[Hypothesis]]) -> Beams:
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
