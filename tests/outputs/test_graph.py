"""Graph outputs against all paths and tokens written out; gradients, invariances, and what is refused."""

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.outputs import path_log_probs
from tests.cases import assert_near, draw_references
from tests.oracles.one_pass import clipped_mean, path_outputs, tabulate

FAMILIES = ("random", "self-overlapping", "distinct", "several", "short")


def draw(rng, family):
    """(logits (1, T, V), transitions (1, T, T), references of the sentence)."""
    vocabulary, steps = int(rng.integers(2, 4)), int(rng.integers(1, 6))
    logits = torch.from_numpy(rng.normal(size=(1, steps, vocabulary)) * rng.choice([0.3, 1.0, 3.0]))
    transitions = torch.from_numpy(rng.normal(size=(1, steps, steps)))
    return logits, transitions, draw_references(rng, list(range(vocabulary)), family)


def outputs_of(logits, transitions):
    """{output: probability} of one sentence (T, V), (T, T)."""
    steps = len(logits)
    probs = torch.zeros(steps, steps, dtype=torch.float64)
    for w in range(steps - 1):
        probs[w, w + 1 :] = transitions[w, w + 1 :].softmax(-1)
    return path_outputs(logits.softmax(-1).numpy(), probs.numpy())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("family", FAMILIES)
def test_everything_is_exact(rng, family):
    for _ in range(10):
        logits, transitions, references = draw(rng, family)
        table = tabulate(outputs_of(logits[0], transitions[0]), references, 5)
        output = bleugrad.Graph(logits, transitions)
        found = bleugrad.expected_bleu(output, [references], max_order=5, level="sentence")
        label = str(references)
        assert_near(found.matches[0], table.mean(table.matches), 1e-12, label)
        assert_near(found.totals[0], table.mean(table.totals), 1e-12, label)
        assert_near(found.brevity_penalty[0], table.mean(table.penalties), 1e-12, label)
        assert_near(found.hypothesis_lengths[0], table.mean(table.lengths), 1e-12, label)
        assert_near(found.reference_lengths[0], table.mean(table.reference_lengths), 1e-12, label)


@pytest.mark.parametrize("family", FAMILIES)
def test_clipped_mean_is_its_formula(rng, family):
    for _ in range(6):
        logits, transitions, references = draw(rng, family)
        output = bleugrad.Graph(logits, transitions)
        found = bleugrad.expected_bleu(output, [references], method="clipped_mean")
        outputs = outputs_of(logits[0], transitions[0])
        assert_near(found.matches[0], clipped_mean(outputs, references), 1e-12, str(references))
        table = tabulate(outputs, references)
        assert_near(found.totals[0], table.mean(table.totals), 1e-12, str(references))


def test_independent_rows_are_a_graph_without_a_choice(rng):
    logits = torch.from_numpy(rng.normal(size=(2, 6, 4)))
    references = [[1, 2, 1, 1, 2], [3, 3]]
    chain = torch.full((2, 6, 6), -torch.inf, dtype=torch.float64)
    chain[:, range(5), range(1, 6)] = 0.0
    for method in ("exact", "clipped_mean"):
        found = bleugrad.expected_bleu(bleugrad.Graph(logits, chain), references, method=method, level="sentence")
        wanted = bleugrad.expected_bleu(logits, references, method=method, level="sentence")
        for field in ("value", "matches", "totals", "brevity_penalty"):
            torch.testing.assert_close(getattr(found, field), getattr(wanted, field), rtol=0, atol=1e-13)


