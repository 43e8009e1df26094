"""BLEU of drawn hypotheses: the check that needs none of the theory."""

import math

import torch
from torch import Tensor

from bleugrad.core.counted import CountedReferences
from bleugrad.core.expected_statistics import ScoreOptions
from bleugrad.core.matrix_bleu import bleu
from bleugrad.core.sequences import before_eos
from bleugrad.explanation.result import SampledBLEU
from bleugrad.losses.draws import draw_tokens

PADDING = -100
SAMPLE_BLOCK = 256
"""How many hypotheses are scored at once."""


def padded_references(counted: CountedReferences) -> Tensor:
    """The token ids as the public functions take them, (1, K, R) padded."""
    ids, lengths = counted.tokens.ids, counted.tokens.lengths
    return torch.where(torch.arange(ids.shape[2]) < lengths[..., None], ids, PADDING)


def sentence_bleu(tokens: Tensor, counted: CountedReferences, options: ScoreOptions) -> Tensor:
    """BLEU of hypotheses (S, T), cut before EOS, against the references of one sentence: (S,)."""
    kept = before_eos(tokens, torch.ones_like(tokens, dtype=torch.bool), counted.eos_id)
    references = padded_references(counted)
    result = bleu(
        torch.where(kept, tokens, PADDING),
        references.expand(tokens.shape[0], *references.shape[1:]),
        max_order=options.max_order,
        weights=options.weights,
        smoothing=options.smoothing,
        ignore_index=PADDING,
        word_start=counted.word_start,
    )
    return result.value


def sampled_bleu(
    probs: Tensor, counted: CountedReferences, options: ScoreOptions, samples: int, seed: int
) -> SampledBLEU:
    """Mean BLEU of ``samples`` hypotheses drawn from the rows ``probs`` (T, V), an unbiased estimate of E[BLEU]."""
    tokens = draw_tokens(probs[None], samples, torch.Generator().manual_seed(seed))[0]
    values = torch.cat([sentence_bleu(part, counted, options) for part in tokens.split(SAMPLE_BLOCK)])
    return SampledBLEU(values.mean().item(), values.std().item() / math.sqrt(samples), samples)
