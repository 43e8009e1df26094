"""One-pass models: padding and batch-mates do not matter, and translations are the argmax."""

import itertools

import pytest
import torch

from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.one_pass import collapsed
from bleugrad.lab.models.transformer import position_codes

SYMBOLS = ("nat", "ctc")
KINDS = (*SYMBOLS, "graph")


def make(kind, **more):
    sizes = {"hidden": 8, "heads": 2, "encoder_layers": 2, "decoder_layers": 2} | more
    return build_model(ModelConfig(kind, **sizes), 9, 11).double()


@pytest.fixture(params=KINDS)
def model(request, seed):
    return make(request.param)


def alone(source, lengths, index):
    return source[index : index + 1, : lengths[index]], lengths[index : index + 1]


def test_padding_and_batch_mates_do_not_matter(model, source):
    model.eval()
    logits, positions = model(*source)
    for index in range(len(positions)):
        own, (number,) = model(*alone(*source, index))
        assert number == positions[index] == own.shape[1]
        torch.testing.assert_close(own[0], logits[index, :number], rtol=0, atol=1e-12)


def test_every_position_sees_the_whole_source(model, source):
    """Otherwise a word at the end of the source could not be translated at the beginning."""
    model.eval()
    before, _ = model(*source)
    changed = source[0].clone()
    changed[0, 4] = 8
    assert ((model(changed, source[1])[0] - before)[0].abs().amax(-1) > 1e-9).all()


def test_number_of_positions(source):
    _, lengths = source
    assert make("nat", position_factor=1.5, position_extra=2)(*source)[1].tolist() == [10, 5, 8]
    assert make("graph", vertices=2)(*source)[1].tolist() == (2 * lengths).tolist()
    assert make("ctc", upsampling=4)(*source)[1].tolist() == (4 * lengths).tolist()


def expected_translation(kind, symbols):
    """By its definition."""
    if kind == "nat":
        return list(itertools.takewhile(lambda symbol: symbol != 3, symbols))
    merged = [symbol for place, symbol in enumerate(symbols) if place == 0 or symbols[place - 1] != symbol]
    return [symbol for symbol in merged if symbol != 0]


@pytest.mark.parametrize("forbid_unk", [False, True])
@pytest.mark.parametrize("kind", SYMBOLS)
def test_translations_are_the_argmax_and_one_at_a_time_they_are_the_same(seed, kind, forbid_unk, source):
    model = make(kind, dropout=0.5)  # dropout is off
    torch.nn.init.normal_(model.output.weight, std=2.0)  # so that every symbol occurs
    many = torch.full((3,), 100)
    found = model.translate(*source, many, forbid_unk)
    assert model.training
    model.eval()
    logits, positions = model(*source)
    never = ([0, 2] if kind == "nat" else [2, 3]) + [1] * forbid_unk
    log_probs = logits.log_softmax(-1)
    log_probs[..., never] = -torch.inf
    for index, (hypothesis, number) in enumerate(zip(found, positions.tolist(), strict=True)):
        symbols = log_probs[index, :number].argmax(-1).tolist()
        assert hypothesis.tokens == expected_translation(kind, symbols)
        used = min(len(hypothesis.tokens) + 1, number) if kind == "nat" else number
        assert hypothesis.log_prob == pytest.approx(log_probs[index, :number].amax(-1)[:used].sum().item())
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / used)
        (own,) = model.translate(*alone(*source, index), many[:1], forbid_unk)
        assert own.tokens == hypothesis.tokens
        assert own.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-12)
    often = model.translate(source[0].repeat(8, 1), source[1].repeat(8), many.repeat(8), forbid_unk)
    assert [one.tokens for one in often] == 8 * [one.tokens for one in found]
    assert [one.log_prob for one in often] == pytest.approx(8 * [one.log_prob for one in found], abs=1e-12)
    cut = model.translate(*source, torch.tensor([1, 2, 0]), forbid_unk)
    assert [one.tokens for one in cut] == [one.tokens[:most] for one, most in zip(found, (1, 2, 0), strict=True)]


@pytest.mark.parametrize("kind", SYMBOLS)
def test_the_penalty_lowers_a_bias(seed, kind, source):
    model, other = make(kind).eval(), make(kind).eval()
    torch.nn.init.normal_(model.output.weight, std=2.0)
    with torch.no_grad():
        model.output.bias[{"nat": 3, "ctc": 0}[kind]] += 20.0  # nothing is emitted
        other.load_state_dict(model.state_dict())
        other.output.bias[{"nat": 3, "ctc": 0}[kind]] -= 15.0
    model.skip_penalty = 15.0
    many = torch.full((3,), 100)
    found, wanted = (one.translate(*source, many) for one in (model, other))
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in wanted])
    model.skip_penalty = 0.0
    assert sum(len(one.tokens) for one in found) > sum(len(one.tokens) for one in model.translate(*source, many))


def test_collapse_by_definition():
    for frames in itertools.product(range(3), repeat=5):
        assert collapsed(list(frames)) == expected_translation("ctc", frames)
    assert collapsed([]) == []


def test_the_smallest_and_no_batches(model):
    none = torch.empty(0, 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
    assert model(*none)[0].shape[0] == 0
    assert model.translate(*none, torch.empty(0)) == []
    assert len(model.translate(torch.tensor([[3]]), torch.tensor([1]), torch.tensor([9]))) == 1


def test_shown_symbols_replace_the_source(model, source):
    """Positions with equal symbols start alike; others as if nothing were shown."""
    model.eval()
    encoded = model.encode(*source)
    before, _ = model.positions(encoded)
    shown = torch.full(before.shape[:2], -1)
    shown[:, 1], shown[0, 0] = 7, 5
    starts = []
    for layer in model.decoder:
        layer.forward = lambda states, *_: starts.append(states) or states
    model.decode(encoded, shown)
    first = starts[0] - position_codes(before.shape[1], before)
    embedded = model.output.weight * model.config.hidden**0.5
    for place, symbol in enumerate((5, 7)):
        torch.testing.assert_close(first[0, place], embedded[symbol], rtol=0, atol=1e-12)
    torch.testing.assert_close(first[:, 2:], before[:, 2:], rtol=0, atol=1e-12)
    torch.testing.assert_close(first[1:, 0], before[1:, 0], rtol=0, atol=1e-12)


def test_codes_of_positions_differ():
    codes = position_codes(300, torch.empty(1, 5, dtype=torch.float64))
    assert codes.shape == (300, 5)
    assert torch.cdist(codes, codes).fill_diagonal_(1).min() > 1e-3


def test_bad_settings_are_named():
    with pytest.raises(UsageError, match="heads is 3; expected a divisor of hidden = 8"):
        ModelConfig("nat", hidden=8, heads=3)
    with pytest.raises(UsageError, match="kind is 'rnn'; expected"):
        ModelConfig("rnn")


@pytest.mark.parametrize("lengths", [[0, 1], [1, 4]])
def test_bad_lengths_are_named(model, lengths):
    with pytest.raises(ValueError, match=r"source_lengths is from .* expected 1 to 3"):
        model(torch.full((2, 3), 4), torch.tensor(lengths))
