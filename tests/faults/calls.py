"""Random calls of the public functions: a finite result, or a TypeError or ValueError that names an argument."""

import os
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import torch

import bleugrad
from bleugrad.lab.errors import FailureError
from bleugrad.lab.training.run import train_run
from tests.lab.training.corpora import small_config, write_corpus

SECONDS = 60
IGNORE = -100
ODD_NUMBERS = (-1, 0, 2**31, 2**62, 2**63, -(2**64), 10**400, 1e39, -1e39, 1e-45, 2e-38, np.nan, np.inf, -np.inf)
ODD_VALUES = (None, "x", "", [], [[]], [None], {}, (), True, 1.5, b"x", torch.zeros(0), torch.zeros(1, 1), torch.nan)
DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
LOSSES = {
    bleugrad.ExpectedBLEULoss: {},
    bleugrad.ReinforceLoss: {"baseline": ("none", "greedy", "leave-one-out")},
    bleugrad.MinimumRiskLoss: {"alpha": (0.005, 1.0)},
    bleugrad.UnbiasedBLEULoss: {},
}
"""Each loss with the options that it alone has."""


def prepare(folder):
    """Train a small run for ``load``."""
    write_corpus(folder)
    with open(os.devnull, "w") as null, redirect_stdout(null), redirect_stderr(null):
        train_run(small_config(folder, optimizer__epochs=1), folder / "run")
    return Calls(folder / "run").check


class Calls:
    """``check(seed)`` makes one call, in three of five cases with one argument replaced by an odd value."""

    def __init__(self, run):
        self.run = run
        self.kinds = {
            "bleu": _bleu,
            "expected_bleu": _expected_bleu,
            "explain": _explain,
            "word_start_mask": _word_starts,
        }
        self.kinds |= {"CTC": _one_pass("blank_id"), "Graph": _one_pass("transitions")}
        self.kinds |= {kind.__name__: _loss(kind) for kind in LOSSES}
        self.kinds |= {f"{kind.__name__}.from_samples": _from_samples(kind) for kind in list(LOSSES)[1:3]}
        self.kinds |= {"load": self._load}

    def check(self, seed):
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        name = str(rng.choice(list(self.kinds)))
        call, arguments = self.kinds[name](rng)
        changed, draw = None, rng.random()
        if draw < 0.05 and (scores := [one for one in ("logits", "hidden") if one in arguments]):
            changed = scores[0]
            arguments[changed] = _one_nan(rng, arguments[changed])
        elif draw < 0.6:
            changed = str(rng.choice(list(arguments)))
            arguments[changed] = _spoil(rng, arguments[changed])
        wrong = _try(call, arguments, changed)
        if wrong is None:
            return None
        shown = ", ".join(f"{key}={_shown(value)}" for key, value in arguments.items())
        return f"{name}({shown}){'' if changed is None else f' with an odd {changed}'}: {wrong[:300]}"

    def _load(self, rng):
        def call(run, device, lines, **search):
            system = bleugrad.load(run, device)
            return "\n".join(one.text for best in system.search(lines, **search) for one in best) or "empty"

        search = {"lines": ["ich sehe", "", "x " * 9], "beam": int(rng.integers(1, 4)), "n_best": 1}
        return call, {"run": self.run, "device": "cpu"} | search


def _try(call, arguments, changed):
    """What is wrong with the outcome of a call, or None."""
    tensors = [value for value in arguments.values() if torch.is_tensor(value) and value.is_floating_point()]
    for tensor in tensors:
        tensor.requires_grad_()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _not_finite(call(**arguments), tensors) or _accepted_nan(arguments)
    except (TypeError, ValueError, FailureError) as error:
        if changed is None:
            return f"a valid call raised {type(error).__name__}: {error}"
        if not re.search(rf"\b({'|'.join([*arguments, 'holds no run'])})\b", str(error)):
            return f"{type(error).__name__} names no argument: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _draw(rng):
    """Logits of all dtypes and sizes, or hidden states and a projection, with the arguments all functions share."""
    batch, steps, vocabulary = int(rng.integers(1, 4)), int(rng.integers(0, 6)), int(rng.integers(2, 7))
    logits = torch.from_numpy(rng.normal(size=(batch, steps, vocabulary)) * rng.choice([0.1, 1.0, 30.0, 1e4]))
    logits = logits.to(DTYPES[rng.integers(len(DTYPES))])
    if rng.random() < 0.1:
        logits[..., 1:][torch.from_numpy(rng.random((batch, steps, vocabulary - 1)) < 0.3)] = -np.inf
    labels = torch.from_numpy(rng.integers(0, vocabulary, (batch, steps)))
    labels[torch.from_numpy(rng.random((batch, steps)) < 0.2)] = IGNORE
    order = int(rng.integers(1, 6))
    return {
        "logits": logits,
        "labels": labels,
        "references": _references(rng, batch, vocabulary),
        "mask": torch.from_numpy(rng.random((batch, steps)) < 0.8) if rng.random() < 0.3 else None,
        "max_order": order,
        "weights": None if rng.random() < 0.7 else (np.ones(order) / order).tolist(),
        "smoothing": float(rng.choice([0.0, 0.1, 1.0])),
        "ignore_index": IGNORE,
        "eos_id": int(rng.integers(vocabulary)) if rng.random() < 0.4 else None,
        "word_start": torch.from_numpy(rng.random(vocabulary) < 0.6) if rng.random() < 0.4 else None,
        "method": str(rng.choice(["exact", "bound"])),
        "level": str(rng.choice(["sentence", "corpus"])),
    }


