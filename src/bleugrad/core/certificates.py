"""Certified intervals for a sentence's true E[BLEU], from the exact expected matches.

Given its length, a hypothesis has fixed totals M_n and brevity penalty, and e_n = E[O_n | length]. Let s be the
smoothing.

* Upper (Hoelder, weights sum to 1): E[BLEU] <= BP prod_n ((e_n + s) / (M_n + s)) ^ w_n.
* Lower, one reference: O_1 >= O_2 >= ... gives E[BLEU] >= BP (e_h + s) / prod_n (M_n + s) ^ w_n, h the highest order of
  positive weight.
* Lower, s > 0, any references: exp is convex and log(s + O) lies above its chord on 0..m_n, the most matches possible,
  so E[BLEU] >= BP exp(sum_n w_n ((1 - e_n / m_n) log s + (e_n / m_n) log(s + m_n) - log(M_n + s))).

A random length is a mixture: certify each length, then mix. Upper and chain bound are homogeneous in the probability of
the length, so they are formed from the joint expectations P(length = l) e_n(l) without dividing by P(length = l).
"""

import math

import torch
from torch import Tensor

from bleugrad.core.lengths import Lengths, penalty_by_length
from bleugrad.core.ngrams import Patterns
from bleugrad.core.score import weighted_geometric_mean
from bleugrad.core.sequences import References


def certified_interval(
    new_matches: Tensor,
    lengths: Lengths,
    references: References,
    patterns: Patterns,
    weights: tuple[float, ...],
    smoothing: float,
) -> tuple[Tensor | None, Tensor]:
    """Lower (None where no certificate is known: several references without smoothing) and upper bound, (B,) each.

    Args:
        new_matches: (T, B, N), exact expected new matches completed at each position.
        lengths: the length distribution that goes with them.
        references: of each sentence.
        patterns: their n-grams.
        weights: of the orders.
        smoothing: s.

    O(B N T) time. Divisions are by totals clamped to 1 where they are 0, with the quotient then set to 0, and, in the
    chord bound, by P(length = l) clamped to the smallest normal number.
    """
    joint = matches_by_length(new_matches, lengths)
    totals = lengths.ngram_totals(len(weights))
    penalty = penalty_by_length(lengths, references)
    upper = penalty * _joint_geometric_mean(joint, totals, lengths.probs, weights, smoothing)
    lowers = []
    if not references.several:
        lowers.append(penalty * _chain_bound(joint, totals, lengths.probs, weights, smoothing))
    if smoothing > 0:
        most = torch.minimum(totals, patterns.clips.sum(2)[:, :, None].to(totals.dtype))
        lowers.append(penalty * _chord_bound(joint, totals, most, lengths.probs, weights, smoothing))
    lower = torch.stack(lowers).amax(0).sum(1) if lowers else None
    return lower, upper.sum(1)


def matches_by_length(new_matches: Tensor, lengths: Lengths) -> Tensor:
    """Joint expectations E[O_n; length = l] for every possible length: (T, B, N) to (B, N, S)."""
    if lengths.alive is None or lengths.stop is None:
        return new_matches.sum(0).unsqueeze(2)
    batch, max_order = new_matches.shape[1:]
    reached = [new_matches.new_zeros(batch, max_order)]
    for new, alive in zip(new_matches, lengths.alive, strict=True):
        reached.append(reached[-1] * alive[:, None] + new)
    return torch.stack(reached, 2) * lengths.stop[:, None, :]


def _joint_geometric_mean(
    joint: Tensor, totals: Tensor, probs: Tensor, weights: tuple[float, ...], smoothing: float
) -> Tensor:
    """P(l) prod_n ((e_n + s) / (M_n + s)) ^ w_n, (B, S)."""
    denominator = totals + smoothing
    share = (joint + smoothing * probs[:, None, :]) / torch.where(denominator > 0, denominator, 1)
    return weighted_geometric_mean(torch.where(denominator > 0, share, 0).transpose(1, 2), weights)


def _chain_bound(joint: Tensor, totals: Tensor, probs: Tensor, weights: tuple[float, ...], smoothing: float) -> Tensor:
    """P(l) (e_h + s) / prod_n (M_n + s) ^ w_n, (B, S); 0 where a denominator is 0."""
    highest = max(order for order, weight in enumerate(weights) if weight > 0)
    scale = weighted_geometric_mean((totals + smoothing).transpose(1, 2), weights)
    return torch.where(scale > 0, (joint[:, highest] + smoothing * probs) / torch.where(scale > 0, scale, 1), 0)


def _chord_bound(
    joint: Tensor, totals: Tensor, most: Tensor, probs: Tensor, weights: tuple[float, ...], smoothing: float
) -> Tensor:
    """P(l) exp(sum_n w_n (log s + (e_n / m_n) (log(s + m_n) - log s) - log(M_n + s))), (B, S)."""
    given = joint / probs.clamp(min=torch.finfo(probs.dtype).tiny)[:, None, :]
    share = (given / most.clamp(min=1)).clamp(max=1)
    log_s = math.log(smoothing)
    logs = log_s + share * ((most + smoothing).log() - log_s) - (totals + smoothing).log()
    return probs * torch.einsum("bns,n->bs", logs, logs.new_tensor(weights)).exp()
