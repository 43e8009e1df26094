"""ExpectedBLEULoss: value, reductions, added cross-entropy, precision, and behaviour as an nn.Module."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bleugrad
from bleugrad import ExpectedBLEULoss
from tests.losses.cases import IGNORE, assert_all_close, draw_batch, gradients
from tests.oracles import automaton, bound
from tests.oracles.counting import brevity_penalty, combine, cut
from tests.references.test_long_references import run_child

METHODS = ("exact", "bound")
LEVELS = ("corpus", "sentence")
REDUCED = [("corpus", "mean"), ("corpus", "sum"), ("sentence", "mean"), ("sentence", "sum"), ("sentence", "none")]


def expected(logits, references, **options):
    """1 - value, by the core's public function."""
    return 1 - bleugrad.expected_bleu(logits, references, **options).value


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize(
    "options",
    [{}, {"max_order": 2, "smoothing": 0.0}, {"max_order": 3, "weights": [0.5, 0.2, 0.3], "smoothing": 0.1}],
    ids=["default", "no smoothing", "weights"],
)
def test_it_is_one_minus_expected_bleu(seed, method, level, eos_id, options):
    logits, labels = draw_batch(words=5)
    options = {"method": method, "level": level, "eos_id": eos_id, **options}
    loss = ExpectedBLEULoss(reduction="none" if level == "sentence" else "mean", **options)
    found = gradients(lambda x: loss(x, labels), logits)
    wanted = gradients(lambda x: expected(x, labels, mask=labels != IGNORE, **options), logits)
    assert found[0].shape == ((3,) if level == "sentence" else ())
    assert_all_close(found, wanted, 1e-14)


def test_the_corpus_level_has_one_value():
    with pytest.raises(ValueError, match=r"reduction is 'none', but level is 'corpus'.*expected level='sentence'"):
        ExpectedBLEULoss(reduction="none")


def test_the_defaults_are_those_of_the_readme(seed):
    logits, labels = draw_batch()
    options = {"method": "exact", "max_order": 4, "weights": None, "smoothing": 1.0, "level": "corpus", "eos_id": None}
    more = {"ignore_index": -100, "reduction": "mean", "cross_entropy_weight": 0.0}
    assert torch.equal(ExpectedBLEULoss()(logits, labels), ExpectedBLEULoss(**options, **more)(logits, labels))


