"""Parts that all sampled losses share: samples, log-probabilities, rewards, seeds, masks, dtypes, bad arguments."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU

import bleugrad
from bleugrad.backends.operations import row_probabilities, sampled_tokens
from bleugrad.backends.torch import sampled_tokens as drawing
from tests.oracles.counting import combine, cut

LOSSES = {
    "reinforce": bleugrad.ReinforceLoss,
    "reinforce leave-one-out": partial(bleugrad.ReinforceLoss, samples=3, baseline="leave-one-out"),
    "minimum risk": bleugrad.MinimumRiskLoss,
    "minimum risk with reference": partial(bleugrad.MinimumRiskLoss, include_reference=True),
    "unbiased": bleugrad.UnbiasedBLEULoss,
    "unbiased, three": partial(bleugrad.UnbiasedBLEULoss, samples=3),
}
every_loss = pytest.mark.parametrize("build", LOSSES.values(), ids=LOSSES.keys())


def example(dtype=torch.float64, batch=3, steps=6, vocabulary=11):
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(batch, steps, vocabulary, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.randint(1, vocabulary, (batch, steps), generator=generator)
    labels[1, 4:] = -100
    return logits.requires_grad_(), labels


def value_and_gradient(loss, logits, *arguments, **keywords):
    value = loss(logits, *arguments, **keywords)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


# draws


def draw_tokens(probs, samples, generator=None):
    """Tokens (B, S, T)."""
    uniform = torch.rand(*probs.shape[:2], samples, generator=generator, dtype=torch.float64)
    return drawing.draw_tokens(probs, uniform).transpose(1, 2)


def token_log_probs(logits, tokens):
    """Log-probabilities of chosen tokens (B, T, J)."""
    return row_probabilities(logits, tokens.new_empty(len(tokens), 0), tokens, None, 1.0, False)[1]


def test_tokens_are_drawn_with_the_probabilities_of_their_rows():
    """Chi-square of 200,000 draws a row, in blocks of one row and of all."""
    rows = torch.tensor([[[0.5, 0.0, 0.3, 0.2], [0.1, 0.2, 0.7, 0.0], [1e-3, 0.0, 0.0, 0.999]]], dtype=torch.float64)
    draws = draw_tokens(rows, 200_000, torch.Generator().manual_seed(0))
    assert draws.shape == (1, 200_000, 3)
    for t, row in enumerate(rows[0].numpy()):
        counts = np.bincount(draws[0, :, t], minlength=4)
        possible = row > 0
        assert counts[~possible].sum() == 0
        expected = 200_000 * row[possible]
        chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
        assert chi_square < 20.5  # of at most 2 degrees of freedom: one in 28,000


@pytest.mark.parametrize(("number", "token"), [(0.0, 1), (1 - 2**-53, 2)])
def test_no_random_number_draws_a_token_of_probability_zero(number, token):
    rows = torch.tensor([[[0.0, 0.25, 0.25, 0.0]]], dtype=torch.float64)  # the sum may round to less than 1
    uniform = torch.full((1, 1, 2), number, dtype=torch.float64)
    assert drawing.draw_tokens(rows, uniform).tolist() == [[[token, token]]]


def test_rows_and_samples_are_independent():
    draws = draw_tokens(torch.full((2, 2, 2), 0.5), 100_000, torch.Generator().manual_seed(0))
    together = torch.stack([draws[0, :, 0], draws[0, :, 1], draws[1, :, 0], draws[0, :, 0].roll(1)]).double()
    correlation = torch.corrcoef(together) - torch.eye(4)
    assert correlation.abs().max() < 4.5 / 100_000**0.5


def test_a_large_vocabulary_is_drawn_from_in_blocks():
    logits = torch.full((2, 40, 30_000), -60.0)
    wanted = torch.randint(0, 30_000, (2, 40), generator=torch.Generator().manual_seed(1))
    logits.scatter_(2, wanted[..., None], 0.0)
    tokens, greedy = sampled_tokens(logits, torch.rand(2, 40, 1))
    assert torch.equal(tokens[..., 0], wanted)
    assert torch.equal(greedy, wanted)
    assert (token_log_probs(logits, wanted[..., None]).abs() < 1e-6).all()


def test_log_probabilities_and_their_gradient_are_those_of_log_softmax():
    torch.manual_seed(0)
    logits = 30 * torch.randn(2, 5, 7, dtype=torch.float64)
    logits[0, 1, 3] = -torch.inf
    logits.requires_grad_()
    tokens = torch.randint(0, 7, (2, 5, 4)).masked_fill(torch.tensor([False, True, False, False, False])[:, None], 2)
    weights = torch.randn(2, 5, 4, dtype=torch.float64)
    ours = token_log_probs(logits, tokens)
    theirs = logits.log_softmax(-1).gather(2, tokens)
    torch.testing.assert_close(ours, theirs)
    found, expected = (torch.autograd.grad((each * weights).sum(), logits)[0] for each in (ours, theirs))
    torch.testing.assert_close(found, expected)


def test_log_probabilities_too_small_for_a_float_come_from_the_logits():
    logits = torch.tensor([[[0.0, -200.0, -90.0]]], requires_grad=True)
    log_probs = token_log_probs(logits, torch.tensor([[[1, 2, 0]]]))
    assert log_probs.tolist() == [[[-200.0, -90.0, 0.0]]]


def test_a_graph_may_be_walked_twice():
    logits, labels = example()
    value = bleugrad.ReinforceLoss(generator=0)(logits, labels)
    (first,) = torch.autograd.grad(value, logits, retain_graph=True)
    first = first.clone()
    (second,) = torch.autograd.grad(value, logits)
    torch.testing.assert_close(first, second)


# rewards


@pytest.mark.parametrize("eos_id", [None, 0])
@every_loss
def test_rewards_are_those_of_sacrebleus_statistics_on_the_same_samples(build, eos_id):
    """Counts, totals and brevity penalty from sacreBLEU, +1 on every order; two references each."""
    logits, _ = example(batch=8, steps=9, vocabulary=5)
    generator = torch.Generator().manual_seed(2)
    references = torch.randint(1, 5, (8, 2, 7), generator=generator)
    loss = build(eos_id=eos_id, generator=1)
    labels = torch.randint(1, 5, (8, 9), generator=generator)
    loss(logits, labels, references=references)
    judge = BLEU(smooth_method="none", tokenize="none", force=True, effective_order=False)
    seen = loss.statistics
    for b in range(8):
        for s in range(loss.samples):
            sample = cut(seen.tokens[b, s].tolist(), eos_id)
            assert seen.lengths[b, s] == len(sample)
            score = judge.corpus_score(
                [" ".join(map(str, sample))], [[" ".join(map(str, ids))] for ids in references[b].tolist()]
            )
            expected = combine(score.counts, score.totals, score.bp, smoothing=1.0)
            assert seen.rewards[b, s].item() == pytest.approx(expected, abs=1e-12)


# random numbers


@every_loss
def test_seeds_reproduce(build):
    logits, labels = example()
    runs = []
    for seed in (7, 7, 8):
        loss = build(generator=seed)
        runs.append([value_and_gradient(loss, logits, labels) for _ in range(2)])
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=0)
    assert not torch.equal(runs[0][0][1], runs[2][0][1])
    assert not torch.equal(runs[0][0][1], runs[0][1][1])  # the generator moves on


@every_loss
def test_a_generator_and_the_default_generator_reproduce(build):
    logits, labels = example()
    own = [value_and_gradient(build(generator=torch.Generator().manual_seed(3)), logits, labels) for _ in range(2)]
    torch.testing.assert_close(*own, rtol=0, atol=0)
    default = []
    for _ in range(2):
        torch.manual_seed(3)
        default.append(value_and_gradient(build(), logits, labels))
    torch.testing.assert_close(*default, rtol=0, atol=0)
    torch.testing.assert_close(own[0], default[0], rtol=0, atol=0)


def test_the_global_generator_is_left_alone_by_a_seed():
    logits, labels = example()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    bleugrad.ReinforceLoss(generator=5)(logits, labels)
    assert torch.equal(torch.get_rng_state(), before)


# what counts


@every_loss
def test_labels_are_references_and_mask(build):
    logits, labels = example()
    mask = labels != -100
    lists = [[row[m].tolist()] for row, m in zip(labels, mask, strict=True)]
    found = value_and_gradient(build(generator=0), logits, labels)
    expected = value_and_gradient(build(generator=0), logits, labels, references=lists, mask=mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert (found[1][1, 4:] == 0).all()


@every_loss
def test_reductions(build):
    logits, labels = example()
    labels[2] = -100
    loss = {kind: value_and_gradient(build(generator=0, reduction=kind), logits, labels) for kind in ("none", "sum")}
    mean, gradient = value_and_gradient(build(generator=0), logits, labels)
    assert loss["none"][0].shape == (3,)
    assert loss["none"][0][2] == 0
    torch.testing.assert_close(loss["none"][0].sum(), loss["sum"][0])
    torch.testing.assert_close(mean, loss["sum"][0] / 2)  # the third sentence does not count
    torch.testing.assert_close(gradient, loss["sum"][1] / 2)
    assert (gradient[2] == 0).all()


@every_loss
def test_nothing_that_counts_is_a_loss_of_zero(build):
    logits, labels = example()
    value, gradient = value_and_gradient(build(generator=0), logits, torch.full_like(labels, -100))
    assert value == 0
    assert (gradient == 0).all()
    empty = torch.zeros(0, 6, 11, requires_grad=True)
    assert build(generator=0)(empty, labels[:0]) == 0


@every_loss
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("batch", [0, 2])
def test_no_positions_at_all_are_a_loss_of_zero(build, eos_id, batch):
    logits, labels = torch.zeros(batch, 0, 11, requires_grad=True), torch.zeros(batch, 0, dtype=torch.long)
    for references in (None, torch.ones(batch, 3, dtype=torch.long)):
        loss = build(generator=0, eos_id=eos_id, reduction="none")
        value, gradient = value_and_gradient(loss, logits, labels, references=references)
        assert value.tolist() == [0] * batch
        assert gradient.shape == logits.shape


@every_loss
def test_a_sentence_of_which_nothing_counts_is_zero_whatever_its_reference(build):
    logits, labels = example()
    mask = torch.ones_like(labels, dtype=torch.bool)
    mask[1] = False
    value, gradient = value_and_gradient(
        build(generator=0, reduction="none"), logits, labels.clamp(min=1), references=[[1, 2]] * 3, mask=mask
    )
    assert value[1] == 0
    assert (gradient[1] == 0).all()
    assert (value[[0, 2]] > 0).all()


@every_loss
def test_rows_that_do_not_count_may_hold_anything(build):
    logits, labels = example()
    broken = logits.detach().clone()
    broken[1, 4] = torch.nan
    broken[1, 5] = torch.inf
    clean = value_and_gradient(build(generator=0), logits, labels)
    found = value_and_gradient(build(generator=0), broken.requires_grad_(), labels)
    torch.testing.assert_close(found, clean, rtol=0, atol=0)


@every_loss
def test_a_sure_and_perfect_output_has_loss_zero(build):
    labels = torch.tensor([[1, 2, 3, 4, 5]])
    logits = 1e4 * torch.nn.functional.one_hot(labels, 6).double().requires_grad_()
    value, gradient = value_and_gradient(build(generator=0), logits.detach().requires_grad_(), labels)
    assert value == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12


# precision and devices


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)])
@every_loss
def test_other_precisions(build, dtype, tolerance):
    """The same samples, since they are drawn from the same rounded logits."""
    logits, labels = example(dtype)
    value, gradient = value_and_gradient(build(generator=0), logits, labels)
    exact = value_and_gradient(build(generator=0), logits.detach().double().requires_grad_(), labels)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    torch.testing.assert_close(value.double(), exact[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(
        gradient.double(), exact[1], rtol=tolerance, atol=tolerance * float(exact[1].abs().max())
    )


@every_loss
def test_autocast_does_not_touch_it(build):
    logits, labels = example(torch.float32)
    plain = value_and_gradient(build(generator=0), logits, labels)
    with torch.autocast("cpu", torch.bfloat16):
        cast = value_and_gradient(build(generator=0), logits, labels)
    torch.testing.assert_close(cast, plain, rtol=0, atol=0)


@every_loss
def test_no_gradient_is_needed_and_the_module_prints_and_copies(build):
    logits, labels = example()
    loss = build(generator=0)
    assert loss.statistics is None
    assert "samples=" in repr(copy.deepcopy(loss))
    assert not loss(logits.detach(), labels).requires_grad


# bad arguments

BAD_OPTIONS = [
    ("samples", 0, ValueError),
    ("samples", 2.0, TypeError),
    ("samples", True, TypeError),
    ("max_order", 0, ValueError),
    ("weights", [1.0], ValueError),
    ("smoothing", -1.0, ValueError),
    ("eos_id", 1.5, TypeError),
    ("ignore_index", None, TypeError),
    ("reduction", "median", ValueError),
    ("generator", 1.5, TypeError),
    ("generator", "seed", TypeError),
]


@pytest.mark.parametrize(("argument", "value", "exception"), BAD_OPTIONS)
@pytest.mark.parametrize("build", [bleugrad.ReinforceLoss, bleugrad.MinimumRiskLoss, bleugrad.UnbiasedBLEULoss])
def test_bad_options_are_named(build, argument, value, exception):
    with pytest.raises(exception, match=rf"^{argument}\b"):
        build(**{argument: value})


LOGITS = torch.zeros(2, 3, 4)
LABELS = torch.zeros(2, 3, dtype=torch.long)
BAD_CALLS = [
    ("logits", {"logits": LOGITS.long()}, TypeError),
    ("logits", {"logits": LOGITS[0]}, ValueError),
    ("logits", {"logits": LOGITS.tolist()}, TypeError),
    ("logits", {"logits": LOGITS * torch.nan}, ValueError),
    ("labels", {"labels": LABELS[:1]}, ValueError),
    ("labels", {"labels": LABELS + 4}, ValueError),
    ("labels", {"labels": None}, TypeError),
    ("references", {"references": [[1]]}, ValueError),
    ("mask", {"mask": LABELS}, TypeError),
]


@pytest.mark.parametrize(("argument", "changes", "exception"), BAD_CALLS)
@every_loss
def test_bad_calls_are_named(build, argument, changes, exception):
    call = {"logits": LOGITS, "labels": LABELS} | changes
    with pytest.raises(exception, match=rf"^{argument}\b"):
        build()(call.pop("logits"), call.pop("labels"), **call)


@every_loss
def test_an_eos_outside_the_vocabulary_is_named(build):
    with pytest.raises(ValueError, match=r"^eos_id is 4"):
        build(eos_id=4)(LOGITS, LABELS)