LOSSES = {
    "exact": {},
    "sentences": {"level": "sentence", "reduction": "sum", "sharpness": 1.7},
    "clipped_mean": {"method": "clipped_mean", "max_order": 2, "weights": (0, 1)},
    "likelihood": {"cross_entropy_weight": 0.7},
    "sharp, and likelihood": {"cross_entropy_weight": 0.7, "sharpness": 1.7},
}


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES)
def test_gradients(rng, options):
    logits, transitions = (torch.from_numpy(rng.normal(size=(2, 5, size))).requires_grad_() for size in (3, 5))
    labels = torch.tensor([[1, 2, 1, 2, 1, 0], [2, 2, 2, -100, -100, -100]])[
        :, : 5 if "cross_entropy_weight" in options else 6
    ]
    loss, lengths = bleugrad.ExpectedBLEULoss(**options), torch.tensor([5, 3])

    def function(logits, transitions):
        return loss(bleugrad.Graph(logits, transitions, lengths=lengths), labels)

    assert torch.autograd.gradcheck(function, (logits, transitions))


def test_log_probabilities_are_transitions_and_what_is_past_the_end_does_not_matter(rng):
    logits, transitions = (torch.from_numpy(rng.normal(size=(2, 5, size))) for size in (4, 5))
    references, lengths = [[1, 2, 1], [3, 3]], [5, 3]
    wide = torch.full((2, 7, 4), torch.nan, dtype=torch.float64)
    scores = torch.full((2, 7, 7), torch.nan, dtype=torch.float64)
    for b, length in enumerate(lengths):
        wide[b, :length] = logits[b, :length]
        for w in range(length - 1):
            scores[b, w, w + 1 : length] = transitions[b, w, w + 1 : length].log_softmax(-1)
    wide.requires_grad_(), scores.requires_grad_()
    output = bleugrad.Graph(wide, scores, lengths=torch.tensor(lengths))
    result = bleugrad.expected_bleu(output, references, level="sentence")
    result.value.sum().backward()
    for b, length in enumerate(lengths):
        leaves = logits[b : b + 1, :length].clone(), transitions[b : b + 1, :length, :length].clone()
        output = bleugrad.Graph(*(leaf.requires_grad_() for leaf in leaves))
        wanted = bleugrad.expected_bleu(output, references[b : b + 1], level="sentence")
        wanted.value.sum().backward()
        for field in ("value", "matches", "totals", "brevity_penalty"):
            torch.testing.assert_close(getattr(result, field)[b], getattr(wanted, field)[0], rtol=0, atol=1e-13)
        for leaf, alone in ((wide, leaves[0]), (scores, leaves[1])):
            inside = leaf.grad[b, :length, : alone.shape[2]]
            torch.testing.assert_close(inside, alone.grad[0], rtol=0, atol=1e-13)
    assert wide.grad.isfinite().all()
    assert scores.grad.isfinite().all()


REFUSED = {
    "transitions": (lambda x: bleugrad.Graph(x, torch.zeros(1, 5, 4)), {}, "transitions has shape"),
    "lengths": (lambda x: bleugrad.Graph(x, torch.zeros(1, 5, 5), lengths=torch.tensor([9])), {}, "lengths holds"),
    "no way on": (
        lambda x: bleugrad.Graph(x, torch.full((1, 5, 5), -torch.inf)),
        {},
        "first at sentence 0, vertex 0; expected finite logits",
    ),
    "eos_id": (
        lambda x: bleugrad.Graph(x, torch.zeros(1, 5, 5)),
        {"eos_id": 2},
        "eos_id is 2, but the length of Graph",
    ),
    "holes": (
        lambda x: bleugrad.Graph(x, torch.zeros(1, 5, 5)),
        {"mask": torch.tensor([[True, False, True, True, True]])},
        "mask leaves out vertices",
    ),
}