def test_a_perfect_hypothesis_costs_nothing_and_a_hopeless_one_nearly_everything(seed):
    labels = torch.tensor([[1, 2, 3, 4, 5], [3, 1, 4, 1, IGNORE]])
    perfect = 1e4 * F.one_hot(labels.clamp(min=0), 7).double()
    assert ExpectedBLEULoss()(perfect, labels).item() == pytest.approx(0, abs=1e-15)
    hopeless = 1e4 * F.one_hot(torch.full_like(labels, 6), 7).double()
    precisions = 1 / 10 * 1 / 8 * 1 / 6 * 1 / 4  # (0 + 1) / (M_n + 1): 9, 7, 5 and 3 n-grams
    assert ExpectedBLEULoss()(hopeless, labels).item() == pytest.approx(1 - precisions**0.25, abs=1e-14)
    eos = ExpectedBLEULoss(eos_id=0)
    ended = torch.cat([labels, torch.tensor([[0], [IGNORE]])], 1)
    ended[1, 4] = 0
    assert eos(1e4 * F.one_hot(ended.clamp(min=0), 7).double(), ended).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_reductions(seed, method, eos_id, weight):
    """Of cross-entropy too: "sum" and "none" take the mean over the tokens of each sentence."""
    logits, labels = draw_batch()
    labels[1] = IGNORE
    options = {"method": method, "eos_id": eos_id, "level": "sentence"}

    def reduced(reduction, weight=weight):
        loss = ExpectedBLEULoss(reduction=reduction, cross_entropy_weight=weight, **options)
        return gradients(lambda x: loss(x, labels), logits)

    none, total, mean = reduced("none"), reduced("sum"), reduced("mean", 0.0)
    nll = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    bleu = expected(logits, labels, mask=labels != IGNORE, **options)
    for b, found in enumerate(none[0]):
        if b == 1:
            assert found == 0
        else:
            wanted = bleu[b] + weight * nll[b].sum() / (labels[b] != IGNORE).sum()
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)
    assert_all_close(total, [none[0].sum(), none[1]], 1e-14)
    bleu_only = reduced("none", 0.0)
    assert_all_close(mean, [bleu_only[0].sum() / 2, bleu_only[1] / 2], 1e-14)  # two sentences count


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_rows_of_which_every_label_is_ignored_change_nothing(seed, method, level, eos_id, smoothing):
    logits, labels = draw_batch(4)
    labels[2] = IGNORE
    loss = ExpectedBLEULoss(
        method=method, level=level, eos_id=eos_id, smoothing=smoothing, max_order=2, cross_entropy_weight=0.3
    )
    value, grad = gradients(lambda x: loss(x, labels), logits)
    kept = [0, 1, 3]
    assert_all_close([value, grad[kept]], gradients(lambda x: loss(x, labels[kept]), logits[kept]), 1e-14)
    assert (grad[2] == 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("level", "reduction"), REDUCED)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_a_batch_of_which_every_label_is_ignored(seed, method, level, reduction, eos_id, smoothing):
    """Finite with zero gradient; in a batch that pads its last step this must not stop a run."""
    logits, labels = draw_batch(2)
    loss = ExpectedBLEULoss(
        method=method, level=level, reduction=reduction, eos_id=eos_id, smoothing=smoothing, cross_entropy_weight=1.0
    )
    value, grad = gradients(lambda x: loss(x, torch.full_like(labels, IGNORE)), logits)
    assert value.isfinite().all()
    assert (grad == 0).all()


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 0, 4), (0, 0, 1)])
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("level", LEVELS)
def test_empty_batches(shape, eos_id, level):
    labels = torch.zeros(shape[:2], dtype=torch.long)
    loss = ExpectedBLEULoss(eos_id=eos_id, level=level, cross_entropy_weight=1.0)
    value, grad = gradients(lambda x: loss(x, labels), torch.zeros(shape))
    assert value.isfinite()
    assert grad.shape == shape


@pytest.mark.parametrize("scale", [1.5, 1e3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("method", METHODS)
def test_cross_entropy_is_that_of_torch(seed, scale, dtype, method):
    """The mixture less BLEU alone is weight * F.cross_entropy, value and gradient, also where p underflows to 0."""
    logits, labels = draw_batch(dtype=dtype, scale=scale)
    weight = 0.37
    mixed = gradients(lambda x: ExpectedBLEULoss(method=method, cross_entropy_weight=weight)(x, labels), logits)
    alone = gradients(lambda x: ExpectedBLEULoss(method=method)(x, labels), logits)
    torchs = gradients(
        lambda x: weight * F.cross_entropy(x.to(alone[0].dtype).transpose(1, 2), labels, ignore_index=IGNORE), logits
    )
    value_precision = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 1e-6}[dtype]
    gradient_precision = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2**-7}[dtype]
    assert torchs[0] > (100 if scale > 100 else 0.1)
    torch.testing.assert_close(mixed[0], alone[0] + torchs[0], rtol=value_precision, atol=0)
    largest = torchs[1].abs().max().item()
    torch.testing.assert_close(mixed[1], alone[1] + torchs[1], rtol=0, atol=gradient_precision * largest)


def test_cross_entropy_of_an_impossible_label_is_infinite_as_in_torch(seed):
    logits, labels = draw_batch()
    logits[0, 0, labels[0, 0]] = -torch.inf
    value, grad = gradients(lambda x: ExpectedBLEULoss(cross_entropy_weight=1.0)(x, labels), logits)
    alone = gradients(lambda x: ExpectedBLEULoss()(x, labels), logits)
    torchs = gradients(lambda x: F.cross_entropy(x.transpose(1, 2), labels), logits)
    assert value == torchs[0] == torch.inf
    torch.testing.assert_close(grad, alone[1] + torchs[1], rtol=0, atol=1e-14)


