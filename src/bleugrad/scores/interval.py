"""Certified intervals for a sentence's true E[BLEU], from the exact expected matches.

With e_n = E[O_n | length] and the smoothing s, the totals M_n and the brevity penalty BP being fixed by the length:

* Upper (Hoelder): E[BLEU] <= BP prod_n ((e_n + s) / (M_n + s)) ^ w_n.
* Lower, one reference (chain, O_1 >= O_2 >= ...): E[BLEU] >= BP (e_h + s) / prod_n (M_n + s) ^ w_n, h the highest
  order of positive weight.
* Lower, s > 0 (chord): E[BLEU] >= BP exp(sum_n w_n ((1 - e_n / m_n) log s + (e_n / m_n) log(s + m_n) - log(M_n + s))),
  m_n the most matches possible.

A random length is a mixture: certify each length, then mix. Upper and chain bound are formed from the joint
expectations P(length = l) e_n(l) without dividing by P(length = l). In words E[O_n | length] is not known, and
:func:`_interval_of_words` bounds with E[O_n] alone. ``docs/mathematics.md`` and ``docs/words.md`` have the proofs.

Rounding is on the safe side: both ends are moved outward by more than the rounding errors of all that leads to them,
see :func:`_outward`, and the upper end is at most 1.
"""

import math

import torch
from torch import Tensor

from bleugrad.matches.exact import completed_matches, matches_by_length
from bleugrad.matches.statistics import ExpectedStatistics, RowWindows
from bleugrad.scores.bleu import BLEU, closest_lengths, ngram_totals, penalty_by_length, weighted_geometric_mean


def certified_interval(statistics: ExpectedStatistics, score: BLEU) -> tuple[Tensor | None, Tensor | None]:
    """Lower (None where no certificate is known: several references without smoothing) and upper bound, (B,) each.

    From the exact expectations, whatever the method. O(B N T) time. Divisions are by totals clamped to 1 where they are
    0, with the quotient then set to 0, and, in the chord bound, by probabilities clamped to the smallest normal number.
    """
    windows = statistics.windows
    if windows is None:
        return None, None
    dtype = windows.probs.dtype  # a bound of rounding errors: one per position, and 32, several times those measured
    slack = (windows.limits + 32).to(dtype) * torch.finfo(dtype).eps
    if windows.opening is not None:
        lower, upper = _interval_of_words(statistics, windows, score, slack)
    else:
        lower, upper = _interval_by_length(statistics, windows, score)
    return _outward(lower, upper, slack, windows.ending is not None)


def _outward(lower: Tensor | None, upper: Tensor, slack: Tensor, random_length: bool) -> tuple[Tensor | None, Tensor]:
    """The interval with its ends moved outward by rounding errors.

    Expected matches and factors of the score are sums of products of positive numbers, so their errors are relative. A
    random length survives a position with probability 1 - p, whose error is that of 1.
    """
    info = torch.finfo(upper.dtype)
    relative, absolute = slack, slack if random_length else info.tiny / info.eps  # what sums may lose to underflow
    if lower is not None:
        lower = (lower * (1 - relative) - absolute).clamp(min=0)
    return lower, (upper * (1 + relative) + absolute).clamp(max=1)


def _interval_by_length(
    statistics: ExpectedStatistics, windows: RowWindows, score: BLEU
) -> tuple[Tensor | None, Tensor]:
    lengths, joint, references = statistics.lengths, matches_by_length(windows), statistics.references
    totals = ngram_totals(lengths, score.max_order)
    penalty = penalty_by_length(lengths, references)
    upper = penalty * _joint_geometric_mean(joint, totals, lengths.probs, score)
    lowers = []
    if not references.has_multiple:
        lowers.append(penalty * _chain_bound(joint, totals, lengths.probs, score))
    if score.smoothing > 0:
        most = torch.minimum(totals, windows.patterns.clips.sum(2)[:, :, None].to(totals.dtype))
        lowers.append(penalty * _chord_bound(joint, totals, most, lengths.probs, score))
    lower = torch.stack(lowers).amax(0).sum(1) if lowers else None
    return lower, upper.sum(1)