def _references(rng, batch, vocabulary):
    """One reference or several per sentence, some of them, now and then all of them, empty."""
    longest, several = 1 if rng.random() < 0.1 else 7, rng.random() < 0.4
    ids = lambda: rng.integers(0, vocabulary, rng.integers(0, longest)).tolist()  # noqa: E731
    return [[ids() for _ in range(rng.integers(1, 4))] if several else ids() for _ in range(batch)]


def _bleu(rng):
    drawn = _draw(rng)
    names = ("references", "max_order", "weights", "smoothing", "level", "ignore_index", "word_start")
    hypotheses = drawn["logits"].argmax(2).tolist() if rng.random() < 0.5 else drawn["labels"]
    lengths = torch.from_numpy(rng.integers(0, drawn["labels"].shape[1] + 1, len(drawn["labels"])))
    more = {"hypotheses": hypotheses, "hypothesis_lengths": lengths if rng.random() < 0.3 else None}
    return bleugrad.bleu, more | {name: drawn[name] for name in names}


def _expected_bleu(rng):
    drawn = _draw(rng)
    del drawn["labels"]
    return _maybe_projected(rng, bleugrad.expected_bleu, drawn | {"interval": bool(rng.random() < 0.8)})


def _loss(kind):
    own = LOSSES[kind]
    sampled = kind is not bleugrad.ExpectedBLEULoss

    def make(rng):
        drawn = _draw(rng)
        if rng.random() < 0.6:
            drawn["references"] = None
        drawn["process_group"] = None
        sentence = sampled or drawn["level"] == "sentence"
        drawn["reduction"] = str(rng.choice(["mean", "sum", "none"] if sentence else ["mean", "sum"]))
        if drawn["logits"].isfinite().all() and drawn["logits"].dtype != torch.float16:
            # elsewhere the cross-entropy of a label is infinite, or its gradient with a large weight
            drawn["cross_entropy_weight"] = float(rng.choice([0.0, 0.5]))
        if sampled:
            del drawn["method"], drawn["level"]
            drawn |= {"samples": int(rng.integers(2, 5)), "generator": int(rng.integers(9))}
            drawn |= {name: values[rng.integers(len(values))] for name, values in own.items()}
        call = _as_module(kind)
        return (call, drawn) if sampled else _maybe_projected(rng, call, drawn)

    return make


def _one_pass(own):
    """The loss of a CTC output or a graph, which is made of the logits and its own argument."""
    names = ("references", "mask", "max_order", "weights", "smoothing", "ignore_index", "level")

    def call(logits, lengths, references, mask, **options):
        given = options.pop(own)
        if own == "blank_id":
            output = bleugrad.CTC(logits, blank_id=given, lengths=lengths)
        else:
            output = bleugrad.Graph(logits, given, lengths=lengths)
        return bleugrad.ExpectedBLEULoss(**options)(output, references=references, mask=mask)

    def make(rng):
        drawn = _draw(rng)
        batch, steps, vocabulary = drawn["logits"].shape
        lengths = torch.from_numpy(rng.integers(0, steps + 1, batch)) if rng.random() < 0.5 else None
        drawn["references"] = _references(rng, batch, vocabulary - 1)
        arguments = {"logits": drawn["logits"], "lengths": lengths} | {name: drawn[name] for name in names}
        arguments["method"] = str(rng.choice(["exact", "clipped_mean"]))
        if own == "blank_id":
            return call, arguments | {"blank_id": vocabulary - 1}
        transitions = torch.from_numpy(rng.normal(size=(batch, steps, steps))).to(drawn["logits"].dtype)
        return call, arguments | {"transitions": transitions, "mask": None}

    return make


