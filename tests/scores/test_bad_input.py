"""Every error message about a wrong argument names the argument."""

import pytest
import torch

import bleugrad

B, T, V = 2, 4, 5
LOGITS = torch.zeros(B, T, V)
REFERENCES = [[0, 1], [2, 3, 4]]
HYPOTHESES = torch.zeros(B, T, dtype=torch.long)
NAN = LOGITS.clone()
NAN[1, 2, 3] = torch.nan
EITHER = (TypeError, ValueError)


def expected(**changes):
    return bleugrad.expected_bleu(**({"logits": LOGITS, "references": REFERENCES} | changes))


def counted(**changes):
    return bleugrad.bleu(**({"hypotheses": HYPOTHESES, "references": REFERENCES} | changes))


# argument, its bad value, exception, and what the message should say was found
REFERENCE_TABLE = [
    (torch.zeros(B, 3), TypeError, "float32"),
    (torch.zeros(B, 3, dtype=torch.bool), TypeError, "bool"),
    ([[0.0, 1.0], [2.0]], TypeError, "float"),
    ([[0, 1], ["2"]], TypeError, "str"),
    ([[0, 1], [torch.zeros(1, 1)]], TypeError, "not an integer"),
    ("ab", TypeError, "str"),
    (None, TypeError, "None"),
    (7, TypeError, "int"),
    (torch.zeros(B, dtype=torch.long), ValueError, ""),
    (torch.zeros(B, 1, 1, 3, dtype=torch.long), ValueError, ""),
    (torch.zeros(B + 1, 3, dtype=torch.long), ValueError, "3"),
    (torch.zeros(B + 1, 2, 3, dtype=torch.long), ValueError, "3"),
    ([[0, 1]], ValueError, "1"),
    ([[0, 1], [2], [3]], ValueError, "3"),
    ([[[0, 1]], []], ValueError, ""),
    ([[[0, 1], [2]], []], ValueError, ""),
    ([[0, 1], [[2], [3]]], EITHER, ""),
    ([[[0, 1]], [2, 3]], EITHER, ""),
    ([[0, -1], [2]], ValueError, "-1"),
    ([[0, 2**63], [2]], ValueError, "more than 63 bits"),
    ([[[0, 1]], [[10**4000]]], ValueError, "more than 63 bits"),
    (torch.tensor([[0, -7], [1, 2]]), ValueError, "-7"),
    (torch.tensor([[[0, -100], [1, -99]]] * B), ValueError, "-99"),
]
COMMON_TABLE = [
    ("level", "paragraph", ValueError, "paragraph"),
    ("max_order", 0, ValueError, "0"),
    ("max_order", -3, ValueError, "-3"),
    ("max_order", 101, ValueError, "expected 1 to 100"),
    ("max_order", 2**63, ValueError, "64 bits"),
    ("max_order", 10**4000, ValueError, "13288 bits"),
    ("max_order", 2.5, TypeError, "float"),
    ("max_order", "4", TypeError, "str"),
    ("max_order", None, TypeError, "None"),
    ("max_order", True, TypeError, "bool"),
    ("weights", [0.5, 0.5], ValueError, "2"),
    ("weights", [0.2] * 5, ValueError, "5"),
    ("weights", [], ValueError, ""),
    ("weights", [0.5, 0.5, 0.5, -0.5], ValueError, "-0.5"),
    ("weights", [0.25, 0.25, 0.25, 0.2], ValueError, "0.95"),
    ("weights", [1.0, 1.0, 1.0, 1.0], ValueError, "4"),
    ("weights", [0.0] * 4, ValueError, ""),
    ("weights", [0.25, 0.25, 0.25, 0.2501], ValueError, ""),
    ("weights", [float("nan"), 0.5, 0.25, 0.25], ValueError, "nan"),
    ("weights", [float("inf"), 0.0, 0.0, 0.0], ValueError, "inf"),
    ("weights", "uniform", EITHER, ""),
    ("weights", [10**400, 0, 0, 0], EITHER, ""),
    ("smoothing", -0.1, ValueError, "-0.1"),
    ("smoothing", float("nan"), ValueError, "nan"),
    ("smoothing", float("inf"), ValueError, "inf"),
    ("smoothing", 1e39, ValueError, "1e.39"),
    ("smoothing", 1e-45, ValueError, "1e-45"),
    ("smoothing", 10**4000, ValueError, "13288 bits"),
    ("smoothing", "add-k", TypeError, "str"),
    ("smoothing", None, TypeError, "None"),
    ("ignore_index", 2**63, ValueError, "64 bits"),
    ("ignore_index", 1.5, TypeError, "float"),
    ("ignore_index", None, TypeError, "None"),
]
COMMON_TABLE += [("references", *row) for row in REFERENCE_TABLE]
EXPECTED_TABLE = [
    ("logits", LOGITS.tolist(), TypeError, "list"),
    ("logits", LOGITS.numpy(), TypeError, "ndarray"),
    ("logits", LOGITS.long(), TypeError, "int64"),
    ("logits", LOGITS[0], ValueError, ""),
    ("logits", LOGITS[None], ValueError, ""),
    ("logits", NAN, ValueError, "(?i)nan"),
    ("logits", LOGITS + torch.inf, ValueError, "inf"),
    ("logits", LOGITS - torch.inf, ValueError, "inf"),
    ("logits", LOGITS[..., :0], ValueError, ""),
    ("references", [[0, V], [1]], ValueError, str(V)),
    ("references", [[[0, 1], [V + 7]], [[1]]], ValueError, str(V + 7)),
    ("references", torch.tensor([[0, 1], [2, V]]), ValueError, str(V)),
    ("mask", torch.ones(B, T), TypeError, "float32"),
    ("mask", torch.ones(B, T, dtype=torch.long), TypeError, "int64"),
    ("mask", [[True] * T] * B, TypeError, "list"),
    ("mask", torch.ones(B, T + 1, dtype=torch.bool), ValueError, str(T + 1)),
    ("mask", torch.ones(T, dtype=torch.bool), ValueError, ""),
    ("mask", torch.ones(1, T, dtype=torch.bool), ValueError, ""),
    ("mask", torch.ones(B, T, 1, dtype=torch.bool), ValueError, ""),
    ("method", "lower", ValueError, "lower"),
    ("eos_id", V, ValueError, str(V)),
    ("eos_id", -1, ValueError, "-1"),
    ("eos_id", 2**63, ValueError, "64 bits"),
    ("eos_id", 1.0, TypeError, "float"),
    ("eos_id", "</s>", TypeError, "str"),
]
BLEU_TABLE = [
    ("hypotheses", HYPOTHESES.float(), TypeError, "float32"),
    ("hypotheses", HYPOTHESES.bool(), TypeError, "bool"),
    ("hypotheses", [[0.5], [1.0]], TypeError, "float"),
    ("hypotheses", "ab", TypeError, "str"),
    ("hypotheses", None, TypeError, "None"),
    ("hypotheses", HYPOTHESES[0], ValueError, ""),
    ("hypotheses", HYPOTHESES[None], ValueError, ""),
    ("hypotheses", HYPOTHESES - 2, ValueError, "-2"),
    ("hypotheses", [[0], [-5]], ValueError, "-5"),
    ("hypotheses", [[0], [2**63]], ValueError, "more than 63 bits"),
    ("hypothesis_lengths", [0, 2**63], TypeError, "9223372036854775808"),
    ("hypothesis_lengths", "ab", TypeError, "ab"),
    ("hypothesis_lengths", torch.tensor([1]), ValueError, ""),
    ("hypothesis_lengths", torch.tensor([[1, 2]]), ValueError, ""),
    ("hypothesis_lengths", torch.tensor([1, T + 1]), ValueError, str(T + 1)),
    ("hypothesis_lengths", torch.tensor([-1, T]), ValueError, "-1"),
    ("hypothesis_lengths", torch.tensor([1.0, 2.0]), TypeError, "float32"),
    ("hypothesis_lengths", torch.tensor([True, True]), TypeError, "bool"),
]
TABLE = [(expected, *row) for row in COMMON_TABLE + EXPECTED_TABLE] + [
    (counted, *row) for row in COMMON_TABLE + BLEU_TABLE
]