def test_cross_entropy_leaves_out_what_the_mask_leaves_out(seed):
    logits, labels = draw_batch()
    mask = torch.rand(labels.shape) < 0.6
    references = torch.randint(9, (3, 5))
    mixed, alone = (
        gradients(
            lambda x, w=w: ExpectedBLEULoss(cross_entropy_weight=w)(x, labels, references=references, mask=mask), logits
        )
        for w in (1.0, 0.0)
    )
    torchs = gradients(lambda x: F.cross_entropy(x.transpose(1, 2), torch.where(mask, labels, IGNORE)), logits)
    assert_all_close(mixed, [a + b for a, b in zip(alone, torchs, strict=True)], 1e-14)


REFERENCES = {
    "longer": torch.randint(0, 9, (3, 13), generator=torch.Generator().manual_seed(1)),
    "shorter": torch.tensor([[1, 2], [3, IGNORE], [4, 4]]),
    "several": torch.randint(0, 9, (3, 4, 6), generator=torch.Generator().manual_seed(2)),
    "lists": [[1, 2, 3], [4], [5, 6, 5, 6, 5]],
    "lists of several": [[[1, 2, 3], [2, 3]], [[4]], [[5, 6], [], [7, 7, 7, 8]]],
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("eos_id", [None, 0])
def test_references_that_are_not_the_labels(seed, name, method, level, eos_id):
    """The labels say which positions count; alone, the references leave every position counting."""
    references = REFERENCES[name]
    logits, labels = draw_batch()
    options = {"method": method, "level": level, "eos_id": eos_id}
    loss = ExpectedBLEULoss(reduction="none" if level == "sentence" else "mean", **options)
    found = gradients(lambda x: loss(x, labels, references=references), logits)
    wanted = gradients(lambda x: expected(x, references, mask=labels != IGNORE, **options), logits)
    assert_all_close(found, wanted, 1e-14)
    found = gradients(lambda x: loss(x, references=references), logits)
    assert_all_close(found, gradients(lambda x: expected(x, references, **options), logits), 1e-14)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
def test_mask(seed, method, eos_id):
    logits, labels = draw_batch()
    references = REFERENCES["several"]
    mask = torch.rand(labels.shape) < 0.5
    loss = ExpectedBLEULoss(method=method, eos_id=eos_id)
    wanted = gradients(lambda x: expected(x, references, mask=mask, method=method, eos_id=eos_id), logits)
    found = gradients(lambda x: loss(x, references=references, mask=mask), logits)
    assert_all_close(found, wanted, 1e-14)
    assert (found[1][~mask] == 0).all()
    found = gradients(lambda x: loss(x, labels, references=references, mask=mask), logits)  # mask overrides the labels
    assert_all_close(found, wanted, 1e-14)
    own = labels != IGNORE
    assert torch.equal(loss(logits, labels, mask=own), loss(logits, labels))


def test_nothing_the_caller_passed_is_changed(seed):
    logits, labels = draw_batch()
    mask, references = labels != IGNORE, torch.randint(9, (3, 6))
    copies = [tensor.clone() for tensor in (logits, labels, mask, references)]
    for method in METHODS:
        leaf = logits.requires_grad_()
        ExpectedBLEULoss(method=method, eos_id=0, cross_entropy_weight=1.0)(
            leaf, labels, references=references, mask=mask
        )
    for tensor, copied in zip((logits.detach(), labels, mask, references), copies, strict=True):
        assert torch.equal(tensor, copied)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
def test_half_precision_is_computed_in_float32(seed, dtype, method, eos_id):
    logits, labels = draw_batch(4, 12, 30, dtype=dtype)
    loss = ExpectedBLEULoss(method=method, eos_id=eos_id, cross_entropy_weight=0.2)
    half = gradients(lambda x: loss(x, labels), logits)
    single = gradients(lambda x: loss(x, labels), logits.float())
    assert half[0].dtype == torch.float32
    assert half[1].dtype == dtype
    torch.testing.assert_close(half[0], single[0], rtol=1e-6, atol=0)
    unit = {torch.bfloat16: 2**-8, torch.float16: 2**-11}[dtype]  # half a unit in the last place, and subnormals
    torch.testing.assert_close(half[1].float(), single[1], rtol=1.01 * unit, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("backward_inside", [False, True])
def test_autocast_changes_nothing(seed, dtype, method, eos_id, backward_inside):
    logits, labels = draw_batch(4, 12, 30, dtype=dtype)
    loss = ExpectedBLEULoss(method=method, eos_id=eos_id, cross_entropy_weight=0.2)
    outside = gradients(lambda x: loss(x, labels), logits)
    leaf = logits.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(leaf, labels)
        if backward_inside:
            value.backward()
    if not backward_inside:
        value.backward()
    assert torch.equal(value.detach(), outside[0])
    assert torch.equal(leaf.grad, outside[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_default_dtype_does_not_matter(seed, dtype):
    logits, labels = draw_batch()
    wanted = [gradients(lambda x, m=m: ExpectedBLEULoss(method=m, eos_id=0)(x, labels), logits) for m in METHODS]
    torch.set_default_dtype(dtype)
    try:
        found = [gradients(lambda x, m=m: ExpectedBLEULoss(method=m, eos_id=0)(x, labels), logits) for m in METHODS]
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(found, wanted, strict=True):
        assert_all_close(a, b, 0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_second_backward_pass(seed, dtype):
    logits, labels = draw_batch(dtype=dtype)
    logits.requires_grad_()
    value = ExpectedBLEULoss(cross_entropy_weight=0.5)(logits, labels)
    value.backward(retain_graph=True)
    first, logits.grad = logits.grad, None
    value.backward()
    torch.testing.assert_close(logits.grad, first, rtol=1e-5, atol=1e-9)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_gradient_accumulation_adds_up(seed):
    logits, labels = draw_batch(4)
    loss = ExpectedBLEULoss(level="sentence", reduction="sum")
    whole = gradients(lambda x: loss(x, labels), logits)[1]
    leaf = logits.clone().requires_grad_()
    for part in ([0, 1], [2, 3]):
        loss(leaf[part], labels[part]).backward()
    torch.testing.assert_close(leaf.grad, whole, rtol=0, atol=1e-14)


def test_activation_checkpointing(seed):
    logits, labels = draw_batch()
    loss = ExpectedBLEULoss(cross_entropy_weight=0.5)
    again = gradients(lambda x: torch.utils.checkpoint.checkpoint(loss, x, labels, use_reentrant=False), logits)
    assert_all_close(again, gradients(lambda x: loss(x, labels), logits), 1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_differentiating_twice_is_refused(seed, dtype):
    """By backward() and by grad(): a Hessian of zeros would be worse than an error."""
    logits, labels = draw_batch(dtype=dtype)
    logits.requires_grad_()
    for loss in (ExpectedBLEULoss(), ExpectedBLEULoss(method="bound", cross_entropy_weight=1.0)):
        for differentiate in (
            lambda g: g.backward(),
            lambda g: torch.autograd.grad(g, logits),
            lambda g: torch.autograd.grad(g + logits.sum() ** 2, logits),  # part of it could be differentiated
        ):
            (grad,) = torch.autograd.grad(loss(logits, labels), logits, create_graph=True)
            with pytest.raises(RuntimeError, match=r"(?i)differentiate twice|double backward|no autograd formula"):
                differentiate(grad.double().pow(2).sum())


TRANSFORMS = {
    "vmap": lambda call: torch.func.vmap(lambda x: call(x[None].expand(3, -1, -1))),
    "grad": torch.func.grad,
    "vmap of grad": lambda call: torch.func.vmap(torch.func.grad(lambda x: call(x[None].expand(3, -1, -1)))),
    "jacrev": torch.func.jacrev,
    "jvp": lambda call: lambda x: torch.func.jvp(call, (x,), (torch.ones_like(x),)),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch's own jvp
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_transforms_of_torch_func_are_refused_with_advice(seed, transform, dtype):
    """torch's custom operators do not take part in them; jvp would drop the tangent without a word."""
    logits, labels = draw_batch(dtype=dtype)
    for loss in (ExpectedBLEULoss(), ExpectedBLEULoss(method="bound", eos_id=0, cross_entropy_weight=0.5)):
        with pytest.raises(RuntimeError, match=r"logits .*torch\.func.*batch sentences as \(B, T, V\).*backward"):
            TRANSFORMS[transform](lambda x, loss=loss: loss(x, labels))(logits)


def test_a_loop_written_for_cross_entropy(seed):
    """The criterion is exchanged and nothing else; sentences that were flattened are told to keep their shape."""
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
    inputs, labels = torch.randint(11, (4, 6)), torch.randint(11, (4, 6))
    labels[:, 4:] = IGNORE

    def step(criterion, arrange=lambda logits, labels: (logits, labels)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        loss = criterion(*arrange(model(inputs), labels))
        loss.backward()
        optimizer.step()
        return loss.item()

    def classes_second(logits, labels):
        return logits.transpose(1, 2), labels

    def flattened(logits, labels):
        return logits.flatten(0, 1), labels.flatten()

    assert 0 < step(ExpectedBLEULoss()) < 1
    assert step(nn.CrossEntropyLoss(), classes_second) > 0
    assert step(nn.CrossEntropyLoss(), flattened) > 0
    with pytest.raises(
        ValueError, match=r"labels has shape \(4, 6\).*logits are \(B, T, V\), with the vocabulary last"
    ):
        step(ExpectedBLEULoss(), classes_second)
    with pytest.raises(ValueError, match=r"logits has shape \(24, 11\); expected \(B, T, V\).*do not flatten"):
        step(ExpectedBLEULoss(), flattened)
    with pytest.raises(ValueError, match=r"labels has shape \(24,\).*logits.*do not flatten"):
        step(ExpectedBLEULoss(), lambda logits, labels: (logits, labels.flatten()))


def test_it_lives_as_a_module(seed):
    loss = ExpectedBLEULoss(
        method="bound",
        max_order=3,
        weights=[0.5, 0.3, 0.2],
        smoothing=0.5,
        level="sentence",
        eos_id=2,
        ignore_index=-1,
        reduction="sum",
        cross_entropy_weight=0.25,
    )
    logits, labels = draw_batch()
    labels[labels == IGNORE] = -1
    wanted = loss(logits, labels)
    assert list(loss.parameters()) == list(loss.buffers()) == []
    assert loss.state_dict() == {}
    assert loss.load_state_dict({}) is not None
    for twin in (
        copy.deepcopy(loss),
        pickle.loads(pickle.dumps(loss)),
        loss.to("cpu").to(torch.float16).half().double().eval().train(),
        nn.ModuleDict({"loss": loss})["loss"],
    ):
        assert torch.equal(twin(logits, labels), wanted)
    shown = repr(loss)
    assert shown.startswith("ExpectedBLEULoss(")
    for name in ("method", "max_order", "weights", "smoothing", "level", "eos_id", "ignore_index", "reduction"):
        assert f"{name}=" in shown
    assert "cross_entropy_weight=0.25" in shown


def test_its_outputs_are_in_line_with_the_gradient_setting(seed):
    logits, labels = draw_batch()
    loss = ExpectedBLEULoss(cross_entropy_weight=1.0)
    value = loss(logits.clone().requires_grad_(), labels)
    assert value.requires_grad
    with torch.no_grad():
        assert not loss(logits.clone().requires_grad_(), labels).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(loss(logits.clone(), labels), value.detach(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_integer_type(seed, dtype):
    logits, labels = draw_batch()
    labels[labels == IGNORE] = 200 if dtype == torch.uint8 else IGNORE
    loss = ExpectedBLEULoss(ignore_index=200 if dtype == torch.uint8 else IGNORE, cross_entropy_weight=1.0)
    assert torch.equal(loss(logits, labels.to(dtype)), loss(logits, labels))


@pytest.mark.parametrize(
    ("batch", "steps", "vocabulary"),
    [(1, 6, 256_000), pytest.param(1, 2500, 50, marks=pytest.mark.slow), (1, 1, 1)],
    ids=["wide", "long", "least"],
)
@pytest.mark.parametrize("method", METHODS)
def test_extreme_shapes(seed, monkeypatch, batch, steps, vocabulary, method):
    """The value is that of the oracle, and value and gradient are those of float64 torch operations."""
    logits, labels = torch.randn(batch, steps, vocabulary), torch.randint(vocabulary, (batch, steps))
    labels[:, 6:7] = 0  # an early end, since the oracle is slow
    loss = ExpectedBLEULoss(method=method, eos_id=0)
    value, grad = gradients(lambda x: loss(x, labels), logits)
    if method == "exact" or steps < 100:  # the oracle of the bound is quadratic
        assert value.item() == pytest.approx(
            1 - oracle_value(logits[0], labels[0].tolist(), method), rel=1e-5, abs=1e-6
        )
    monkeypatch.setenv("BLEUGRAD_KERNELS", "0")
    fine_value, fine = gradients(lambda x: loss(x, labels), logits.double())
    assert value.item() == pytest.approx(fine_value.item(), rel=1e-5, abs=1e-6)
    assert (grad.double() - fine).norm() <= 1e-5 * fine.norm()


def oracle_value(logits, labels, method):
    """Expected BLEU of one sentence with EOS 0; the tokens its label does not hold are merged into one."""
    kept = sorted({0, *labels})
    probs = logits.double().softmax(-1)
    rows = torch.cat([probs[:, kept], 1 - probs[:, kept].sum(-1, keepdim=True)], 1).clamp(min=0).numpy()
    reference = cut([kept.index(token) for token in labels], 0)
    matches_of = automaton.expected_matches if method == "exact" else bound.bound_with_eos
    matches = [matches_of(rows, [reference], n, 0) for n in range(1, 5)]
    reached = np.concatenate([[1.0], np.cumprod(1 - rows[:, 0])])  # P(length >= l)
    lengths = np.append(reached[:-1] * rows[:, 0], reached[-1])
    totals = [reached[n:].sum() for n in range(1, 5)]
    penalty = sum(mass * brevity_penalty(length, len(reference)) for length, mass in enumerate(lengths))
    return combine(matches, totals, penalty, smoothing=1.0)


@pytest.mark.parametrize(
    ("method", "eos_id", "dtype"),
    [("exact", 2, "float32"), ("bound", None, "float32"), ("bound", 2, "float32"), ("exact", 2, "bfloat16")],
)
def test_memory_beyond_logits_and_gradient_is_below_the_size_of_the_logits(method, eos_id, dtype):
    """(2, 512, 32000), references of 512, cross-entropy mixed in: the peak, measured in a child process."""
    (finite, size), growth = run_child(f"""
loss = bleugrad.ExpectedBLEULoss(method={method!r}, eos_id={eos_id}, cross_entropy_weight=0.1)
loss(torch.randn(2, 6, 50, requires_grad=True).to(torch.{dtype}), draw(50, 2, 6)).backward()
logits = torch.randn(2, 512, 32000, dtype=torch.{dtype}).requires_grad_()
before = peak()
loss(logits, draw(32000, 2, 512)).backward()
answer = [bool(logits.grad.sum().isfinite()), logits.nbytes / 2**20]
""")
    assert finite
    assert growth > 0.9 * size  # the gradient itself, or nothing was measured
    assert growth - size < size


def test_options_cannot_change_and_another_loss_is_made_of_them():
    loss = ExpectedBLEULoss.recommended(eos_id=0, word_start=torch.tensor([True, False]))
    with pytest.raises(AttributeError, match="reduction is an option of a loss, which cannot change"):
        loss.reduction = "sum"
    other = dataclasses.replace(loss, reduction="sum")
    assert (other.reduction, loss.reduction, other.adaptive) == ("sum", "mean", True)
    assert other.word_start is loss.word_start
    assert repr(other).startswith("RecommendedBLEULoss(units=words, reduction='sum', process_group=None, max_order=4")
