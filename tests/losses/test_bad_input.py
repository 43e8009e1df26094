"""Every error message about a wrong argument names the argument, the value found and the values allowed."""

import pytest
import torch

from bleugrad import ExpectedBLEULoss, Projection, expected_bleu
from tests.losses.cases import IGNORE
from tests.scores.test_bad_input import COMMON_TABLE, REFERENCE_TABLE, label

B, T, V, H = 2, 4, 5, 3
LOGITS, HIDDEN, WEIGHT, BIAS = torch.zeros(B, T, V), torch.zeros(B, T, H), torch.zeros(V, H), torch.zeros(V)
LABELS = torch.tensor([[0, 1, 2, 3], [4, 3, IGNORE, IGNORE]])
REFERENCES = [[0, 1], [2, 3, 4]]
NAN = torch.zeros(B, T, 1).index_fill(1, torch.tensor([1]), torch.nan)
OPTIONS = {
    "method", "max_order", "weights", "smoothing", "level", "eos_id", "ignore_index", "reduction",
    "cross_entropy_weight", "process_group",
}  # fmt: skip


def split(changes):
    """Options of the constructor, and arguments of the call."""
    return {k: v for k, v in changes.items() if k in OPTIONS}, {k: v for k, v in changes.items() if k not in OPTIONS}


def plain(**changes):
    options, arguments = split(changes)
    return ExpectedBLEULoss(**options)(**({"logits": LOGITS, "labels": LABELS} | arguments))


def fused(**changes):
    output, changes = projection(**changes)
    return plain(**({"logits": output} | changes))


def function(**changes):
    output, changes = projection(**changes)
    return expected_bleu(output, **({"references": REFERENCES} | changes)).value


def projection(hidden=HIDDEN, weight=WEIGHT, bias=None, **changes):
    """The output, and what else changes."""
    return Projection(hidden, weight, bias), changes


# argument, its bad value, exception, what the message should say was found
LOSS_TABLE = [
    ("method", "lower", ValueError, "lower"),
    ("method", None, ValueError, "None"),
    ("reduction", "average", ValueError, "average"),
    ("reduction", None, ValueError, "None"),
    ("cross_entropy_weight", -0.5, ValueError, "-0.5"),
    ("cross_entropy_weight", float("nan"), ValueError, "nan"),
    ("cross_entropy_weight", "0.5", TypeError, "str"),
    ("cross_entropy_weight", None, TypeError, "None"),
    ("process_group", "WORLD", TypeError, "str"),
    ("eos_id", V, ValueError, str(V)),
    ("eos_id", -1, ValueError, "-1"),
    ("eos_id", 1.0, TypeError, "float"),
    ("eos_id", "</s>", TypeError, "str"),
    ("labels", None, TypeError, "None"),
    ("labels", LABELS.tolist(), TypeError, "list"),
    ("labels", LABELS.float(), TypeError, "float32"),
    ("labels", LABELS > 0, TypeError, "bool"),
    ("labels", LABELS.flatten(), ValueError, "8"),
    ("labels", LABELS[:, :-1], ValueError, "3"),
    ("labels", LABELS[:1], ValueError, "1"),
    ("labels", LABELS[:, None], ValueError, r"2, 1, 4"),
    ("labels", LABELS + 1, ValueError, "-99"),
    ("labels", LABELS.where(LABELS < 4, V), ValueError, str(V)),
    ("mask", torch.ones(B, T), TypeError, "float32"),
    ("mask", [[True] * T] * B, TypeError, "list"),
    ("mask", torch.ones(B, T + 1, dtype=torch.bool), ValueError, str(T + 1)),
    ("mask", torch.ones(T, dtype=torch.bool), ValueError, "4"),
    *(("references", *row) for row in REFERENCE_TABLE if row[0] is not None),
    ("references", [[0, V], [1]], ValueError, str(V)),
    *(row for row in COMMON_TABLE if row[0] != "references"),
]
LOGITS_TABLE = [
    ("logits", LOGITS.tolist(), TypeError, "list"),
    ("logits", None, TypeError, "None"),
    ("logits", LOGITS.long(), TypeError, "int64"),
    ("logits", LOGITS.flatten(0, 1), ValueError, "8, 5"),
    ("logits", LOGITS[..., :0], ValueError, "2, 4, 0"),
    ("logits", LOGITS + NAN, ValueError, "(?i)nan.*position 1"),
    ("logits", LOGITS + torch.inf, ValueError, "inf"),
    ("logits", LOGITS - torch.inf, ValueError, "inf"),
]
PROJECTION_TABLE = [
    ("hidden", HIDDEN.tolist(), TypeError, "list"),
    ("hidden", HIDDEN.long(), TypeError, "int64"),
    ("hidden", HIDDEN.flatten(0, 1), ValueError, "8, 3"),
    ("hidden", HIDDEN + NAN, ValueError, "(?i)nan.*position 1"),
    ("weight", WEIGHT.tolist(), TypeError, "list"),
    ("weight", WEIGHT.long(), TypeError, "int64"),
    ("weight", WEIGHT[0], ValueError, "3"),
    ("weight", WEIGHT.t(), ValueError, "3, 5"),
    ("weight", WEIGHT[:0], ValueError, "0, 3"),
    ("weight", WEIGHT + torch.nan, ValueError, "(?i)nan"),
    ("weight", LABELS, TypeError, "int64"),
    ("bias", BIAS.tolist(), TypeError, "list"),
    ("bias", BIAS.long(), TypeError, "int64"),
    ("bias", BIAS[:, None], ValueError, "5, 1"),
    ("bias", BIAS[1:], ValueError, "4"),
    ("bias", 0.5, TypeError, "float"),
]
FUNCTION_TABLE = [
    ("method", "lower", ValueError, "lower"),
    ("mask", torch.ones(B, T + 1, dtype=torch.bool), ValueError, str(T + 1)),
    ("eos_id", V, ValueError, str(V)),
    ("references", [[0, V], [1]], ValueError, str(V)),
    *COMMON_TABLE,
]
TABLE = (
    [(plain, *row) for row in LOSS_TABLE + LOGITS_TABLE]
    + [(fused, *row) for row in LOSS_TABLE + PROJECTION_TABLE]
    + [(function, *row) for row in FUNCTION_TABLE + PROJECTION_TABLE]
)