def label(row):
    call, argument, value, *_ = row
    shown = f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else repr(value)
    return f"{call.__name__}-{argument}-{shown[:40]}".replace("torch.", "")


@pytest.mark.parametrize(("call", "argument", "value", "exception", "found"), TABLE, ids=map(label, TABLE))
def test_the_message_names_the_argument_and_what_was_found(call, argument, value, exception, found):
    with pytest.raises(exception, match=rf"\b{argument}\b") as raised:
        call(**{argument: value})
    raised.match(found)


def test_the_good_call_of_the_table_is_good():
    assert expected().value.isfinite()
    assert counted().value.isfinite().all()
    assert expected(weights=[0.25, 0.25, 0.25, 0.25 + 5e-7]).value.isfinite()  # sums to 1 within 1e-6
    assert expected(weights=torch.tensor([0.25] * 4).tolist(), eos_id=V - 1, smoothing=1).value.isfinite()


def test_the_padding_index_is_not_a_bad_id():
    assert counted(references=torch.tensor([[0, -100], [-100, 2]])).reference_lengths.tolist() == [1, 1]
    assert expected(references=torch.tensor([[0, 99], [99, 2]]), ignore_index=99).value.isfinite()
    with pytest.raises(ValueError, match="references"):  # the usual index is a bad id once another one is chosen
        expected(references=torch.tensor([[0, 99], [-100, 2]]), ignore_index=99)


