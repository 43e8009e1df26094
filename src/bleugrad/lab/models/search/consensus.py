"""Minimum Bayes risk decoding: the candidate that is closest to the model's own output, on average."""

import math
from itertools import chain

import torch
from torch import Tensor

from bleugrad import mbr
from bleugrad.lab.models.feeding import draw
from bleugrad.lab.models.one_pass import OnePassModel
from bleugrad.lab.models.protocol import AutoregressiveModel, Decoding, TranslationModel
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.hypothesis import Hypothesis, Rules
from bleugrad.lab.special_ids import BOS, EOS

DRAWN = 32
"""Samples of an autoregressive model, which are its candidates too."""


@torch.no_grad()
def consensus(
    model: TranslationModel,
    source: Tensor,
    source_lengths: Tensor,
    maximum: Tensor,
    forbid_unk: bool = False,
    word_start: Tensor | None = None,
) -> list[Hypothesis]:
    """The candidate with the highest score of :func:`bleugrad.mbr`, which is the score; no log-probability is known.

    Candidates of a one-pass model are its translations with several penalties, and samples; those of a graph are its
    translation and likely paths. They are compared with its distribution. An autoregressive model is sampled; samples
    and its greedy translation are compared with the samples, in words if ``word_start`` (V,) says where they begin.
    Draws depend on the batch only; torch's random state stays.
    """
    with torch.random.fork_rng(devices=[source.device] if source.is_cuda else []):
        torch.manual_seed(0)
        if isinstance(model, OnePassModel):
            return _of_distribution(model, source, source_lengths, maximum, forbid_unk)
        if not isinstance(model, AutoregressiveModel):
            raise TypeError(f"model is a {type(model).__name__}, which cannot translate")
        return _of_samples(model, source, source_lengths, maximum, forbid_unk, word_start)


def _of_distribution(
    model: OnePassModel, source: Tensor, source_lengths: Tensor, maximum: Tensor, forbid_unk: bool
) -> list[Hypothesis]:
    if not len(source):
        return []
    hidden, lengths = model.evaluated(source, source_lengths)
    never = model.never(forbid_unk)
    output, mask = model.distribution(hidden, lengths, never)
    lists = [model.several(output, lengths)]
    for further in model.further:
        penalty = model.skip_penalty + further * model.penalty_unit
        lists.append([[tokens] for tokens, _, _ in model.read(hidden, lengths, never, penalty)])
    found = []
    for own, most in zip(zip(*lists, strict=True), maximum.tolist(), strict=True):
        unique = dict.fromkeys(tuple(tokens[:most]) for tokens in chain(*own))
        found.append([list(tokens) for tokens in unique])
    result = mbr(output, found, mask=mask, eos_id=None if mask is None else EOS)
    return _chosen(found, result.scores, result.best)


def _of_samples(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    maximum: Tensor,
    forbid_unk: bool,
    word_start: Tensor | None,
) -> list[Hypothesis]:
    if not len(source):
        return []
    most_likely = beam(model, source, source_lengths, 1, maximum, forbid_unk=forbid_unk)
    sources, lengths, longest = (one.repeat_interleave(DRAWN, 0) for one in (source, source_lengths, maximum))
    drawn = _sampled(model, sources, lengths, longest, Rules(model.projection(), forbid_unk=forbid_unk))
    samples = [drawn[first : first + DRAWN] for first in range(0, len(drawn), DRAWN)]
    found = [[*own, best.tokens] for own, (best,) in zip(samples, most_likely, strict=True)]
    result = mbr(samples, found, word_start=word_start)
    return _chosen(found, result.scores, result.best)


def _sampled(model: Decoding, source: Tensor, source_lengths: Tensor, limits: Tensor, rules: Rules) -> list[list[int]]:
    """One sampled translation per sentence, of at most ``limits`` (B,) tokens."""
    training = model.training
    try:
        memory = model.eval().encode(source, source_lengths)
    finally:
        model.train(training)
    state, tokens = memory.state, torch.full((len(source), 1), BOS, device=source.device)
    while not bool((tokens == EOS).any(1).all()):
        hidden, state = model.step(memory, state, tokens[:, -1])
        tokens = torch.cat([tokens, draw(rules.log_probs(hidden, tokens.shape[1] - 1, limits))[:, None]], 1)
    return [own[1 : own.index(EOS)] for own in tokens.tolist()]


def _chosen(candidates: list[list[list[int]]], scores: Tensor, best: Tensor) -> list[Hypothesis]:
    values = scores.gather(1, best[:, None])[:, 0].tolist()
    return [
        Hypothesis(own[place], math.nan, value)
        for own, place, value in zip(candidates, best.tolist(), values, strict=True)
    ]