def _as_module(kind):
    def call(logits, labels, references, mask, **options):
        return kind(**options)(logits, labels, references=references, mask=mask)

    return call


def _from_samples(kind):
    more = {"baseline": "leave-one-out", "samples": 2} if kind is bleugrad.ReinforceLoss else {}

    def call(tokens, log_probs, references, **options):
        return kind(**more, **options).from_samples(tokens, log_probs, references)

    def make(rng):
        drawn = _draw(rng)
        batch, steps, vocabulary = drawn["logits"].shape
        shape = (batch, int(rng.integers(2, 5)), steps)
        names = ("references", "max_order", "weights", "smoothing", "eos_id", "word_start", "ignore_index")
        arguments = {name: drawn[name] for name in names}
        arguments["tokens"] = torch.from_numpy(rng.integers(0, vocabulary, shape))
        arguments["log_probs"] = torch.from_numpy(-rng.random(shape))
        return call, arguments

    return make


def _explain(rng):
    drawn = _draw(rng)
    reference = drawn["references"][0] or [0]
    several = [reference] if isinstance(reference[0], int) else reference
    eos_id = drawn["eos_id"]
    words = [[token for token in one if token != eos_id] or [1 if eos_id == 0 else 0] for one in several]
    arguments = {"logits": drawn["logits"][0], "references": words}
    arguments |= {name: drawn[name] for name in ("eos_id", "word_start")}
    if not len(arguments["logits"]):
        arguments["logits"] = torch.zeros(1, drawn["logits"].shape[2])
    score = bleugrad.BLEU(*(drawn[name] for name in ("max_order", "weights", "smoothing")))
    arguments |= {"score": score, "samples": int(rng.choice([0, 2, 20]))}
    return lambda **given: bleugrad.explain(**given).text(80), arguments


def _word_starts(rng):
    tokens = [f"{'▁' if rng.random() < 0.5 else ''}{index}" for index in range(rng.integers(1, 6))] + ["▁a"]
    return bleugrad.word_start_mask, {"tokenizer": tokens, "special": True, "flipped": False, "size": None}


def _maybe_projected(rng, call, arguments):
    """In half of the cases hidden states and a projection in place of the logits."""
    if rng.random() < 0.5:
        return call, arguments
    logits = arguments.pop("logits")
    dtype = logits.dtype if logits.dtype.itemsize > 2 else torch.float32
    shapes = {"hidden": (*logits.shape[:2], 3), "weight": (logits.shape[2], 3), "bias": logits.shape[2]}
    tensors = {name: torch.from_numpy(rng.normal(size=shape)).to(dtype) for name, shape in shapes.items()}
    if rng.random() < 0.5:
        tensors["bias"] = None

    def projected(hidden, weight, bias, **rest):
        return call(logits=bleugrad.Projection(hidden, weight, bias), **rest)

    return projected, tensors | arguments


def _spoil(rng, value):
    """A value of another type, shape or size."""
    if torch.is_tensor(value) and rng.random() < 0.6:
        value = value.detach().clone()
        ways = [value.flatten(), value[None], value[:0], value[..., :0], value.bool(), value.double(), value.numpy]
        if value.is_floating_point():
            ways += [value + number for number in (np.nan, np.nan, np.inf, -np.inf)] + [value.long()]
            ways += [value * torch.finfo(value.dtype).max, value * 0]
        elif value.dtype == torch.long:
            ways += [value - 1, value + 2**62, value.int(), value.tolist()]
        return ways[rng.integers(len(ways))]
    odd = ODD_NUMBERS if rng.random() < 0.5 else ODD_VALUES
    chosen = odd[rng.integers(len(odd))]
    if isinstance(value, list) and rng.random() < 0.5:
        return [*value, chosen] if rng.random() < 0.5 else [[chosen], *value[1:]]
    return chosen.clone() if torch.is_tensor(chosen) else chosen


def _one_nan(rng, value):
    """The tensor with one NaN; an empty one as it is."""
    value = value.clone()
    if value.numel():
        value.view(-1)[rng.integers(value.numel())] = torch.nan
    return value


def _accepted_nan(arguments):
    """Whether a call that gave a result should have refused NaN: one stands at a position that counts."""
    name = next((name for name in ("logits", "hidden") if torch.is_tensor(arguments.get(name))), None)
    if name is None or arguments[name].dim() != 3 or torch.is_tensor(arguments.get("lengths")):
        return None
    counted, labels = arguments.get("mask"), arguments.get("labels")
    if counted is None and labels is not None:
        counted = labels != arguments["ignore_index"]
    broken = arguments[name].isnan().any(2)
    return f"NaN in {name} is accepted" if (broken if counted is None else broken & counted).any() else None


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
