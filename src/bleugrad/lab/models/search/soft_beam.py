"""Soft beam search: a continuous relaxation of beam search, with a gradient through every choice."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad.lab.models.protocol import Decoding, Memory, state_of
from bleugrad.lab.models.search.largest import largest
from bleugrad.lab.special_ids import BOS, EOS, PAD


@dataclass(frozen=True)
class SoftBeam:
    """The final beams of B sentences: W members per sentence, each a sequence of distributions."""

    tokens: Tensor  # (B, W, T, C), the tokens of each distribution; the same token may occur several times
    probs: Tensor  # (B, W, T, C), their probabilities, differentiable; they sum to 1
    scores: Tensor  # (B, W), the log-probability of each member, differentiable
    chosen: Tensor  # (B, W, T), the sequence that hard choices make of a member, with EOS; PAD elsewhere

    @property
    def mask(self) -> Tensor:
        """(B, W, T) bool, True up to and including EOS; nowhere if the beam has fewer members."""
        return self.chosen != PAD


@dataclass(frozen=True)
class Continuations:
    """The n continuations of the members of each beam: they add a token, or stay as they are after EOS."""

    scores: Tensor  # (B, n), finite
    tokens: Tensor  # (B, n), PAD if it stays
    parents: Tensor  # (n,), the member that each continues
    open: Tensor  # (B, n) bool, possible continuations by a token
    staying: Tensor  # (B, n) bool, those that stay


@dataclass(frozen=True)
class Choice:
    """One step of the beam: the ``index`` (B, W) that hard search takes, and the soft weights (B, W, n) around it.

    ``weights`` is the distribution of the token. ``onward`` is the one that states and embeddings follow: where the
    hard choice goes on, EOS is left out of it, since only what has not ended goes on. ``open`` and ``there`` (B, W)
    say whether a member goes on, and whether it exists.
    """

    index: Tensor
    weights: Tensor
    onward: Tensor
    open: Tensor
    there: Tensor


def soft_beam(
    model: Decoding,
    memory: Memory,
    width: int = 5,
    maximum: int | Tensor = 100,
    tau: float = 1.0,
    tokens: int = 32,
    rows: Literal["choices", "model"] = "choices",
    sharpness: float = 1.0,
    input_gradient: bool = True,
) -> SoftBeam:
    """Beam search with soft choices (Goyal et al., *A Continuous Relaxation of Beam Search*, 2018).

    At each step the W members of a beam have continuations with log-probabilities s, and hard beam search takes those
    with the W largest ones, m_1 .. m_W. Member j of the next beam is a mixture of all continuations, with the weights::

        softmax over continuations of -tau (s - m_j) ^ 2

    Embeddings of tokens and decoder states are mixed by these weights, and m_j is the log-probability of the member;
    the weights that belong to one parent are soft backpointers. At the end each member is traced back along them, so it
    is a sequence of distributions. The gradient goes through all of it, also through m_j.

    The distributions are the weights themselves, or with ``rows`` "model" what the model predicts at each step: its
    ``softmax(sharpness * logits)``, mixed over the members that are continued. Those are the rows of the candidates of
    beam search in the limit of ``tau``. Without ``input_gradient`` the mixtures that the decoder is fed are constants.

    As ``tau`` grows, the members become those of ``bleugrad.lab.models.search.beams.beam``: a member whose hard
    choice is EOS keeps its place and is not continued, EOS is forced at the largest length, and PAD and BOS are never
    chosen. With ``width`` 1 the decoder is fed mixtures of embeddings. Which continuations are taken and where a member
    ends are hard choices: the relaxation is piecewise continuous.

    Only the ``tokens`` most likely tokens of each member have weights; the others, of which a large ``tau`` leaves
    nothing, are left out. With ``tokens`` of V nothing is left out.

    ``memory`` has B encoded sources, ``width`` is W, and dropout is that of the model's mode. ``maximum`` is the
    largest number of tokens without EOS, or (B,) one number per sentence. ``tokens`` is at least ``width``.

    O(B W V) time and memory per step for the log-probabilities, O(B W^2 C) for the weights, where C is ``tokens``.
    """
    sentences, device = len(memory), memory.device
    limits = torch.as_tensor(maximum, device=device).expand(sentences)
    steps = 1 + (int(limits.max()) if sentences else 0)
    noise, state = model.draw_noise(sentences * width, steps), state_of(memory, sentences * width)
    if not hasattr(state, "mixed"):
        raise TypeError(
            f"the state of {type(model).__name__} is a {type(state).__name__}, which has no mixed(weights); "
            "expected a model whose states can be mixed, for a soft beam"
        )
    embedded = model.target_embedding(torch.full((sentences * width,), BOS, device=device))
    scores = torch.zeros(sentences, width, device=device)
    open_members = (torch.arange(width, device=device) == 0).expand(sentences, width)
    closed = torch.zeros_like(open_members)
    chosen = torch.empty(sentences, width, 0, dtype=torch.long, device=device)
    taken: list[tuple[Tensor, Tensor, Tensor]] = []
    for t in range(steps):
        hidden, state = model.step_embedded(memory, state, embedded, noise.at(t))
        values, ids = _best_tokens(model.project(hidden), limits <= t, width, min(tokens, model.target_size))
        found = _continuations(values, ids, scores, open_members, closed)
        choice = _choose(found, width, tau)
        parents = _by_parent(choice.onward, width)
        scores = found.scores.gather(1, choice.index)
        open_members, closed = choice.open, choice.there & ~choice.open
        token = found.tokens.gather(1, choice.index).masked_fill(~choice.there, PAD)
        origin = found.parents[choice.index][..., None].expand(-1, -1, t)
        chosen = torch.cat([chosen.gather(1, origin), token[..., None]], 2)
        weights = choice.weights if rows == "choices" else _of_model(choice.weights, (sharpness * values).softmax(2))
        taken.append((found.tokens, weights, parents))
        if not bool(open_members.any()):
            break
        of_tokens = model.target_embedding(found.tokens)
        fed = (choice.onward, parents) if input_gradient else (choice.onward.detach(), parents.detach())
        onward, parents = (each.to(of_tokens.dtype) for each in fed)
        embedded, state = torch.bmm(onward, of_tokens).flatten(0, 1), state.mixed(parents)
    return SoftBeam(*_traced(taken, width), scores, chosen.masked_fill(~choice.there[..., None], PAD))


def soft_choice(scores: Tensor, centres: Tensor, tau: float, possible: Tensor) -> Tensor:
    """``softmax(-tau (scores - centre)^2)`` for each centre: weights (B, W, n) of scores (B, n) around (B, W).

    Scores are finite. Where ``possible`` (B, W, n) is False the weight is 0; each centre needs something possible.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[-1.0, -3.0, -2.0]], dtype=torch.float64)
        >>> best = scores.topk(2).values
        >>> soft_choice(scores, best, 5.0, torch.tensor(True)).round(decimals=3).tolist()
        [[[0.993, 0.0, 0.007], [0.007, 0.007, 0.987]]]
    """
    distances = (scores[:, None] - centres[..., None]).square()
    return (-tau * distances).masked_fill(~possible, -torch.inf).softmax(2)


def _best_tokens(logits: Tensor, full: Tensor, width: int, number: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (B, W, C) of the most likely tokens, in float32 or finer, and the tokens; -inf for PAD and BOS.

    Where a sentence is ``full`` (B,), it is -inf for all tokens but EOS. The search itself needs no gradient.
    """
    with torch.autocast(logits.device.type, enabled=False):
        log_probs = F.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
    token = torch.arange(logits.shape[1], device=logits.device)
    forbidden = (token == PAD) | (token == BOS) | (full[:, None] & (token != EOS))
    ranked = log_probs.detach().masked_fill(forbidden.repeat_interleave(width, 0), -torch.inf)
    values, ids = largest(ranked, number)
    values = log_probs.gather(1, ids).masked_fill(values == -torch.inf, -torch.inf)
    shape = (len(full), width, number)
    return values.view(shape), ids.view(shape)


