"""The loss of a step by its definition: one sentence at a time, without padding, then the chosen mean."""

import math

import torch

import bleugrad
from bleugrad.losses import recipe


def sentence_losses(model, rows, *, excluded=(), level="sentence", **options):
    """(1 - BLEU, cross-entropy sum, labels) of each sentence, each run through the model alone."""
    found = []
    for feature in rows:
        logits, labels = _run_alone(model, feature)
        kept = torch.tensor([label not in excluded for label in labels.tolist()])
        references = feature.get("references", [labels[kept].tolist()])
        references = [[[i for i in one if i not in excluded] for one in references]]
        value = bleugrad.expected_bleu(logits[None, kept], references, level="sentence", **options).value
        nll = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        found.append((1 - value[0], nll, len(labels)))
    return found


def step_loss(model, rows, weighting="tokens", blend=1.0, adaptive=False, **options):
    if adaptive:
        return _adaptive_loss(sentence_losses(model, rows, **options), blend)
    bleu, nll, lengths = zip(*sentence_losses(model, rows, **options), strict=True)
    if weighting == "tokens":
        total = sum(lengths)
        mean_bleu = sum(one * length for one, length in zip(bleu, lengths, strict=True)) / total
        return blend * mean_bleu + (1 - blend) * sum(nll) / total
    mean_nll = sum(one / length for one, length in zip(nll, lengths, strict=True)) / len(rows)
    return blend * sum(bleu) / len(rows) + (1 - blend) * mean_nll


def _adaptive_loss(found, blend):
    """Cross-entropy, and BLEU with a share that rises with the probability of the labels."""
    total = 0
    for bleu, nll, length in found:
        likely = math.exp(-nll.item() / length)
        share = blend * recipe.MOST * likely**2 / (likely**2 + recipe.HALF**2)
        total = total + share * bleu * length + (1 - share) * nll
    return total / sum(length for _, _, length in found)


def _run_alone(model, feature):
    inputs = {name: torch.tensor([feature[name]]) for name in ("input_ids", "attention_mask")}
    labels = torch.tensor(feature["labels"])
    if model.config.is_encoder_decoder:
        given = labels[None]
        logits = model(**inputs, labels=given).logits[0]  # the model's own way to decoder inputs
        return logits, labels
    logits = model(**inputs).logits[0, :-1]
    valid = labels[1:] != -100
    return logits[valid], labels[1:][valid]
