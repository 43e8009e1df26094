"""Random calls of the public functions: a finite result, or a TypeError or ValueError that names an argument."""

import inspect
import re
import warnings

import numpy as np
import torch

import bleugrad

IGNORE = -100
ODD_NUMBERS = (-1, 0, 2**31, 2**62, 2**63, -(2**64), 10**400, 1e39, -1e39, 1e-45, np.nan, np.inf, -np.inf)
ODD_VALUES = (None, "x", "", [], [[]], [None], {}, (), True, 1.5, b"x", torch.zeros(0), torch.zeros(1, 1), torch.nan)
DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check(seed):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    name = str(rng.choice(list(CALLS)))
    options, arguments, call = CALLS[name](rng)
    changed = None
    if rng.random() < 0.6:
        target = options if options and rng.random() < 0.5 else arguments
        changed = str(rng.choice(list(target)))
        target[changed] = _spoil(rng, target[changed])
    tensors = [value for value in arguments.values() if torch.is_tensor(value) and value.is_floating_point()]
    for tensor in tensors:
        tensor.requires_grad_()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(options, arguments)
            wrong = _not_finite(result, tensors)
    except (TypeError, ValueError) as error:
        if changed is None:
            wrong = f"a valid call raised {type(error).__name__}: {error}"
        elif not re.search(rf"\b({'|'.join([*options, *arguments, 'tokenizer'])})\b", str(error)):
            wrong = f"{type(error).__name__} names no argument: {error}"
        else:
            wrong = None
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong is None:
        return None
    given = options | arguments
    shown = ", ".join(f"{key}={_shown(value)}" for key, value in given.items())
    return f"{name}({shown}){'' if changed is None else f' with an odd {changed}'}: {wrong[:300]}"


def _draw(rng):
    """Sizes, logits with ids of all kinds, and the options that the functions share."""
    batch, steps, vocabulary = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(2, 7))
    logits = torch.from_numpy(rng.normal(size=(batch, steps, vocabulary)) * rng.choice([0.1, 1.0, 30.0, 1e4]))
    logits = logits.to(DTYPES[rng.integers(len(DTYPES))])
    if rng.random() < 0.1:
        logits[..., 1:] = logits[..., 1:].masked_fill(
            torch.from_numpy(rng.random(logits[..., 1:].shape) < 0.3), -np.inf
        )
    several = rng.random() < 0.3
    references = [
        [_ids(rng, vocabulary) for _ in range(rng.integers(1, 4))] if several else _ids(rng, vocabulary)
        for _ in range(batch)
    ]
    labels = torch.from_numpy(rng.integers(0, vocabulary, (batch, steps)))
    labels[torch.from_numpy(rng.random((batch, steps)) < 0.2)] = IGNORE
    order = int(rng.integers(1, 6))
    score = {
        "max_order": order,
        "weights": None if rng.random() < 0.7 else (np.ones(order) / order).tolist(),
        "smoothing": float(rng.choice([0.0, 0.1, 1.0])),
        "ignore_index": IGNORE,
    }
    eos_id = int(rng.integers(vocabulary)) if rng.random() < 0.4 else None
    word_start = torch.from_numpy(rng.random(vocabulary) < 0.6) if rng.random() < 0.3 else None
    mask = torch.from_numpy(rng.random((batch, steps)) < 0.8) if rng.random() < 0.3 else None
    return logits, references, labels, score, eos_id, word_start, mask


def _ids(rng, vocabulary):
    return rng.integers(0, vocabulary, rng.integers(0, 7)).tolist()


def _bleu(rng):
    _, references, _, score, _, word_start, _ = _draw(rng)
    vocabulary = len(word_start) if word_start is not None else 2
    arguments = {
        "hypotheses": [rng.integers(0, vocabulary, rng.integers(0, 7)).tolist() for _ in references],
        "references": references if word_start is None else [_ids(rng, vocabulary) for _ in references],
        "hypothesis_lengths": None,
        "level": str(rng.choice(["sentence", "corpus"])),
        "word_start": word_start,
    } | score
    return {}, arguments, lambda _, given: bleugrad.bleu(**given)


def _expected(rng):
    logits, references, _, score, eos_id, word_start, mask = _draw(rng)
    arguments = {"logits": logits, "references": references, "mask": mask, "eos_id": eos_id, "word_start": word_start}
    arguments |= score | _method(rng)
    return {}, arguments, lambda _, given: bleugrad.expected_bleu(**given)


def _linear(rng):
    _, arguments, _ = _expected(rng)
    return {}, _projected(rng, arguments), lambda _, given: bleugrad.linear_expected_bleu(**given)


def _loss(rng):
    logits, references, labels, score, eos_id, word_start, mask = _draw(rng)
    options = score | _method(rng) | {"eos_id": eos_id, "word_start": word_start, "process_group": None}
    options["reduction"] = str(rng.choice(["mean", "sum", "none"]))
    finite = bool(logits.isfinite().all())  # the cross-entropy of a label of probability 0 is infinite
    options["cross_entropy_weight"] = float(rng.choice([0.0, 0.5])) if finite else 0.0
    arguments = {"logits": logits, "labels": labels, "references": references if rng.random() < 0.3 else None}
    return options, arguments | {"mask": mask}, lambda given, rest: bleugrad.ExpectedBLEULoss(**given)(**rest)