def test_not_a_number_matters_only_where_it_counts():
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[1, 2] = False
    hidden = expected(logits=NAN, mask=mask)
    assert torch.equal(hidden.value, expected(mask=mask).value)
    with pytest.raises(ValueError, match="logits"):
        expected(logits=NAN, mask=~mask)


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("options", [{"word_start": torch.arange(V) > 1}, {"eos_id": 0}])
def test_not_a_number_is_refused_beside_empty_references(method, options):
    """The number of words, or the length, depends on the row."""
    with pytest.raises(ValueError, match=r"logits holds NaN.*sentence 1, position 2"):
        expected(logits=NAN, references=[[], []], method=method, **options)
    with pytest.raises(ValueError, match=r"hidden @ weight\.T holds NaN"):
        expected(logits=bleugrad.Projection(NAN, torch.eye(V)), references=[[], []], method=method, **options)


def test_everything_optional_is_keyword_only():
    with pytest.raises(TypeError):
        bleugrad.expected_bleu(LOGITS, REFERENCES, "exact")
    with pytest.raises(TypeError):
        bleugrad.bleu(HYPOTHESES, REFERENCES, None)


OUTPUTS = {
    "rows": lambda logits: logits,
    "ctc": lambda logits: bleugrad.CTC(logits, blank_id=0),
    "graph": lambda logits: bleugrad.Graph(logits, torch.zeros(B, T, T)),
}


@pytest.mark.parametrize("references", [[[]] * B, [[[]]] * B, torch.full((B, 3), -100), torch.empty(B, 0).long()])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_broken_logits_are_seen_although_all_references_are_empty(references, kind):
    with pytest.raises(ValueError, match="NaN"):
        bleugrad.expected_bleu(OUTPUTS[kind](NAN), references)
    assert bleugrad.expected_bleu(OUTPUTS[kind](LOGITS), references, max_order=1).matches.tolist() == [[0], [0]]