@pytest.mark.parametrize(("call", "argument", "value", "exception", "found"), TABLE, ids=map(label, TABLE))
def test_the_message_names_the_argument_and_what_was_found(call, argument, value, exception, found):
    with pytest.raises(exception, match=rf"\b{argument}\b") as raised:
        call(**{argument: value})
    raised.match(found)
    raised.match("expected")


def test_the_good_calls_of_the_table_are_good():
    for call in (plain, fused, function):
        assert call().isfinite()
        assert call(max_order=2, weights=[0.5, 0.5], eos_id=V - 1, smoothing=0, level="sentence").isfinite().all()
    assert fused(bias=BIAS).isfinite()
    assert plain(labels=None, references=REFERENCES).isfinite()


@pytest.mark.parametrize("call", [plain, fused])
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("bad", [V, -7])
def test_labels_are_checked_beside_references_too(call, weight, bad):
    """With cross-entropy they are looked up; a raw index error would not say in what."""
    labels = LABELS.clone()
    labels[0, 1] = bad
    with pytest.raises(ValueError, match=rf"labels holds the id {bad}; expected"):
        call(labels=labels, references=REFERENCES, cross_entropy_weight=weight)


def test_cross_entropy_needs_labels():
    with pytest.raises(TypeError, match=r"labels is None.*cross_entropy_weight"):
        plain(labels=None, references=REFERENCES, cross_entropy_weight=0.1)


def test_some_reference_is_needed():
    with pytest.raises(TypeError, match="labels and references are both None; expected"):
        plain(labels=None)


@pytest.mark.parametrize("call", [plain, fused])
def test_the_usual_padding_is_a_bad_id_once_another_is_chosen(call):
    with pytest.raises(ValueError, match=r"labels holds the id -100; expected.* ignore_index = 0"):
        call(ignore_index=0)


def test_not_a_number_matters_only_where_it_counts():
    """Also with no reference words at all, where no match probability shows it."""
    logits = LOGITS.clone()
    logits[1, 2:] = torch.nan  # ignored by LABELS
    assert torch.equal(plain(logits=logits), plain())
    for references in ([[], []], [[], [1]]):
        for weight in (0.0, 1.0):
            leaf = logits.clone().requires_grad_()
            plain(logits=leaf, references=references, cross_entropy_weight=weight).backward()
            assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("options", [{"word_start": torch.arange(V) > 1}, {"eos_id": 0}, {"cross_entropy_weight": 1.0}])
def test_not_a_number_is_refused_beside_empty_references(options):
    broken = LOGITS.clone()
    broken[0, 2, 3] = torch.nan
    with pytest.raises(ValueError, match=r"logits holds NaN.*sentence 0, position 2"):
        ExpectedBLEULoss(**options)(broken, LABELS, references=[[]] * len(LABELS))


def test_references_mask_and_options_are_keyword_only():
    with pytest.raises(TypeError):
        ExpectedBLEULoss()(LOGITS, LABELS, REFERENCES)
    with pytest.raises(TypeError):
        ExpectedBLEULoss("exact")
