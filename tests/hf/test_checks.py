"""Mistakes in the first batch: a warning once, or an error with ``check=True``."""

import warnings

import pytest
import torch

pytest.importorskip("transformers")

from bleugrad.hf import BLEUCollator, BLEULoss, checks
from tests.hf.models import END, PAD, encode_pairs, features, make_model, make_tokenizer


def warned(model, rows, steps=1, change=lambda labels: labels, **options):
    """The warnings of several calls of a loss on the same batch."""
    loss = BLEULoss(model, make_tokenizer(), check_decoder_inputs=False, **options)
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = change(batch.pop("labels"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(steps):
            loss(model(**batch), labels)
    return [str(one.message) for one in found]


def without_end(labels):
    return labels.masked_fill(labels == END, -100)


def cut(labels):
    labels = labels.clone()
    labels[0] = labels[0].masked_fill(labels[0] == END, -100)
    return labels


MISTAKES = {
    "ignored": (lambda labels: labels.fill_(-100), "all labels of the first batch are -100"),
    "padding": (lambda labels: labels.masked_fill(labels == -100, PAD), f"the padding id {PAD}; set padded labels"),
    "no end": (without_end, "no label in the first batch has an EOS, but eos is 'length'"),
    "truncated": (cut, "1 of 8 labels in the first batch have no EOS, probably because they were truncated"),
}


@pytest.mark.parametrize("name", ["T5", "GPT-2"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_labels_warns_once_or_raises(name, fused, mistake):
    change, message = MISTAKES[mistake]
    model, rows = make_model(name), features() if name == "T5" else encode_pairs()
    assert warned(model, rows, fused=fused) == []
    (found,) = warned(model, rows, steps=2, change=change, fused=fused)
    assert message in found
    with pytest.raises(ValueError, match=message[:30]):
        warned(model, rows, change=change, fused=fused, check=True)


@pytest.mark.parametrize("eos", ["token", "exclude"])
def test_labels_need_no_end_where_it_is_not_the_length(eos):
    assert warned(make_model("T5"), features(), change=without_end, eos=eos) == []


def test_label_smoothing_without_cross_entropy():
    options = {"adaptive": False, "label_smoothing": 0.1}
    (found,) = warned(make_model("T5"), features(), steps=2, **options)
    assert "label_smoothing is 0.1, but the loss has no cross-entropy to smooth" in found
    assert warned(make_model("T5"), features(), bleu_weight=0.5, **options) == []


def test_padding_by_the_end_token():
    """Where both have the same id, as in GPT-2, one of them is the end and only a second one is padding."""
    one, two = torch.tensor([[7, END, -100]]), torch.tensor([[7, END, END]])
    assert checks.padded_labels(one, END, END) is None
    assert checks.padded_labels(two, END, END) is not None
    assert checks.padded_labels(two, None, END) is None


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_labels_of_a_causal_model_that_are_shifted_by_something_else_than_one(shift):
    """The model knows the token after each position; labels are ids that stand ``shift`` places from where it says."""
    ids = torch.randint(6, 50, (4, 12))
    logits = 6 * torch.nn.functional.one_hot(ids, 50).float()
    labels = ids.roll(shift, 1)
    labels[:, : max(shift, 3)] = -100
    found = checks.wrong_shift(logits, labels)
    if shift == 1:
        assert found is None
    else:
        assert f"if they are shifted by {shift} (cross-entropy 0." in found


def test_few_positions_are_looked_at():
    """Those around the first label, however long prompt and padding are."""
    labels = torch.full((20, 500), -100)
    labels[:, 300:350] = 7
    rows, kept = checks.sampled(torch.arange(500).expand(20, 500)[..., None], labels)
    assert rows[0, :, 0].tolist() == list(range(298, 332))
    assert torch.equal(kept, labels[:8, 298:332])
    assert checks.sampled(rows, torch.full((8, 34), -100))[0].shape == (8, 32, 1)


def test_the_shift_of_a_model_that_knows_nothing_is_not_doubted():
    model = make_model("GPT-2")
    assert warned(model, [row | {"labels": row["input_ids"]} for row in encode_pairs()]) == []
    assert checks.wrong_shift(torch.zeros(2, 5, 9), torch.full((2, 5), 3)) is None
    assert checks.wrong_shift(torch.zeros(2, 2, 9), torch.full((2, 2), 3)) is None
