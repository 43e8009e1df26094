"""The compiled kernels return the values and gradients of the torch operations, and run only on supported inputs."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.backends import last_used, operations
from bleugrad.backends.c import library, path_matches, row_probabilities, sum_distribution
from bleugrad.backends.c.library import SWITCH
from bleugrad.lengths import lengths
from bleugrad.lengths.lengths import Stopping
from bleugrad.references.sequences import References
from bleugrad.references.words import segment, word_probabilities
from tests.backends.cases import counted_inputs
from tests.cases import FAMILIES, draw_case

pytestmark = pytest.mark.skipif(
    library.library_for(torch.empty(1)) is None, reason="no kernels: there is no C compiler, or they are switched off"
)
METHODS = ("exact", "bound")


def both(monkeypatch, compute):
    """The results with and without kernels, and how often each kernel ran the first time."""
    used = []
    run = library.Library.run
    with monkeypatch.context() as patch:
        patch.setattr(library.Library, "run", lambda *a: used.append(a[1]) or run(*a))
        compiled = compute()
        names, used[:] = Counter(used), []
        patch.setenv(SWITCH, "0")
        plain = compute()
    assert not used
    return compiled, plain, names


def value_and_gradient(logits, references, **options):
    leaf = logits.clone().requires_grad_()
    result = bleugrad.expected_bleu(leaf, references, **options)
    result.value.sum().backward()
    return result.value.detach(), result.matches.detach(), result.totals.detach(), result.upper.detach(), leaf.grad


def assert_equal(found, wanted, atol, rtol=0.0):
    for actual, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
def test_small_cases_are_those_of_torch(rng, monkeypatch, method, words, eos):
    """Repeats, self-overlaps, several references, holes, references shorter than an n-gram."""
    for family in FAMILIES:
        for level in ("sentence", "corpus"):
            case = draw_case(rng, family, eos=eos)
            options = {"method": method, "level": level, "smoothing": 0.5, **case.keywords}
            if words:
                options["word_start"] = torch.from_numpy(rng.random(case.logits.shape[2]) < 0.6)
            found, wanted, _ = both(
                monkeypatch, lambda c=case, o=options: value_and_gradient(c.logits, c.references, **o)
            )
            assert_equal(found, wanted, 1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_long_cases_are_those_of_torch(rng, monkeypatch, method, words, eos_id, dtype):
    """More columns than lanes, words longer than a hypothesis, orders up to sixteen, large clips."""
    cases = ((29, 41, 30, 4), (40, 70, 6, 6), (5, 33, 3, 4), (1, 2, 3, 1), (24, 30, 3, 16))
    for steps, width, vocabulary, orders in cases:
        references = torch.from_numpy(rng.integers(1, vocabulary, size=(3, 2, width)))
        logits = torch.from_numpy(rng.normal(size=(3, steps, vocabulary))).to(dtype)
        options = {"method": method, "eos_id": eos_id, "max_order": orders}
        if words:
            options["word_start"] = torch.from_numpy(rng.random(vocabulary) < 0.5)
        found, wanted, used = both(monkeypatch, lambda x=logits, r=references, o=options: value_and_gradient(x, r, **o))
        assert_equal(found, wanted, *((1e-12, 0) if dtype == torch.float64 else (1e-6, 1e-4)))
        assert used["matches"] > 1 if method == "exact" else eos_id == 0 or used["bound"] > 1  # forward and backward


def test_more_orders_than_lanes_are_left_to_torch(seed):
    logits, labels = torch.randn(1, 20, 5, requires_grad=True), torch.ones(1, 20, dtype=torch.long)
    bleugrad.ExpectedBLEULoss(max_order=17)(logits, labels).backward()
    assert last_used()["exact_matches"] == "torch"


@pytest.mark.parametrize("vocabulary", [1, 31, 32, 33, 200])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_rows_are_those_of_torch(seed, monkeypatch, vocabulary, scale):
    """Float32 with impossible tokens, a masked row of NaN, and cross-entropy."""
    logits = scale * torch.randn(3, 6, vocabulary)
    logits[0, :, 1:] = -torch.inf
    logits[1, 5] = torch.nan
    labels = torch.randint(vocabulary, (3, 6))
    labels[0] = 0
    labels[1, 5] = -100
    starts = torch.rand(vocabulary) < 0.5
    loss = bleugrad.ExpectedBLEULoss(word_start=starts, cross_entropy_weight=0.5)

    def compute():
        leaf = logits.clone().requires_grad_()
        value = loss(leaf, labels)
        value.backward()
        return value.detach(), leaf.grad

    found, wanted, used = both(monkeypatch, compute)
    assert {"row_probabilities", "row_probabilities_backward"} <= used.keys()
    assert found[1].isfinite().all()
    assert_equal(found, wanted, 1e-7, 2e-6)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_rows_without_a_softmax_are_still_errors(bad):
    logits = torch.zeros(2, 3, 40, requires_grad=True)
    with torch.no_grad():
        logits[1, 2, 7] = bad
    loss = bleugrad.ExpectedBLEULoss(word_start=torch.arange(40) % 2 == 0)
    with pytest.raises(ValueError, match="sentence 1, position 2"):
        loss(logits, torch.ones(2, 3, dtype=torch.long))


def test_exponentials_are_as_exact_as_those_of_torch(seed):
    """Errors in units of the last place, down to the smallest normal number of float32."""
    gap = torch.cat([torch.linspace(-104, 0, 4001), torch.tensor([-torch.inf, -1e30, -105.0])])
    inputs = (gap[None, None], torch.arange(len(gap))[None], None, torch.ones(len(gap), dtype=torch.bool), 1.0, False)
    (found, _, opening, _, normalisers), _ = row_probabilities.forward(True, *inputs)
    exact = gap.double().exp()
    total, normal = exact.sum(), gap > -83  # the sum is 39, so that the quotient is a normal number
    error = (found[0, 0].double() * total - exact).abs()
    assert (error[normal] / exact[normal]).max() < 5 * torch.finfo(torch.float32).eps  # with the sum and its inverse
    assert (found[0, 0, gap < -87.35] == 0).all()
    torch.testing.assert_close(
        normalisers[0, 0].double(), torch.stack([0 * total, total.log(), total.log()]), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(opening, torch.ones(1, 1), rtol=1e-6, atol=0)  # every token opens a word


@pytest.mark.parametrize("columns", [5, 64, 65, 200])
def test_few_and_many_columns_have_the_probabilities_of_a_softmax(seed, columns):
    """From more columns than tokens on, the probabilities of the whole row are computed first."""
    logits, ids = torch.randn(2, 3, 64), torch.randint(64, (2, columns))
    (found, *_), _ = row_probabilities.forward(True, logits, ids, None, None, 1.5, False)
    wanted = (1.5 * logits.double()).softmax(2).gather(2, ids[:, None].expand(2, 3, columns))
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_types_are_read_and_written_as_torch_does(dtype):
    """All 65,536 numbers are read; gradients of all sizes are rounded to the nearest number, ties to even."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    rows = every[every.isfinite()][:, None, None].expand(-1, 1, 2).contiguous()
    rows[:, :, 1] = 0
    inputs = (rows, torch.zeros(len(rows), 1, dtype=torch.long), None, None, 1.0, False)
    outputs, _ = row_probabilities.forward(True, *inputs)
    torch.testing.assert_close(outputs[4][:, 0, 0], rows.float().amax(2)[:, 0], rtol=0, atol=0)
    sizes = [*torch.logspace(-12, 6, 500).tolist(), 0.0, 65504.0, 65519.0, 65520.0, 65535.0]
    sizes += [2**-24, 2**-25, 1.5 * 2**-24, 2**-14, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8]
    wanted = torch.tensor(sizes)
    zeros, ids = torch.full((len(sizes), 1, 2), -1e4).to(dtype), torch.zeros(len(sizes), 1, 1, dtype=torch.long)
    zeros[..., 1] = 0  # the target has probability 0, so that its gradient is that of its log-probability
    inputs = (zeros, ids[:, :0, 0], ids, None, 1.0, False)
    outputs, _ = row_probabilities.forward(True, *inputs)
    given = (None, wanted[:, None, None], None, None, None)
    (found,) = row_probabilities.backward(None, (True,), given, outputs, inputs)
    assert torch.equal(found[:, 0, 0], wanted.to(dtype))
    assert torch.equal(found[:, 0, 1], -wanted.to(dtype))