def _continuations(values: Tensor, ids: Tensor, scores: Tensor, open_members: Tensor, closed: Tensor) -> Continuations:
    """The continuations of each member by tokens ``ids`` (B, W, C) of log-probability ``values``; one that stays."""
    sentences, width, number = ids.shape
    possible = open_members[..., None] & (values > -torch.inf)
    longer = (scores[..., None] + values).masked_fill(~possible, 0)
    nothing = torch.zeros_like(closed)
    member = torch.arange(width, device=ids.device)
    return Continuations(
        torch.cat([longer.flatten(1), scores], 1),
        torch.cat([ids.flatten(1), ids.new_full((sentences, width), PAD)], 1),
        torch.cat([member.repeat_interleave(number), member]),
        torch.cat([possible.flatten(1), nothing], 1),
        torch.cat([torch.zeros_like(possible).flatten(1), closed], 1),
    )


def _choose(found: Continuations, width: int, tau: float) -> Choice:
    """The choices of hard beam search, those that stay first, and the weights around them."""
    ranks = found.scores.detach().masked_fill(~found.open, -torch.inf).masked_fill(found.staying, torch.inf)
    best, index = (each[:, :width] for each in ranks.sort(dim=1, descending=True, stable=True))
    there, stays = best > -torch.inf, best == torch.inf
    ends = found.tokens == EOS
    goes_on = there & ~stays & ~ends.gather(1, index)
    itself = torch.arange(ranks.shape[1], device=index.device) == index[..., None]
    possible = torch.where(stays[..., None], itself, found.open[:, None]) | ~there[..., None]
    centres = found.scores.gather(1, index)
    weights = soft_choice(found.scores, centres, tau, possible)
    onward = soft_choice(found.scores, centres, tau, possible & ~(goes_on[..., None] & ends[:, None]))
    return Choice(index, weights, onward, goes_on, there)


def _of_model(weights: Tensor, probs: Tensor) -> Tensor:
    """Weights (B, W, n) as soft choices have, in which each parent spreads its share by ``probs`` (B, W, C)."""
    width = probs.shape[1]
    longer, staying = weights[..., :-width], weights[..., -width:]
    shares = longer.unflatten(2, (width, -1)).sum(3, keepdim=True)
    return torch.cat([(shares * probs[:, None]).flatten(2), staying], 2)


def _by_parent(weights: Tensor, width: int) -> Tensor:
    """Soft backpointers (B, W, W): the weights (B, W, n) of the continuations of each member, summed."""
    longer, staying = weights[..., :-width], weights[..., -width:]
    of_members: Tensor = longer.unflatten(2, (width, -1)).sum(3)
    return of_members + staying


def _traced(taken: list[tuple[Tensor, Tensor, Tensor]], width: int) -> tuple[Tensor, Tensor]:
    """Tokens and probabilities (B, W, T, n) of the members of the last beam, along the soft backpointers."""
    path = torch.eye(width, dtype=taken[0][2].dtype, device=taken[0][2].device).expand_as(taken[0][2])
    tokens, probs = [], []
    with torch.autocast(path.device.type, enabled=False):
        for ids, weights, parents in reversed(taken):
            tokens.append(ids[:, None].expand(-1, width, -1))
            probs.append(path @ weights)
            path = path @ parents
    return torch.stack(tokens[::-1], 2), torch.stack(probs[::-1], 2)
