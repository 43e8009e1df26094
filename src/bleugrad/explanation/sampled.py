"""BLEU of sampled hypotheses: a check that is independent of the theory."""

import math

import torch
from torch import Tensor

from bleugrad.backends.torch.sampled_rows import draw_tokens
from bleugrad.explanation.result import SampledBLEU
from bleugrad.references.sequences import before_eos
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.bleu_of_ids import bleu

PADDING = -100
SAMPLE_BLOCK = 256
"""Hypotheses scored at once."""


def padded_references(targets: Targets) -> Tensor:
    """The padded token ids (1, K, R) for the public functions."""
    ids, lengths = targets.tokens.ids, targets.tokens.lengths
    return torch.where(torch.arange(ids.shape[2]) < lengths[..., None], ids, PADDING)


def sentence_bleu(tokens: Tensor, targets: Targets, score: BLEU) -> Tensor:
    """BLEU of hypotheses (S, T), cut before EOS, against the references of one sentence: (S,)."""
    kept = before_eos(tokens, torch.ones_like(tokens, dtype=torch.bool), targets.eos_id)
    references = padded_references(targets)
    result = bleu(
        torch.where(kept, tokens, PADDING),
        references.expand(tokens.shape[0], *references.shape[1:]),
        max_order=score.max_order,
        weights=score.weights,
        smoothing=score.smoothing,
        level="sentence",
        ignore_index=PADDING,
        word_start=targets.word_start,
    )
    return result.value


def sampled_bleu(probs: Tensor, targets: Targets, score: BLEU, samples: int, seed: int) -> SampledBLEU:
    """Mean BLEU of ``samples`` hypotheses drawn from the rows ``probs`` (T, V), an unbiased estimate of E[BLEU]."""
    uniform = torch.rand(probs.shape[0], samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    tokens = draw_tokens(probs[None], uniform[None])[0].t()
    values = torch.cat([sentence_bleu(part, targets, score) for part in tokens.split(SAMPLE_BLOCK)])
    return SampledBLEU(values.mean().item(), values.std().item() / math.sqrt(samples), samples)