def test_threads_change_nothing(rng, monkeypatch):
    logits = torch.from_numpy(rng.normal(size=(5, 9, 12))).float()
    references, starts = torch.from_numpy(rng.integers(0, 12, size=(5, 20))), torch.arange(12) % 2 == 0
    loss = bleugrad.ExpectedBLEULoss(word_start=starts)

    def compute():
        leaf = logits.clone().requires_grad_()
        value = loss(leaf, references=references)
        value.backward()
        return value.detach(), leaf.grad

    alone = compute()
    threads, compiled = [], library.library_for(logits)
    in_parts = compiled._in_parts
    monkeypatch.setattr(compiled, "_in_parts", lambda *a: threads.append(a[3]) or in_parts(*a))
    monkeypatch.setattr(library, "THREAD_WORK", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert_equal(compute(), alone, 0)
    assert set(threads) == {1, 3}  # sums of lengths have one part


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("holes", [False, True], ids=["all", "holes"])
def test_counted_rows_are_those_of_torch(rng, monkeypatch, holes, extra):
    """With and without EOS and words, and gradients of all outputs or of one."""
    for eos, words, batch, steps in itertools.product((0, 1), (False, True), (1, 4), (1, 6)):
        inputs = counted_inputs(rng, batch, steps, eos, words, holes, extra)
        leaves = [one.requires_grad_() for one in inputs[:2] if one is not None]

        def compute(inputs=inputs, leaves=leaves):
            outputs = [one for one in operations.counted_rows(*inputs) if one.numel()]
            weights = [torch.linspace(-1, 2, one.numel(), dtype=one.dtype).view_as(one) for one in outputs]
            parts = [(one * weight).sum() for one, weight in zip(outputs, weights, strict=True)]
            grads = [torch.autograd.grad(part, leaves, retain_graph=True, materialize_grads=True) for part in parts]
            return *outputs, *torch.autograd.grad(sum(parts), leaves), *itertools.chain(*grads)

        found, wanted, used = both(monkeypatch, compute)
        assert used.keys() == {"counted_rows", "counted_rows_backward"}
        assert_equal(found, wanted, 1e-14)
        if batch == 1:
            monkeypatch.setenv(SWITCH, "0")
            rest = inputs[len(leaves) :]
            assert torch.autograd.gradcheck(
                lambda *x, r=rest: [one for one in operations.counted_rows(*x, *r) if one.numel()], tuple(leaves)
            )
            monkeypatch.undo()


@pytest.mark.parametrize("vocabulary", [1, 2, 40])
def test_ngram_counts_are_those_of_torch(rng, monkeypatch, vocabulary):
    """Random ids, one token only, several references of which some are empty, and orders longer than a reference."""
    for batch, references, width, order in ((0, 1, 3, 2), (2, 1, 1, 4), (3, 3, 5, 4), (2, 2, 40, 3), (1, 1, 300, 6)):
        ids = torch.from_numpy(rng.integers(vocabulary, size=(batch, references, width)))
        lengths = torch.from_numpy(rng.integers(width + 1, size=(batch, references)))
        ids = ids * (torch.arange(width) < lengths[..., None]) * int(rng.choice([1, 2**40]))
        found, wanted, used = both(monkeypatch, lambda i=ids, c=lengths, n=order: operations.ngram_clips(i, c, n))
        assert used.keys() == {"ngram_clips"}
        assert_equal(found, wanted, 0)


@pytest.mark.parametrize("several", [1, 3])
def test_segmentation_is_that_of_torch(rng, monkeypatch, several):
    """The numbers of words may differ, but two words of a sentence have equal numbers in both or in neither."""
    starts = torch.tensor([True, False, True, False])
    for width in (1, 5, 40):
        ids = torch.from_numpy(rng.integers(0, 4, size=(6, several, width)))
        counted = torch.from_numpy(rng.integers(0, width + 1, size=(6, several)))
        ids = torch.where(torch.arange(width) < counted[..., None], ids, 0)
        found, wanted, _ = both(monkeypatch, lambda i=ids, c=counted: segment(References(i, c), starts))
        for name in ("starts", "spans", "continued"):
            inside = torch.arange(found.references.ids.shape[2]) < found.references.lengths[..., None]
            a, b = getattr(found, name), getattr(wanted, name)
            assert a.shape == b.shape
            assert (a == b)[inside.flatten(1)].all()
        assert (found.references.lengths == wanted.references.lengths).all()
        a, b = (words.references.ids.flatten(1) for words in (found, wanted))
        same = (a[:, :, None] == a[:, None]) == (b[:, :, None] == b[:, None])
        pairs = inside.flatten(1)[:, :, None] & inside.flatten(1)[:, None]
        assert same[pairs].all()


def test_words_of_rows_in_either_layout(rng):
    """Inputs with positions or sentences first in memory, and with columns that are not contiguous."""
    ids, counted = torch.from_numpy(rng.integers(0, 4, size=(3, 1, 9))), torch.full((3, 1), 9)
    words = segment(References(ids, counted), torch.tensor([True, False, True, False]))
    probs = torch.from_numpy(rng.random((7, 3, 9)))
    layouts = [probs, probs.transpose(0, 1).contiguous().transpose(0, 1), probs.mT.contiguous().mT]
    results = []
    for layout in layouts:
        leaf = layout.detach().requires_grad_()
        found = word_probabilities(leaf, words)
        (found**2).sum().backward()
        results.append((found.detach(), leaf.grad))
    for other in results[1:]:
        assert_equal(other, results[0], 0)


@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
def test_chunks_and_packs_are_those_of_torch(rng, monkeypatch, words, eos):
    """Several chunks of columns; patterns with one, a few and many states."""
    vocabulary, steps = 60, 150
    ids = np.concatenate([rng.integers(2, vocabulary, 500), np.full(30, 1)])
    references = torch.from_numpy(np.stack([rng.permutation(ids), np.where(rng.random(530) < 0.5, 1, ids)]))
    logits = torch.from_numpy(rng.normal(size=(2, steps, vocabulary)))
    logits[:, :, 1] += 2
    options = {"level": "sentence"} | ({"eos_id": 0} if eos else {})
    if words:
        options["word_start"] = torch.from_numpy(rng.random(vocabulary) < 0.6)
    found, wanted, used = both(monkeypatch, lambda: value_and_gradient(logits, references, **options))
    assert used["matches"] > 1  # forward and backward
    assert_equal(found, wanted, 1e-11)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    threaded = value_and_gradient(logits, references, **options)
    assert_equal(threaded, found, 0)


def one_pass_gradients(make, labels, *tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    loss = bleugrad.ExpectedBLEULoss(level="sentence", reduction="sum", max_order=5)(make(*leaves), labels)
    loss.backward()
    return loss.detach(), *(leaf.grad for leaf in leaves)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("kind", ["frames", "paths"])
def test_one_pass_models_are_those_of_torch(rng, monkeypatch, kind, dtype):
    """More columns than lanes, several blocks of vertices, high counts, holes and sentences of all lengths."""
    steps, vocabulary = 61, 12
    labels = torch.from_numpy(rng.integers(1, vocabulary, size=(4, 37)))
    labels[1, 9:], labels[2, ::2], labels[3] = -100, 1, 1
    logits, transitions = (
        torch.from_numpy(rng.normal(size=(4, steps, size))).to(dtype) for size in (vocabulary, steps)
    )
    lengths = torch.tensor([steps, 20, 50, 1])
    makers = {
        "frames": (lambda x: bleugrad.CTC(x, blank_id=0, lengths=lengths), logits),
        "paths": (lambda x, y: bleugrad.Graph(x, y, lengths=lengths), logits, transitions),
    }
    make, *tensors = makers[kind]
    monkeypatch.setattr(path_matches, "BLOCK", 16)
    found, wanted, used = both(monkeypatch, lambda: one_pass_gradients(make, labels, *tensors))
    assert used[f"{kind[:-1]}_matches"] > 1  # forward and backward
    assert_equal(found, wanted, 1e-13 if dtype == torch.float64 else 1e-6)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert_equal(one_pass_gradients(make, labels, *tensors), found, 0)


@pytest.mark.parametrize("most", [0, 10**9])
@pytest.mark.parametrize("numbers", [1, 2, 13, 16])
def test_sums_are_the_same_directly_and_by_transforms(rng, monkeypatch, most, numbers):
    mass = torch.from_numpy(rng.dirichlet(np.ones(7), size=(1, 2, numbers)))
    weights = torch.from_numpy(rng.normal(size=operations.sum_distribution(mass).shape))

    def compute():
        leaf = mass.clone().requires_grad_()
        found = operations.sum_distribution(leaf)
        (found * weights).sum().backward()
        return found.detach(), leaf.grad

    with monkeypatch.context() as patch:
        patch.setenv(SWITCH, "0")
        wanted = compute()
    monkeypatch.setattr(sum_distribution, "MOST", most)
    assert_equal(compute(), wanted, 1e-14)
    assert last_used()["sum_distribution"] == ("c" if most else "torch")


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_word_counts_of_a_fixed_length_are_those_of_torch(rng, monkeypatch, steps):
    opening = torch.from_numpy(rng.random((steps, 4)))
    limits = torch.tensor([steps, steps // 2, 0, 1])
    weights = torch.from_numpy(rng.normal(size=(4, steps + 1)))

    def compute():
        leaf = opening.clone().requires_grad_()
        found = lengths.word_counts(leaf, limits).probs
        (found * weights).sum().backward()
        return found.detach(), leaf.grad

    found = compute()
    monkeypatch.setenv(SWITCH, "0")
    assert_equal(found, compute(), 1e-14)
    leaf = opening.clone().requires_grad_()
    monkeypatch.undo()
    assert torch.autograd.gradcheck(lambda x: lengths.word_counts(x, limits).probs, leaf)


@pytest.mark.parametrize("steps", [2, 3, 17, 40])
def test_word_counts_of_random_lengths_are_those_of_torch(rng, monkeypatch, steps):
    eos, opened = (torch.from_numpy(rng.random((5, steps))) for _ in range(2))
    limits = torch.tensor([steps, steps // 2, 0, 1, steps - 1])
    weights = torch.from_numpy(rng.normal(size=(5, steps + 1)))
    within = torch.arange(steps) < limits[:, None]

    def counts(eos, opened):
        stops = torch.nn.functional.pad(eos * within, (0, 1)) + (torch.arange(steps + 1) == limits[:, None])
        ending = Stopping(1 - (eos * within).t(), stops)
        return lengths.word_counts((opened * (1 - eos)).t(), limits, ending).probs

    def compute():
        leaves = eos.clone().requires_grad_(), opened.clone().requires_grad_()
        found = counts(*leaves)
        (found * weights).sum().backward()
        return found.detach(), *(leaf.grad for leaf in leaves)

    found, wanted, used = both(monkeypatch, compute)
    assert used.keys() == {"word_counts", "word_counts_backward"}
    assert_equal(found, wanted, 1e-14)
    assert torch.autograd.gradcheck(counts, (eos.requires_grad_(), opened.requires_grad_()))


def test_kernels_are_for_tensors_in_memory_only(monkeypatch):
    assert library.library_for(torch.empty(2)) is not None
    assert library.library_for(torch.empty(2, dtype=torch.float64)) is not library.library_for(torch.empty(2))
    assert library.library_for(torch.empty(2, dtype=torch.bool), torch.float32) is not None
    for other in (torch.empty(2, dtype=torch.bfloat16), torch.empty(2, device="meta")):
        assert library.library_for(other) is None
    monkeypatch.setenv(SWITCH, "0")
    assert library.library_for(torch.empty(2)) is None
