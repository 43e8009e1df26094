"""Every option of every public name changes a result, or raises an error that names it; none is ignored."""

import dataclasses
import inspect

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import bleugrad

B, S, T, V, EOS, BLANK = 2, 3, 6, 7, 2, 0
STARTS = torch.tensor([True, True, False, False, True, True, False])
GROUP = "the group of the fixture"


class Change:
    """Another value of an option, with what else the call needs for it to matter."""

    def __init__(self, value, **context):
        self.value, self.context = value, context


class Refusal(Change):
    """A value that raises an error which names the option."""


class Exempt(str):
    """Why an option has no case."""


class Subject:
    """A call whose options are those of the signatures of ``of``, and a case for each of them."""

    def __init__(self, call, of, base, cases):
        self.call, self.of, self.base = call, of, base
        self.cases = {name: case if isinstance(case, Change | Exempt) else Change(case) for name, case in cases.items()}


def options_of(function):
    """The names of the parameters with a default."""
    return {name for name, one in inspect.signature(function).parameters.items() if one.default is not one.empty}


# Values and gradients of one call with everything that a case may change


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.tensor([[1, 3, 1, 4, 5, 3], [4, 6, 3, 3, 1, 5]])
FEWER = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
REFERENCES = torch.tensor([[3, 1, 4, 6, 1], [1, 3, 5, 5, 4]])
CANDIDATES = torch.tensor([[[1, 3, 4, 4, 6, 2], [3, 1, 1, 6, 2, 5], [1, 1, 3, 4, 2, 6]]] * B)


def with_gradient(function):
    """The result of a call, and the gradient of its first floating argument (a leaf) in the sum of all results."""

    def call(**given):
        name = next(name for name, value in given.items() if isinstance(value, Tensor) and value.is_floating_point())
        leaf = given[name].clone().requires_grad_()
        result = function(**(given | {name: leaf}))
        total = sum(one.sum() for one in flat(result) if isinstance(one, Tensor) and one.requires_grad)
        return result, torch.autograd.grad(total, leaf)

    return call


def as_module(kind, method="forward"):
    """The loss and its statistics from the options of a class and the arguments of a method, all by name."""

    def call(**given):
        names = set(inspect.signature(getattr(kind, method)).parameters)
        arguments = {name: given.pop(name) for name in names & set(given)}
        loss = kind(**given)
        value = getattr(loss, method)(**arguments)
        return value, getattr(loss, "statistics", None)

    return with_gradient(call)


