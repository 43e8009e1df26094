"""Glancing: a model that is trained by likelihood is shown some symbols of the reference where it was wrong.

The model decodes once without gradient. The reference is assigned to its positions by the most likely alignment. A
random part of the assigned symbols is shown, ``ratio`` times the share of wrong ones, and the model decodes again.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def shown_symbols(assigned: Tensor, predicted: Tensor, ratio: float) -> Tensor:
    """The symbols (B, T) to show, -1 elsewhere.

    ``assigned`` (B, T) are those of the reference, -1 where there is none, ``predicted`` (B, T) those of the model.
    Each assigned symbol is shown with a probability of ``ratio`` times the sentence's share of wrong ones.
    """
    counted = assigned >= 0
    share = ratio * (counted & (assigned != predicted)).sum(1) / counted.sum(1).clamp(min=1)
    chosen = counted & (torch.rand(assigned.shape, device=assigned.device) < share[:, None])
    return assigned.masked_fill(~chosen, -1)


def best_path(emissions: Tensor, transitions: Tensor, lengths: Tensor, numbers: Tensor) -> Tensor:
    """The vertices (B, R) of the most likely path that emits the labels; -1 after the last label, or if there is none.

    Args:
        emissions: (B, T, R), the log-probability of each label at each vertex.
        transitions: (B, T, T), the log-probability to go from w to u, -inf unless w < u < ``lengths``.
        lengths: (B,), the number of vertices.
        numbers: (B,), the number of labels.
    """
    most = emissions.shape[2]
    last = (lengths - 1).clamp(min=0)[:, None]
    scores, before = [torch.full_like(emissions[:, :, 0], -torch.inf)], []
    scores[0][:, :1] = emissions[:, :1, 0]
    for i in range(1, most):
        value, origin = (scores[-1][:, :, None] + transitions).max(1)
        scores.append(value + emissions[:, :, i])
        before.append(origin)
    ended = torch.stack(scores, 2).gather(1, last[..., None].expand(-1, -1, most))[:, 0]
    possible = (numbers > 0) & (ended.gather(1, (numbers - 1).clamp(min=0)[:, None])[:, 0] > -torch.inf)
    place, path = last[:, 0], []
    for i in range(most - 1, -1, -1):
        if i + 1 < most:
            place = torch.where(i + 1 < numbers, before[i].gather(1, place[:, None])[:, 0], place)
        path.append(torch.where(possible & (i < numbers), place, -1))
    return torch.stack(path[::-1], 1)


def best_frames(log_probs: Tensor, labels: Tensor, lengths: Tensor, numbers: Tensor, blank: int) -> Tensor:
    """The most likely frames (B, T) that collapse to the labels; -1 past the length, or if there are none.

    Args:
        log_probs: (B, T, V), the log-probabilities of the symbols.
        labels: (B, R) ids.
        lengths: (B,), frames that count, at least 1.
        numbers: (B,), labels that count.
        blank: its id.
    """
    batch, steps, _ = log_probs.shape
    states = F.pad(torch.stack([torch.full_like(labels, blank), labels], 2).flatten(1), (0, 1), value=blank)
    emitted = log_probs.gather(2, states[:, None].expand(-1, steps, -1))
    skips = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    never = F.pad(~skips, (2, 0), value=True)
    score = torch.full_like(emitted[:, 0], -torch.inf)
    score[:, :2] = emitted[:, 0, :2]
    scores, before = [score], []
    for t in range(1, steps):
        one, two = (F.pad(score, (by, 0), value=-torch.inf)[:, : states.shape[1]] for by in (1, 2))
        best, moved = torch.stack([score, one, two.masked_fill(never, -torch.inf)]).max(0)
        score = best + emitted[:, t]
        scores.append(score)
        before.append(moved)
    ended = torch.stack(scores, 1)[torch.arange(batch), lengths - 1]
    ends = torch.stack([2 * numbers, (2 * numbers - 1).clamp(min=0)], 1)
    best, which = ended.gather(1, ends).max(1)
    place, frames = ends.gather(1, which[:, None])[:, 0], []
    for t in range(steps - 1, -1, -1):
        if t + 1 < steps:
            place = torch.where(t + 1 < lengths, place - before[t].gather(1, place[:, None])[:, 0], place)
        symbol = states.gather(1, place[:, None])[:, 0]
        frames.append(torch.where((t < lengths) & (best > -torch.inf), symbol, -1))
    return torch.stack(frames[::-1], 1)