def _linear_loss(rng):
    options, arguments, _ = _loss(rng)
    call = lambda given, rest: bleugrad.LinearExpectedBLEULoss(**given)(**rest)  # noqa: E731
    return options, _projected(rng, arguments), call


def _sampled(kind, **more):
    def make(rng):
        options, arguments, _ = _loss(rng)
        names = inspect.signature(kind).parameters
        options = {name: value for name, value in options.items() if name in names}
        options |= {"samples": int(rng.integers(2, 5)), "generator": int(rng.integers(9))}
        options |= {name: values[rng.integers(len(values))] for name, values in more.items()}
        return options, arguments, lambda given, rest: kind(**given)(**rest)

    return make


def _explain(rng):
    logits, references, _, score, eos_id, word_start, _ = _draw(rng)
    del score["ignore_index"]
    reference = references[0] or [0]
    flat = [reference] if isinstance(reference[0], int) else reference
    words = [[token for token in one if token != eos_id] or [1 if eos_id == 0 else 0] for one in flat]
    arguments = {"logits": logits[0], "reference": words, "eos_id": eos_id, "word_start": word_start}
    arguments |= score | {"samples": int(rng.choice([0, 2, 20])), "seed": 0, "method": "exact"}
    return {}, arguments, lambda _, given: bleugrad.explain(**given).text(80)


def _word_starts(rng):
    tokens = [f"{'▁' if rng.random() < 0.5 else ''}{index}" for index in range(rng.integers(1, 6))] + ["▁a"]
    arguments = {"tokenizer": tokens, "special": True, "flipped": False, "size": None}
    return {}, arguments, lambda _, given: bleugrad.word_start_mask(**given)


CALLS = {
    "bleu": _bleu,
    "expected_bleu": _expected,
    "linear_expected_bleu": _linear,
    "ExpectedBLEULoss": _loss,
    "LinearExpectedBLEULoss": _linear_loss,
    "ReinforceLoss": _sampled(bleugrad.ReinforceLoss, baseline=("none", "greedy", "leave-one-out")),
    "MinimumRiskLoss": _sampled(bleugrad.MinimumRiskLoss, alpha=(0.005, 1.0)),
    "UnbiasedBLEULoss": _sampled(bleugrad.UnbiasedBLEULoss),
    "explain": _explain,
    "word_start_mask": _word_starts,
}


def _method(rng):
    return {"method": str(rng.choice(["exact", "bound"])), "level": str(rng.choice(["sentence", "corpus"]))}


def _projected(rng, arguments):
    """The arguments with hidden states and a projection in place of the logits."""
    logits = arguments["logits"]
    dtype = logits.dtype if logits.dtype.itemsize > 2 else torch.float32
    hidden = torch.from_numpy(rng.normal(size=(*logits.shape[:2], 3))).to(dtype)
    weight = torch.from_numpy(rng.normal(size=(logits.shape[2], 3))).to(dtype)
    bias = torch.from_numpy(rng.normal(size=logits.shape[2])).to(dtype) if rng.random() < 0.5 else None
    rest = {name: value for name, value in arguments.items() if name != "logits"}
    return {"hidden": hidden, "weight": weight} | rest | {"bias": bias}


def _spoil(rng, value):
    """A value of another type, shape or size."""
    if torch.is_tensor(value) and rng.random() < 0.6:
        value = value.detach().clone()
        ways = [value.flatten(), value[None], value[:0], value[..., :0], value.bool(), value.double(), value.numpy]
        if value.is_floating_point():
            ways += [value + number for number in (np.nan, np.inf, -np.inf)] + [value.long()]
            ways += [value * torch.finfo(value.dtype).max, value * 0]
        elif value.dtype == torch.long:
            ways += [value - 1, value + 2**62, value.int(), value.tolist()]
        return ways[rng.integers(len(ways))]
    odd = ODD_NUMBERS if rng.random() < 0.5 else ODD_VALUES
    chosen = odd[rng.integers(len(odd))]
    if isinstance(value, list) and rng.random() < 0.5:
        return [*value, chosen] if rng.random() < 0.5 else [[chosen], *value[1:]]
    return chosen.clone() if torch.is_tensor(chosen) else chosen


def _not_finite(result, tensors):
    """What of a result, or of the gradients it leads to, is not finite; None if all is."""
    if isinstance(result, str):
        return None if result else "an empty text"
    found = {"result": result} if torch.is_tensor(result) else vars(result)
    for name, value in found.items():
        if value is not None and not value.isfinite().all():
            return f"{name} is {value.tolist()}"
    value = found.get("value", found.get("result"))
    if value.requires_grad:
        gradients = torch.autograd.grad(value.sum(), tensors, allow_unused=True)
        if any(one is not None and not one.isfinite().all() for one in gradients):
            return "a gradient is not finite"
    return None


def _shown(value):
    if torch.is_tensor(value):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    return repr(value)[:60]