@pytest.mark.parametrize(("make", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input(make, options, message):
    with pytest.raises(ValueError, match=message):
        bleugrad.expected_bleu(make(torch.zeros(1, 5, 4)), [[1, 2]], **options)


def test_cross_entropy_needs_labels():
    output = bleugrad.Graph(torch.zeros(1, 5, 4), torch.zeros(1, 5, 5))
    with pytest.raises(TypeError, match="labels is None"):
        bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0)(output, references=torch.tensor([[1, 2]]))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("sharpness", [1.0, 1.7])
def test_the_likelihood_is_the_sum_over_paths(rng, sharpness):
    """Labels of every length; those that no path emits count 0, and their tokens are divided by."""
    for _ in range(10):
        logits, transitions, _ = draw(rng, "random")
        outputs = outputs_of(logits[0], transitions[0])
        for size in range(1, 8):
            tokens = tuple(int(token) for token in rng.integers(0, logits.shape[2], size))
            value, mixed = (
                bleugrad.ExpectedBLEULoss(cross_entropy_weight=weight, sharpness=sharpness)(
                    bleugrad.Graph(logits, transitions), torch.tensor([tokens])
                )
                for weight in (0.0, 0.5)
            )
            expected = -np.log(outputs[tokens]) / size if tokens in outputs else 0.0
            assert_near(mixed - value, 0.5 * expected, 1e-12, str(tokens))


def test_a_batch_of_likelihoods_is_that_of_its_sentences(rng):
    logits, transitions = (torch.from_numpy(rng.normal(size=(4, 5, size))) for size in (3, 5))
    labels = torch.tensor([[1, -100, 2, 0], [2, 2, 2, 2], [-100, -100, -100, -100], [1, 1, 0, -100]])
    lengths = torch.tensor([5, 3, 4, 3])  # four tokens have no place in three vertices
    logits[1, 3:], transitions[3, 3:] = torch.nan, torch.nan
    loss = bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0, level="sentence", reduction="none")
    leaves = logits.requires_grad_(), transitions.requires_grad_()
    found = loss(bleugrad.Graph(*leaves, lengths=lengths), labels)
    found.sum().backward()
    for b, length in enumerate(lengths.tolist()):
        own = labels[b : b + 1][:, labels[b] != -100]
        alone = [one.detach()[b : b + 1, :length].clone().requires_grad_() for one in leaves]
        value = loss(bleugrad.Graph(alone[0], alone[1][..., :length]), own) if own.numel() else torch.zeros(1)
        torch.testing.assert_close(found[b], value[0].to(found.dtype), rtol=0, atol=1e-12)
        if own.numel():
            value.sum().backward()
            torch.testing.assert_close(leaves[0].grad[b, :length], alone[0].grad[0], rtol=0, atol=1e-12)
    assert leaves[0].grad.isfinite().all()
    assert leaves[1].grad.isfinite().all()


def test_long_likelihoods_do_not_underflow(rng):
    """Against logarithms, in float32; the probability itself is below the smallest float64."""
    steps, size = 120, 90
    emissions = torch.from_numpy(rng.normal(size=(1, steps, size)) * 8 - 40)
    scores = torch.from_numpy(rng.normal(size=(1, steps, steps)) * 4).triu(1)
    log_transitions = scores.masked_fill(torch.ones(steps, steps).tril().bool(), -torch.inf).log_softmax(-1)
    log_transitions = log_transitions.masked_fill(torch.ones(steps, steps).tril().bool(), -torch.inf)
    state = torch.full((steps,), -torch.inf, dtype=torch.float64)
    state[0] = emissions[0, 0, 0]
    for i in range(1, size):
        state = emissions[0, :, i] + (state[:, None] + log_transitions[0]).logsumexp(0)
    arguments = emissions.float(), log_transitions.exp().float(), torch.tensor([steps]), torch.tensor([size])
    found = path_log_probs(*arguments)
    assert state[-1] < -2000
    torch.testing.assert_close(found[0].double(), state[-1], rtol=1e-5, atol=0)


def test_no_labels_and_no_vertices():
    numbers = torch.tensor([0, 0, 1])
    found = path_log_probs(torch.zeros(3, 2, 1), torch.zeros(3, 2, 2), torch.tensor([0, 2, 0]), numbers)
    assert found.tolist() == [0.0, -float("inf"), -float("inf")]
    nothing = torch.tensor([0])
    assert path_log_probs(torch.zeros(1, 0, 0), torch.zeros(1, 0, 0), nothing, nothing).tolist() == [0.0]
