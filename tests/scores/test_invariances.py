"""Invariances: padding, order of the batch, batch-mates, numbering of the vocabulary, constants added to logits."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import Case, assert_same, draw_mask, draw_references

PER_SENTENCE = ("value", "matches", "totals", "precisions", "brevity_penalty", "hypothesis_lengths",
                "reference_lengths", "upper", "lower")  # fmt: skip

configurations = pytest.mark.parametrize(
    ("method", "eos_id"), [("exact", None), ("exact", 4), ("bound", None), ("bound", 4)]
)


@pytest.fixture(params=["single", "several"])
def case(request, rng):
    """Four sentences of nine positions over five words (the last one is EOS where there is one)."""
    family = "self-overlapping" if request.param == "single" else "several"
    references = [draw_references(rng, [0, 1, 2, 3], family) for _ in range(4)]
    mask = draw_mask(rng, 4, 9)
    mask[0] = True
    return Case(torch.from_numpy(rng.normal(size=(4, 9, 5))), references, mask)


def run(case, method, eos_id, level="sentence", **changes):
    arguments = {"logits": case.logits, "references": case.references, "mask": case.mask} | changes
    return bleugrad.expected_bleu(**arguments, method=method, eos_id=eos_id, level=level)


def pick(result, index):
    """Rows of a sentence-level result."""
    fields = {f: getattr(result, f) for f in PER_SENTENCE}
    return type("Rows", (), {f: None if v is None else v[index] for f, v in fields.items()})


@configurations
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_padding_is_truncation(case, rng, method, eos_id, level):
    """Masked-out positions at the end, of any logits, and padding after the references."""
    plain = run(case, method, eos_id, level)
    extra = torch.from_numpy(rng.normal(size=(4, 5, 5)) * 50)
    mask = torch.cat([case.mask, torch.zeros(4, 5, dtype=torch.bool)], 1)
    padded = [[reference + [-100] * 6 for reference in own] for own in case.references]
    assert_same(run(case, method, eos_id, level, logits=torch.cat([case.logits, extra], 1), mask=mask), plain)
    assert_same(run(case, method, eos_id, level, references=padded), plain)


@configurations
def test_holes_close_up(case, method, eos_id):
    result = run(case, method, eos_id)
    for b in range(case.batch):
        counted = case.logits[b : b + 1, case.mask[b]]
        if counted.shape[1] > 0:
            alone = run(case, method, eos_id, logits=counted, references=[case.references[b]], mask=None)
            assert_same(pick(result, [b]), alone, fields=PER_SENTENCE)


@configurations
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_the_order_of_the_batch(case, method, eos_id, level):
    order = [2, 0, 3, 1]
    shuffled = run(
        case, method, eos_id, level, logits=case.logits[order], mask=case.mask[order],
        references=[case.references[b] for b in order],
    )  # fmt: skip
    plain = run(case, method, eos_id, level)
    if level == "sentence":
        assert_same(shuffled, pick(plain, order), fields=PER_SENTENCE)
    else:
        pooled = ("value", "precisions", "brevity_penalty")
        assert_same(shuffled, plain, fields=pooled)
        torch.testing.assert_close(shuffled.matches, plain.matches[order])


@configurations
def test_batch_mates_do_not_matter(case, rng, method, eos_id):
    """A sentence alone, and next to a much longer reference, gives what it gives in its batch."""
    together = run(case, method, eos_id)
    long = rng.integers(0, 4, size=40).tolist()
    for b in range(case.batch):
        own = case.references[b]
        alone = run(case, method, eos_id, logits=case.logits[[b]], references=[own], mask=case.mask[[b]])
        beside = run(case, method, eos_id, logits=case.logits[[0, b]], references=[[long], own], mask=case.mask[[0, b]])
        assert_same(pick(together, [b]), alone, fields=PER_SENTENCE)
        assert_same(pick(beside, [1]), alone, fields=PER_SENTENCE)


@configurations
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_relabelling_the_vocabulary(case, rng, method, eos_id, level):
    names = rng.permutation(5)  # word v is now called names[v]
    logits = torch.empty_like(case.logits)
    logits[..., torch.from_numpy(names)] = case.logits
    renamed = [[[int(names[v]) for v in reference] for reference in own] for own in case.references]
    plain = run(case, method, eos_id, level)
    new_eos = None if eos_id is None else int(names[eos_id])
    assert_same(run(case, method, new_eos, level, logits=logits, references=renamed), plain)
    hypotheses = case.logits.argmax(-1)
    counted = bleugrad.bleu(hypotheses, case.references, smoothing=0, level=level)
    assert_same(bleugrad.bleu(torch.from_numpy(names)[hypotheses], renamed, smoothing=0, level=level), counted)


@configurations
def test_words_outside_the_references_are_one_word(case, method, eos_id):
    """Splitting the mass of an unused word over two new ones changes nothing."""
    unused = 5
    logits = torch.cat([case.logits, torch.zeros(4, 9, 1, dtype=torch.float64)], -1)
    split = torch.cat([logits, logits[..., unused:]], -1)
    split[..., unused:] -= np.log(2)
    assert_same(run(case, method, eos_id, logits=split), run(case, method, eos_id, logits=logits))


@configurations
def test_adding_a_constant_to_the_logits_of_a_position(case, rng, method, eos_id):
    shift = torch.from_numpy(rng.normal(size=(4, 9, 1)) * 30)
    assert_same(run(case, method, eos_id, logits=case.logits + shift), run(case, method, eos_id), atol=1e-11)


@configurations
def test_log_probabilities_are_logits(case, method, eos_id):
    assert_same(run(case, method, eos_id, logits=case.logits.log_softmax(-1)), run(case, method, eos_id))


@configurations
def test_layout_in_memory(case, method, eos_id):
    strided = case.logits.transpose(0, 2).contiguous().transpose(0, 2)
    assert not strided.is_contiguous()
    assert_same(run(case, method, eos_id, logits=strided), run(case, method, eos_id))


@configurations
def test_the_callers_tensors_are_not_changed(rng, method, eos_id):
    logits = torch.from_numpy(rng.normal(size=(3, 6, 5)))
    references = torch.from_numpy(rng.integers(0, 5, size=(3, 2, 7)))
    references[:, :, 5:] = -100
    mask = draw_mask(rng, 3, 6)
    hypotheses = torch.from_numpy(rng.integers(0, 5, size=(3, 6)))
    lengths, weights = torch.tensor([6, 2, 0]), [0.1, 0.2, 0.3, 0.4]
    nested = references.tolist()
    tensors = (logits, references, mask, hypotheses, lengths)
    copies = [tensor.clone() for tensor in tensors]
    versions = [tensor._version for tensor in tensors]
    for form in (references, nested):
        bleugrad.expected_bleu(logits, form, method=method, eos_id=eos_id, mask=mask, weights=weights)
        bleugrad.bleu(hypotheses, form, hypothesis_lengths=lengths, weights=weights, smoothing=0, level="sentence")
    assert [tensor._version for tensor in tensors] == versions
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))
    assert (nested, weights) == (references.tolist(), [0.1, 0.2, 0.3, 0.4])


def test_the_same_call_gives_the_same_bits(case):
    assert_same(run(case, "exact", 4), run(case, "exact", 4), atol=0)