def flat(value):
    """All tensors and other values inside a result."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, one.name) for one in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return [one for part in value for one in flat(part)] if isinstance(value, list | tuple) else [value]


def same(one, other):
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.allclose(one.double(), other.double(), 1e-9, 1e-12, equal_nan=True)
    return type(one) is type(other) and one == other


def equal(first, second):
    first, second = flat(first), flat(second)
    return len(first) == len(second) and all(map(same, first, second))


# Cases

SCORE = {"max_order": 2, "weights": (0.1, 0.2, 0.3, 0.4), "smoothing": 0.5}
LOSS = SCORE | {"eos_id": EOS, "ignore_index": 1, "word_start": STARTS, "reduction": "sum", "process_group": GROUP}
ROWS = {"method": "bound", "sharpness": 2.0, "end_positions": Change(2, eos_id=EOS)}
CALL = {"labels": LABELS.flip(1), "references": REFERENCES, "mask": FEWER}
EXPECTED = (
    LOSS
    | ROWS
    | {
        "level": "sentence",
        "reduction": Change("sum", level="sentence"),
        "cross_entropy_weight": 0.5,
        "label_smoothing": Change(0.1, cross_entropy_weight=1.0),
        "adaptive": Change(True, cross_entropy_weight=1.0),
        "inplace": Refusal(True),  # of a leaf; tests/outputs/test_rows.py overwrites
    }
)
RECIPE = EXPECTED | {
    "eos_id": 5,
    "end_positions": 2,
    "sharpness": 1.0,
    "label_smoothing": 0.1,
    "adaptive": False,
}
SAMPLED = LOSS | {"samples": 3, "generator": 1, "cross_entropy_weight": 0.5}
REINFORCE = SAMPLED | {"baseline": "none"}
RISK = SAMPLED | {"alpha": 0.5, "include_reference": True}
WEIGHTED = LOSS | ROWS | {"alpha": 2.0, "length_penalty": 0.0}
DRAWN_ONLY = Exempt("documented: it concerns samples that are drawn from rows, not those of a decoder")
WITHOUT_LOGITS = Refusal(0.5)

LOGITS = {"logits": draw(B, T, V)}
LABELLED = LOGITS | {"labels": LABELS}
DRAWN = LABELLED | {"generator": 0, "samples": 2}
FED_ROWS = {"logits": draw(B * S, T, V), "references": REFERENCES}
GIVEN = {"log_probs": -draw(B, S, T).abs(), "tokens": CANDIDATES, "references": REFERENCES}
HIDDEN = {"hidden": draw(B, T, 4), "weight": draw(V, 4, seed=1)}
PIECES = ["<s>", "▁the", "▁low", "er"]


def recommended(**given):
    """The recommended loss with these options, of these arguments."""
    arguments = {name: given.pop(name) for name in ("logits", "labels")}
    return bleugrad.ExpectedBLEULoss.recommended(**given)(**arguments)


def of_output(kind):
    """The loss of an output object that is made of the other arguments."""

    def call(labels, **given):
        return bleugrad.ExpectedBLEULoss()(kind(**given), labels)

    return with_gradient(call)


def scored_loss(expectation, logits, labels, **options):
    """The loss of a score, of these arguments."""
    return with_gradient(lambda logits: bleugrad.ExpectedScoreLoss(expectation, **options)(logits, labels))(
        logits=logits
    )


def expected(logits, labels, **options):
    """The loss of an expectation with these options."""
    return scored_loss(bleugrad.Expectation(**options), logits, labels)


def of_ids(kind):
    """The score of token ids against two references each, which ``kind`` makes."""

    def call(**options):
        return bleugrad.token_score(LABELS, TWO, kind(**options), level="sentence")

    return call


def informed(**options):
    return bleugrad.NIST.from_references(TWO, **options)


IDS = {}
TWO = [[row.tolist(), row.flip(0).tolist()[:4]] for row in REFERENCES]
WEIGHTS = {(token,): 1.0 + token for token in range(V)} | {(a, b): 0.5 + b for a in range(V) for b in range(V)}


Loss, Reinforce, Risk = bleugrad.ExpectedBLEULoss, bleugrad.ReinforceLoss, bleugrad.MinimumRiskLoss
Unbiased, Candidates = bleugrad.UnbiasedBLEULoss, bleugrad.CandidateBLEULoss
SEQUENCES = {"mask": FEWER[:, None].expand(B, S, T)}
SUBJECTS = {
    "ExpectedBLEULoss": Subject(as_module(Loss), [Loss], LABELLED, EXPECTED),
    "ExpectedBLEULoss.recommended": Subject(
        with_gradient(recommended), [Loss.recommended], LABELLED | {"eos_id": EOS}, RECIPE
    ),
    "ReinforceLoss": Subject(as_module(Reinforce), [Reinforce], DRAWN, REINFORCE),
    "ReinforceLoss.from_samples": Subject(
        as_module(Reinforce, "from_samples"),
        [Reinforce, Reinforce.from_samples],
        GIVEN | {"baseline": "none"},
        REINFORCE
        | SEQUENCES
        | {
            "samples": DRAWN_ONLY,
            "generator": DRAWN_ONLY,
            "baseline": Change("leave-one-out", samples=2),
            "cross_entropy_weight": WITHOUT_LOGITS,
            "greedy": Change(LABELS.flip(1), baseline="greedy", greedy=LABELS),
        },
    ),
    "MinimumRiskLoss": Subject(as_module(Risk), [Risk], DRAWN, RISK),
    "MinimumRiskLoss.from_samples": Subject(
        as_module(Risk, "from_samples"),
        [Risk, Risk.from_samples],
        GIVEN,
        RISK
        | SEQUENCES
        | {
            "samples": DRAWN_ONLY,
            "generator": DRAWN_ONLY,
            "include_reference": Refusal(True),
            "cross_entropy_weight": WITHOUT_LOGITS,
        },
    ),
    "UnbiasedBLEULoss": Subject(as_module(Unbiased), [Unbiased], DRAWN, SAMPLED),
    "CandidateBLEULoss": Subject(as_module(Candidates), [Candidates], FED_ROWS | {"candidates": CANDIDATES}, WEIGHTED),
    "CandidateBLEULoss.from_log_probs": Subject(
        as_module(Candidates, "from_log_probs"),
        [Candidates, Candidates.from_log_probs],
        FED_ROWS | {"log_probs": -draw(B, S).abs(), "mask": torch.ones(B, S, T, dtype=torch.bool)},
        WEIGHTED | {"length_penalty": Change(0.0, mask=torch.arange(T) < torch.tensor([[[6], [5], [3]]] * B))},
    ),
    "expected_bleu": Subject(
        with_gradient(bleugrad.expected_bleu),
        [bleugrad.expected_bleu],
        LOGITS | {"references": REFERENCES},
        SCORE
        | {"method": "bound", "mask": FEWER, "eos_id": EOS, "word_start": STARTS, "level": "sentence"}
        | {"ignore_index": 1, "interval": False},
    ),
    "expected_score": Subject(
        with_gradient(bleugrad.expected_score),
        [bleugrad.expected_score],
        LOGITS | {"references": REFERENCES, "score": bleugrad.GLEU()},
        {"method": "bound", "mask": FEWER, "eos_id": EOS, "word_start": STARTS, "level": "sentence"}
        | {"ignore_index": 1},
    ),
    "ExpectedScoreLoss": Subject(
        scored_loss,
        [bleugrad.ExpectedScoreLoss],
        LABELLED | {"expectation": bleugrad.Expectation(bleugrad.GLEU(), level="sentence")},
        {"word_start": STARTS, "reduction": "sum", "cross_entropy_weight": 0.5}
        | {name: EXPECTED[name] for name in ("label_smoothing", "adaptive", "process_group")},
    ),
    "ROUGE": Subject(of_ids(bleugrad.ROUGE), [bleugrad.ROUGE], IDS, {"n": 1, "kind": "recall", "several": "mean"}),
    "ROUGEL": Subject(of_ids(bleugrad.ROUGEL), [bleugrad.ROUGEL], IDS, {"kind": "recall", "several": "mean"}),
    "GLEU": Subject(of_ids(bleugrad.GLEU), [bleugrad.GLEU], IDS, {"max_order": 2, "several": "mean"}),
    "BLEU": Subject(of_ids(bleugrad.BLEU), [bleugrad.BLEU], IDS, SCORE),
    "NIST": Subject(
        of_ids(bleugrad.NIST), [bleugrad.NIST], IDS | {"weights": WEIGHTS}, {"max_order": 1, "several": "mean"}
    ),
    "NIST.from_references": Subject(
        of_ids(informed),
        [bleugrad.NIST.from_references],
        IDS,
        {"max_order": 1, "several": "mean", "word_start": STARTS, "eos_id": 5, "ignore_index": 1},
    ),
    "Expectation": Subject(
        expected,
        [bleugrad.Expectation],
        LABELLED | {"score": bleugrad.BLEU()},
        {name: EXPECTED[name] for name in ("level", "eos_id", "ignore_index", "inplace")} | ROWS,
    ),
    "token_score": Subject(
        bleugrad.token_score,
        [bleugrad.token_score],
        {"hypotheses": LABELS, "references": REFERENCES, "score": bleugrad.GLEU()},
        {"level": "sentence", "eos_id": 5, "ignore_index": 1, "word_start": STARTS},
    ),
    "token_rewards": Subject(
        bleugrad.token_rewards,
        [bleugrad.token_rewards],
        {"hypotheses": LABELS, "references": REFERENCES, "score": bleugrad.GLEU()},
        {"eos_id": 5, "ignore_index": 1, "word_start": STARTS},
    ),
    "bleu": Subject(
        bleugrad.bleu,
        [bleugrad.bleu],
        {"hypotheses": LABELS, "references": REFERENCES},
        SCORE
        | {"hypothesis_lengths": torch.tensor([6, 3]), "level": "sentence", "ignore_index": 1, "word_start": STARTS},
    ),
    "mbr": Subject(
        bleugrad.mbr,
        [bleugrad.mbr],
        {"output": draw(B, T, V), "candidates": CANDIDATES},
        SCORE | {"mask": FEWER, "eos_id": EOS, "word_start": STARTS, "ignore_index": 1},
    ),
    "explain": Subject(
        bleugrad.explain,
        [bleugrad.explain],
        {"logits": draw(T, V), "references": [3, 1, 4, 1], "samples": 20},
        {"vocabulary": list("abcdefg"), "eos_id": EOS, "word_start": STARTS, "samples": 30, "score": bleugrad.GLEU()},
    ),
    "word_start_mask": Subject(
        bleugrad.word_start_mask,
        [bleugrad.word_start_mask],
        {"tokenizer": PIECES},
        {"special": {"<s>": True}, "flipped": Refusal(True), "size": 6},
    ),
    "CTC": Subject(
        of_output(bleugrad.CTC),
        [bleugrad.CTC],
        LABELLED | {"labels": LABELS[:, :3], "blank_id": BLANK},
        {"lengths": torch.tensor([6, 4]), "sharpness": 2.0, "blank_id": 2},
    ),
    "Graph": Subject(
        of_output(bleugrad.Graph),
        [bleugrad.Graph],
        LABELLED | {"labels": LABELS[:, :3], "transitions": draw(B, T, T, seed=2)},
        {"lengths": torch.tensor([6, 4]), "sharpness": 2.0},
    ),
    "Projection": Subject(
        of_output(bleugrad.Projection),
        [bleugrad.Projection],
        HIDDEN | {"labels": LABELS},
        {"bias": draw(V, seed=3), "sharpness": 2.0},
    ),
}
SUBJECTS |= {  # the arguments of a call, beside the options of the class
    f"{name}.forward": Subject(subject.call, [getattr(bleugrad, name).forward], subject.base, cases)
    for name, cases in {
        "ExpectedBLEULoss": CALL,
        "ReinforceLoss": CALL,
        "MinimumRiskLoss": CALL,
        "UnbiasedBLEULoss": CALL,
        "CandidateBLEULoss": SEQUENCES,
    }.items()
    for subject in [SUBJECTS[name]]
}
OF_LOSS = "an internal step of the loss: cross_entropy_weight sets it, and has cases"
EXEMPT = {
    "load": "needs a trained run; tests/lab/training/test_system.py loads one and names a bad device",
    "BLEU.factors": "an internal step of value; tests/losses/test_distributed.py pools",
    "ExpectedScoreLoss.forward": "the function of ExpectedBLEULoss.forward, which has cases",
    "CTC.statistics": OF_LOSS,
    "Graph.statistics": OF_LOSS,
    "Projection.statistics": OF_LOSS,
}


def public_callables():
    """Functions, classes and methods of bleugrad that have options, by name."""
    for name in bleugrad.__all__:
        value = getattr(bleugrad, name)
        if not callable(value):
            continue
        yield name, value
        for method, function in inspect.getmembers(value, callable) if inspect.isclass(value) else ():
            if not method.startswith("_") and getattr(function, "__module__", "").startswith("bleugrad"):
                yield f"{name}.{method}", function


def test_every_option_has_a_case():
    """A new option, or a public name with options, must be entered above."""
    for name, function in public_callables():
        parameters = inspect.signature(function).parameters.values()
        assert not any(one.kind is one.VAR_KEYWORD for one in parameters), f"{name} takes any keyword"
        if name not in EXEMPT and options_of(function):
            assert name in SUBJECTS, f"{name} has options {sorted(options_of(function))} and no cases"
    for name, subject in SUBJECTS.items():
        options = set().union(*map(options_of, subject.of))
        assert options <= set(subject.cases), f"{name}: no case of {sorted(options - set(subject.cases))}"
        known = {one for function in subject.of for one in inspect.signature(function).parameters}
        assert set(subject.cases) <= known, f"{name}: no option {sorted(set(subject.cases) - known)}"


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A group in which the other processes hold sums of 1."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    monkeypatch.setattr(dist, "all_reduce", lambda values, *_, **__: values.add_(1))
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, one)
        for name, subject in SUBJECTS.items()
        for one, case in subject.cases.items()
        if isinstance(case, Change)
    ],
)
def test_an_option_changes_the_result_or_is_refused(name, option, group):
    subject = SUBJECTS[name]
    case = subject.cases[option]
    before = subject.base | case.context
    after = before | {option: group if case.value is GROUP else case.value}
    assert equal(subject.call(**before), subject.call(**before)), "the call is not reproducible"
    if isinstance(case, Refusal):
        with pytest.raises((TypeError, ValueError), match=rf"\b{option}\b"):
            subject.call(**after)
    else:
        assert not equal(subject.call(**before), subject.call(**after)), f"{name} ignores {option}"


LOSSES = [name for name in SUBJECTS if name.endswith(("Loss", "_loss"))]
ALL_OPTIONS = sorted({option for name in LOSSES for option in options_of(getattr(bleugrad, name))})


@pytest.mark.parametrize("name", LOSSES)
def test_the_options_of_other_losses_are_refused_by_name(name):
    function = getattr(bleugrad, name)
    given = {} if inspect.isclass(function) else SUBJECTS[name].base
    others = [option for option in ALL_OPTIONS if option not in inspect.signature(function).parameters]
    for option in others:
        with pytest.raises(TypeError, match=rf"unexpected keyword argument '{option}'"):
            function(**given, **{option: None})


COMBINATIONS = [
    ("ExpectedBLEULoss", "label_smoothing", {"label_smoothing": 0.1}),
    ("ExpectedBLEULoss", "adaptive", {"adaptive": True}),
    ("ExpectedBLEULoss", "end_positions", {"end_positions": 2}),
    ("ExpectedBLEULoss", "reduction", {"reduction": "none"}),
    ("CandidateBLEULoss", "end_positions", {"end_positions": 3}),
    ("ReinforceLoss.from_samples", "greedy", {"greedy": LABELS}),
    *(
        (name, "process_group", {"process_group": GROUP, "reduction": reduction, **level})
        for reduction in ("sum", "none")
        for name, level in [("ExpectedBLEULoss", {"level": "sentence"}), *((one, {}) for one in LOSSES[2:])]
    ),
]
"""Options that can have no effect beside the others."""


@pytest.mark.parametrize(("name", "option", "given"), COMBINATIONS)
def test_an_option_without_effect_is_refused(name, option, given, group):
    given = {key: group if value is GROUP else value for key, value in given.items()}
    with pytest.raises((TypeError, ValueError), match=rf"^{option} is "):
        SUBJECTS[name].call(**(SUBJECTS[name].base | given))
