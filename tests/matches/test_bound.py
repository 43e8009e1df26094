"""The paper's bound: its formula, where it is a lower bound, and where it is not."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, STATISTICS, Case, assert_near, draw_case, draw_cases, one_hot_logits
from tests.oracles import counting
from tests.oracles.bound import bound, bound_with_eos


def oracle(case, max_order):
    def one(b, n):
        if case.eos_id is None:
            return bound(case.rows(b), case.references[b], n)
        return bound_with_eos(case.rows(b), case.references[b], n, case.eos_id)

    return [[one(b, n) for n in range(1, max_order + 1)] for b in range(case.batch)]


@pytest.mark.parametrize("eos", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_formula(family, eos):
    for case in draw_cases(30, family, 15, eos=eos):
        result = bleugrad.expected_bleu(case.logits, case.references, method="bound", **case.keywords)
        assert_near(result.matches, oracle(case, 4))


@pytest.mark.parametrize("eos_id", [None, 0])
def test_equals_the_formula_on_sentences_of_real_length(rng, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 25, 6)))
    references = [[rng.integers(1, 6, size=20).tolist() for _ in range(k)] for k in (1, 3)]
    case = Case(logits, references, eos_id=eos_id)
    result = bleugrad.expected_bleu(logits, references, method="bound", eos_id=eos_id)
    assert_near(result.matches, oracle(case, 4))


@pytest.mark.parametrize("eos_id", [None, 2])
@pytest.mark.parametrize("scale", [2.0, 5.0, 10.0, 20.0])
def test_both_methods_on_peaked_rows(rng, scale, eos_id):
    """Trained models: rows within e^-4 to e^-40 of one-hot, an EOS nearly sure where it stands."""
    for _ in range(6):
        logits = one_hot_logits(rng.integers(0, 3, size=(3, 6)), 3, scale=scale)
        case = Case(logits, [[rng.integers(0, 2, size=5).tolist()] for _ in range(3)], eos_id=eos_id)
        lower = bleugrad.expected_bleu(logits, case.references, method="bound", eos_id=eos_id)
        assert_near(lower.matches, oracle(case, 4), 1e-9)
        exact = bleugrad.expected_bleu(logits, case.references, eos_id=eos_id)
        assert_near(exact.matches, [table.mean(table.matches) for table in case.tables(4)], 1e-9)


@pytest.mark.parametrize("eos", [False, True])
def test_everything_but_the_matches_is_as_in_the_exact_method(rng, eos):
    """Totals, lengths, penalty and certificates are the same; precisions and value follow LB_n."""
    for family in FAMILIES:
        case = draw_case(rng, family, eos=eos)
        for level in ("sentence", "corpus"):
            exact, lower = (
                bleugrad.expected_bleu(case.logits, case.references, method=method, level=level, **case.keywords)
                for method in ("exact", "bound")
            )
            for field in (
                "totals",
                "hypothesis_lengths",
                "reference_lengths",
                "brevity_penalty",
                "lower",
                "upper",
            ):
                assert_near(getattr(lower, field), getattr(exact, field).tolist(), 1e-12, field)
            matches, totals = lower.matches.numpy(), lower.totals.numpy()
            if level == "corpus":
                matches, totals = matches.sum(0), totals.sum(0)
            precisions = (matches + 1) / (totals + 1)
            assert_near(lower.precisions, precisions, 1e-12)
            assert_near(lower.value, lower.brevity_penalty.numpy() * precisions.prod(-1) ** 0.25, 1e-12)


@pytest.mark.parametrize("eos", [False, True])
def test_never_above_the_truth_for_references_of_distinct_words(eos):
    strict = 0
    for case in draw_cases(31, "distinct", 60, eos=eos):
        exact, lower = (
            bleugrad.expected_bleu(case.logits, case.references, method=method, **case.keywords).matches
            for method in ("exact", "bound")
        )
        assert (lower <= exact + 1e-12).all()
        strict += (lower < exact - 1e-3).any().item()
    assert strict > 20  # otherwise nothing was tested


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, 2])
def test_equals_bleu_on_one_hot_rows_for_any_reference(rng, method, eos_id):
    for _ in range(20):
        hypotheses = rng.integers(0, 3, size=(4, 7))
        references = [
            [rng.integers(0, 3, size=rng.integers(1, 8)).tolist() for _ in range(rng.integers(1, 4))] for _ in range(4)
        ]
        cut = [counting.cut(row, eos_id) for row in hypotheses.tolist()]
        cut_references = [[counting.cut(reference, eos_id) for reference in own] for own in references]
        logits = one_hot_logits(hypotheses, 3)
        for level in ("sentence", "corpus"):
            result = bleugrad.expected_bleu(
                logits, references, method=method, eos_id=eos_id, level=level, smoothing=0.5
            )
            counted = bleugrad.bleu(cut, cut_references, level=level, smoothing=0.5)
            for field in STATISTICS:
                assert_near(getattr(result, field), getattr(counted, field).tolist(), 1e-12, field)


def test_smallest_counter_example():
    """Reference `a a`, p(a) = 1/2, T = 3: the bound says 1.5, the truth is 1.375."""
    logits = torch.zeros(1, 3, 2, dtype=torch.float64)
    for method, value in (("bound", 1.5), ("exact", 1.375)):
        result = bleugrad.expected_bleu(logits, [[0, 0]], method=method, max_order=1)
        assert_near(result.matches, [[value]], 1e-15)


def test_exceeds_the_truth_somewhere_when_words_repeat():
    """MATH section 2: about one case in five, by up to ten per cent, also at orders above one."""
    exceeded = np.zeros(2)
    cases = draw_cases(32, "self-overlapping", 60)
    for case in cases:
        exact, surrogate = (
            bleugrad.expected_bleu(case.logits, case.references, method=method, max_order=2).matches
            for method in ("exact", "bound")
        )
        exceeded += (surrogate > exact * 1.001 + 1e-6).any(0).numpy()
    assert (exceeded >= 0.05 * len(cases)).all()
    assert (exceeded <= 0.9 * len(cases)).all()


@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("options", [{}, {"word_start": torch.ones(3, dtype=torch.bool)}, {"eos_id": 2}])
def test_rows_equal_up_to_rounding_have_one_gradient(rng, monkeypatch, kernels, dtype, options):
    """`a a` and p(a) = 1/2 at three positions: c = 1 + z, where min(1, c / (1 + z)) has two slopes.

    The gradient is the slope towards more matches, the same for rows that differ by rounding, with and without kernels.
    """
    monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
    even = torch.tensor([0.0, 0.0, -1e4], dtype=torch.float64).expand(1, 3, 3)

    def bound(logits):
        return bleugrad.expected_bleu(logits, [[0, 0]], method="bound", max_order=1, **options).matches.sum()

    toward, step = torch.tensor([1.0, 0, 0], dtype=torch.float64), 1e-4  # beyond the tie, within the second order
    slope = ((bound(even + 2 * step * toward) - bound(even + step * toward)) / step).item()
    for noise in (0.0, 1e-7, 1e-7, 1e-7, 1e-7):
        logits = (even + noise * torch.from_numpy(rng.normal(size=even.shape))).to(dtype).requires_grad_()
        (gradient,) = torch.autograd.grad(bound(logits), logits)
        assert gradient[..., 0].sum().item() == pytest.approx(slope, abs=1e-3)