def _interval_of_words(
    statistics: ExpectedStatistics, windows: RowWindows, score: BLEU, slack: Tensor
) -> tuple[Tensor | None, Tensor]:
    """With ``slack``, the rounding error of sums of probabilities, added to them on the safe side."""
    lengths, smoothing, references = statistics.lengths, score.smoothing, statistics.references
    matches = completed_matches(windows).sum(0)
    weights = matches.new_tensor(score.weights)
    probs = lengths.probs.clamp(min=0)
    totals = ngram_totals(lengths, len(score.weights))
    penalty = penalty_by_length(lengths, references)
    orders = torch.arange(totals.shape[1], device=totals.device)
    longest = (windows.limits[:, None] - orders).clamp(min=0)  # if every token is a word
    most = torch.minimum(longest, windows.patterns.clips.sum(2)).to(totals.dtype)
    unsure = slack[:, None].expand_as(probs)
    if windows.ending is None:
        unsure = unsure * (lengths.support > 0)  # nothing is below w = 0
    upper = _upper_of_words(matches, probs, totals, penalty, score, unsure)
    lowers = []
    if not references.has_multiple:
        lowers.append(_chain_bound_of_words(matches, most, probs, totals, penalty, score, slack))
    if smoothing > 0:
        alive = probs[:, 1:].sum(1)
        given = probs[:, 1:] / alive.clamp(min=torch.finfo(probs.dtype).tiny)[:, None]
        share = matches / (most.clamp(min=1) * alive.clamp(min=torch.finfo(probs.dtype).tiny)[:, None])
        log_s = math.log(smoothing)
        logs = log_s + share.clamp(max=1) * ((most + smoothing).log() - log_s)
        logs = logs - (given[:, None] * (totals[:, :, 1:] + smoothing).log()).sum(2)
        support = lengths.support[:, 1:]
        shortfall = (closest_lengths(references, support) - support).clamp(min=0)
        log_penalty = -(given * shortfall / support).sum(1)
        lowers.append(alive * (log_penalty + (logs * weights).sum(1)).exp())
    return torch.stack(lowers).amax(0) if lowers else None, upper


def _upper_of_words(
    matches: Tensor, probs: Tensor, totals: Tensor, penalty: Tensor, score: BLEU, slack: Tensor
) -> Tensor:
    """prod_n (min_w (E[BP; W < w] + max_{l >= w} (BP / (M_n + s)) (e_n + s P(W >= w)))) ^ w_n, (B,)."""
    smoothing = score.smoothing
    possible = totals + smoothing > 0
    worth = torch.where(possible, penalty[:, None] / torch.where(possible, totals + smoothing, 1), 0)
    best = worth.flip(2).cummax(2).values.flip(2)
    below = (probs * penalty).cumsum(1) - probs * penalty + slack
    above = probs.flip(1).cumsum(1).flip(1)
    bounds = below[:, None] + best * (matches[..., None] + smoothing * above[:, None])
    return weighted_geometric_mean(bounds.amin(2), score.weights)


def _chain_bound_of_words(
    matches: Tensor, most: Tensor, probs: Tensor, totals: Tensor, penalty: Tensor, score: BLEU, slack: Tensor
) -> Tensor:
    """max over thresholds f of f (e_h + s - E[m(W) + s; f(W) < f]), f(l) = BP(l) / prod_n (M_n(l) + s) ^ w_n, (B,)."""
    highest, scale = _highest_and_scale(totals, score)
    worth, order = torch.where(scale > 0, penalty / torch.where(scale > 0, scale, 1), 0).sort(1, descending=True)
    possible = torch.minimum(totals[:, highest], most[:, highest, None]) + score.smoothing
    cost = (probs * possible).gather(1, order)
    error = slack * (most[:, highest] + score.smoothing)
    left_out = cost.flip(1).cumsum(1).flip(1) - cost + error[:, None]
    whole = matches[:, highest] + score.smoothing * probs.sum(1)
    return (worth * (whole[:, None] - left_out)).amax(1).clamp(min=0)


def _joint_geometric_mean(joint: Tensor, totals: Tensor, probs: Tensor, score: BLEU) -> Tensor:
    """P(l) prod_n ((e_n + s) / (M_n + s)) ^ w_n, (B, S)."""
    denominator = totals + score.smoothing
    share = (joint + score.smoothing * probs[:, None, :]) / torch.where(denominator > 0, denominator, 1)
    return weighted_geometric_mean(torch.where(denominator > 0, share, 0).transpose(1, 2), score.weights)


def _chain_bound(joint: Tensor, totals: Tensor, probs: Tensor, score: BLEU) -> Tensor:
    """P(l) (e_h + s) / prod_n (M_n + s) ^ w_n, (B, S); 0 where a denominator is 0."""
    highest, scale = _highest_and_scale(totals, score)
    return torch.where(scale > 0, (joint[:, highest] + score.smoothing * probs) / torch.where(scale > 0, scale, 1), 0)


def _highest_and_scale(totals: Tensor, score: BLEU) -> tuple[int, Tensor]:
    """The index of the highest order of positive weight, and prod_n (M_n + s) ^ w_n, (B, S)."""
    highest = max(order for order, weight in enumerate(score.weights) if weight > 0)
    return highest, weighted_geometric_mean((totals + score.smoothing).transpose(1, 2), score.weights)


def _chord_bound(joint: Tensor, totals: Tensor, most: Tensor, probs: Tensor, score: BLEU) -> Tensor:
    """P(l) exp(sum_n w_n (log s + (e_n / m_n) (log(s + m_n) - log s) - log(M_n + s))), (B, S)."""
    given = joint / probs.clamp(min=torch.finfo(probs.dtype).tiny)[:, None, :]
    share = (given / most.clamp(min=1)).clamp(max=1)
    log_s = math.log(score.smoothing)
    logs = log_s + share * ((most + score.smoothing).log() - log_s) - (totals + score.smoothing).log()
    return probs * torch.einsum("bns,n->bs", logs, logs.new_tensor(score.weights)).exp()
