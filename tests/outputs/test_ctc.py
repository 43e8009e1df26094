"""CTC outputs against all frame sequences written out; gradients, invariances, and what is refused."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import assert_near, draw_references, one_hot_logits
from tests.oracles.one_pass import clipped_mean, frame_outputs, merge, tabulate


def draw(rng, family):
    """(logits (1, T, V), blank, references of the sentence)."""
    vocabulary, steps = int(rng.integers(2, 5)), int(rng.integers(1, 7))
    steps = min(steps, 5) if vocabulary == 4 else steps
    blank = int(rng.integers(vocabulary))
    words = [v for v in range(vocabulary) if v != blank]
    logits = torch.from_numpy(rng.normal(size=(1, steps, vocabulary)) * rng.choice([0.3, 1.0, 3.0]))
    return logits, blank, draw_references(rng, words, family)


def rows(logits):
    return logits.softmax(-1).numpy()


FAMILIES = ("random", "self-overlapping", "distinct", "several", "short")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("family", FAMILIES)
def test_matches_and_mean_length_are_exact(rng, family):
    for _ in range(10):
        logits, blank, references = draw(rng, family)
        table = tabulate(frame_outputs(rows(logits[0]), blank), references, 5)
        found = bleugrad.expected_bleu(bleugrad.CTC(logits, blank_id=blank), [references], max_order=5)
        label = f"{references} {blank}"
        assert_near(found.matches[0], table.mean(table.matches), 1e-12, label)
        assert_near(found.totals[0, :2], table.mean(table.totals)[:2], 1e-12, label)
        assert_near(found.hypothesis_lengths[0], table.mean(table.lengths), 1e-12, label)
        assert found.lower is None
        assert found.upper is None


@pytest.mark.parametrize("family", FAMILIES)
def test_clipped_mean_is_its_formula(rng, family):
    for _ in range(6):
        logits, blank, references = draw(rng, family)
        outputs = frame_outputs(rows(logits[0]), blank)
        output = bleugrad.CTC(logits, blank_id=blank)
        found = bleugrad.expected_bleu(output, [references], method="clipped_mean").matches[0]
        assert_near(found, clipped_mean(outputs, references), 1e-12, f"{references} {blank}")
        exact = bleugrad.expected_bleu(output, [references]).matches[0]
        assert (exact <= found + 1e-12).all()


def test_the_distribution_of_the_length_is_near_the_true_one(rng):
    """A surrogate: brevity penalty and totals are off by less than a quarter of what the mean length alone gives."""
    errors = []
    for _ in range(40):
        logits, blank, references = draw(rng, "random")
        table = tabulate(frame_outputs(rows(logits[0]), blank), references)
        found = bleugrad.expected_bleu(bleugrad.CTC(logits, blank_id=blank), [references], level="sentence")
        mean, closest = table.mean(table.lengths), table.mean(table.reference_lengths)
        wanted = np.append(table.mean(table.penalties), table.mean(table.totals))
        by_mean = np.append(min(1, np.exp(1 - closest / mean)), np.maximum(mean - np.arange(4), 0))
        chain = np.append(found.brevity_penalty, found.totals)
        errors.append([np.abs(chain - wanted), np.abs(by_mean - wanted)])
    chain, by_mean = np.mean(errors, 0)
    assert chain[1:3].max() < 1e-12
    assert (chain[[0, 3, 4]] < 0.25 * by_mean[[0, 3, 4]]).all(), (chain, by_mean)


def test_one_token_and_blank_have_the_exact_length(rng):
    logits = torch.from_numpy(rng.normal(size=(1, 6, 2)))
    table = tabulate(frame_outputs(rows(logits[0]), 0), [[1, 1]])
    found = bleugrad.expected_bleu(bleugrad.CTC(logits, blank_id=0), [[1, 1]], level="sentence")
    assert_near(found.totals[0], table.mean(table.totals), 1e-12)
    assert_near(found.brevity_penalty[0], table.mean(table.penalties), 1e-12)


def test_certain_frames_have_the_bleu_of_the_merged_tokens(rng):
    frames = torch.from_numpy(rng.integers(0, 4, size=(5, 12)))
    references = rng.integers(1, 4, size=(5, 7))
    merged = [list(merge(row, 0)) for row in frames.tolist()]
    output = bleugrad.CTC(one_hot_logits(frames, 4), blank_id=0)
    found = bleugrad.expected_bleu(output, references.tolist(), level="sentence")
    wanted = bleugrad.bleu(merged, references.tolist(), level="sentence", smoothing=1.0)
    torch.testing.assert_close(found.value, wanted.value.double(), rtol=0, atol=1e-6)
    assert_near(found.matches, wanted.matches, 1e-12)


LOSSES = {
    "exact": {},
    "sentences": {"level": "sentence", "reduction": "sum"},
    "sharper": {"sharpness": 1.7, "cross_entropy_weight": 0.5},
    "clipped_mean": {"method": "clipped_mean", "max_order": 2, "weights": (0, 1)},
}


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES)
def test_gradients(rng, options):
    """Several sentences with different numbers of frames, clips above 1 and overlaps."""
    logits = torch.from_numpy(rng.normal(size=(3, 6, 5))).requires_grad_()
    labels = torch.tensor([[1, 2, 1, 2, 1, 3], [3, 3, 3, -100, -100, -100], [4, 1, -100, -100, -100, -100]])
    loss, lengths = bleugrad.ExpectedBLEULoss(**options), torch.tensor([6, 5, 3])
    assert torch.autograd.gradcheck(lambda x: loss(bleugrad.CTC(x, blank_id=0, lengths=lengths), labels), logits)


def test_the_cross_entropy_is_ctc_loss_per_token(rng):
    logits = torch.from_numpy(rng.normal(size=(3, 7, 5)))
    labels = torch.tensor([[1, 2, -100], [3, 3, 4], [-100, 2, -100]])
    lengths = torch.tensor([7, 6, 4])
    output = bleugrad.CTC(logits, blank_id=0, lengths=lengths)
    plain = bleugrad.ExpectedBLEULoss()(output, labels)
    found = bleugrad.ExpectedBLEULoss(cross_entropy_weight=2.0)(output, labels) - plain
    targets, counts = torch.tensor([[1, 2, 0], [3, 3, 4], [2, 0, 0]]), torch.tensor([2, 3, 1])
    log_probs = logits.log_softmax(-1).transpose(0, 1)
    wanted = torch.nn.functional.ctc_loss(log_probs, targets, lengths, counts, reduction="sum") / counts.sum()
    torch.testing.assert_close(found, 2 * wanted)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 1e-6)], ids=["double", "single"])
def test_frames_that_do_not_count_do_not_matter(rng, dtype, atol):
    """Past the lengths, in the holes of a mask, and with anything in them; nor do the other sentences."""
    logits = torch.from_numpy(rng.normal(size=(2, 6, 4))).to(dtype)
    references = [[1, 2, 1], [3, 3]]
    mask = torch.tensor([[True, False, True, True, False, True], [True, True, True, False, False, False]])
    wide = torch.full((2, 8, 4), torch.nan, dtype=dtype)
    wide[:, :6] = logits.masked_fill(~mask[..., None], torch.inf)
    wide.requires_grad_()
    padded = torch.nn.functional.pad(mask, (0, 2), value=True)
    output = bleugrad.CTC(wide, blank_id=0, lengths=torch.tensor([6, 3]))
    result = bleugrad.expected_bleu(output, references, mask=padded, level="sentence")
    result.value.sum().backward()
    for b in range(2):
        alone = logits[b, mask[b]][None].requires_grad_()
        wanted = bleugrad.expected_bleu(bleugrad.CTC(alone, blank_id=0), references[b : b + 1], level="sentence")
        wanted.value.sum().backward()
        for field in ("value", "matches", "totals", "brevity_penalty"):
            torch.testing.assert_close(getattr(result, field)[b], getattr(wanted, field)[0], rtol=0, atol=atol)
        torch.testing.assert_close(wide.grad[b, :6][mask[b]], alone.grad[0], rtol=0, atol=atol)
        assert (wide.grad[b, :6][~mask[b]] == 0).all()
        assert (wide.grad[b, 6:] == 0).all()


def test_sentences_without_labels_or_frames_do_not_count(rng):
    logits = torch.from_numpy(rng.normal(size=(3, 5, 4)))
    labels = torch.tensor([[1, 2, 3], [-100, -100, -100], [2, 2, -100]])
    loss = bleugrad.ExpectedBLEULoss(level="sentence", reduction="none", cross_entropy_weight=0.1)
    found = loss(bleugrad.CTC(logits, blank_id=0, lengths=torch.tensor([5, 5, 0])), labels)
    assert_near(found, [loss(bleugrad.CTC(logits[:1], blank_id=0), labels[:1]).item(), 0, 0], 1e-12)


def test_half_precision_is_near(rng):
    logits = torch.from_numpy(rng.normal(size=(2, 6, 9))).bfloat16()
    labels = torch.tensor([[1, 2, 1], [5, 6, 7]])
    values, gradients = [], []
    for one in (logits, logits.float()):
        leaf = one.clone().requires_grad_()
        value = bleugrad.ExpectedBLEULoss()(bleugrad.CTC(leaf, blank_id=0), labels)
        value.backward()
        values.append(value.item())
        gradients.append(leaf.grad.float())
        assert leaf.grad.dtype == one.dtype
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    torch.testing.assert_close(*gradients, rtol=0.01, atol=1e-4)


def broken(logits):
    return torch.where(torch.arange(4) == 2, torch.nan, logits)


REFUSED = {
    "blank_id": (lambda x: bleugrad.CTC(x, blank_id=4), {}, "blank_id is 4; expected an id of the vocabulary, 0 to 3"),
    "lengths": (lambda x: bleugrad.CTC(x, blank_id=0, lengths=torch.tensor([9])), {}, "lengths holds"),
    "references": (lambda x: bleugrad.CTC(x, blank_id=1), {}, "labels, references or candidates hold blank_id 1"),
    "eos_id": (lambda x: bleugrad.CTC(x, blank_id=0), {"eos_id": 2}, "eos_id is 2, but the length of CTC"),
    "bound": (lambda x: bleugrad.CTC(x, blank_id=0), {"method": "bound"}, "method is 'bound', but CTC"),
    "words": (
        lambda x: bleugrad.CTC(x, blank_id=0),
        {"word_start": torch.ones(4, dtype=torch.bool)},
        "word_start is given, but CTC",
    ),
    "NaN": (lambda x: bleugrad.CTC(broken(x), blank_id=0), {}, "logits holds NaN"),
}


@pytest.mark.parametrize(("make", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input(make, options, message):
    with pytest.raises(ValueError, match=message):
        bleugrad.expected_bleu(make(torch.zeros(1, 5, 4)), [[1, 2]], **options)


def test_labels_have_one_row_for_each_sentence():
    with pytest.raises(ValueError, match=r"labels has shape \(3, 2\); expected \(1, R\)"):
        bleugrad.ExpectedBLEULoss()(bleugrad.CTC(torch.zeros(1, 5, 4), blank_id=0), torch.ones(3, 2, dtype=torch.long))
