import pytest
import torch

from bleugrad.lab.models.feeding import feed, sample
from tests.lab.models import naive

FEEDINGS = ("reference", "greedy", "sample", "mixture")


@pytest.fixture
def reference():
    return torch.tensor([[2, 4, 5, 6, 7, 8], [2, 9, 10, 0, 0, 0], [2, 5, 5, 5, 0, 0]])


def test_reference_is_teacher_forcing(build, source, reference):
    model = build()
    fed = feed(model, model.encode(*source), reference)
    torch.testing.assert_close(fed.logits, model(*source, reference), rtol=0, atol=0)
    assert torch.equal(fed.inputs, reference)
    assert torch.equal(fed.tokens[:, :-1], reference[:, 1:])
    assert torch.equal(fed.mask, reference != naive.PAD)


@pytest.mark.parametrize("feeding", FEEDINGS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_logits_are_of_the_inputs_said(build, source, reference, feeding, dropout):
    """The logits are those of decoding the inputs by the definition; with dropout in the chosen tokens' very noise."""
    model = build((1, 2), dropout=dropout).train()
    memory = model.encode(*source)
    drawn, draw = [], model.draw_noise

    def watched(rows, steps):
        drawn.append(draw(rows, steps))
        return drawn[-1]

    model.draw_noise = watched
    fed = feed(model, memory, reference, feeding)
    assert len(drawn) == 1
    again = model.project(model.decode(memory, fed.inputs, drawn[0]))
    torch.testing.assert_close(fed.logits, again, rtol=1e-10, atol=1e-10)
    assert (fed.inputs[:, 0] == naive.BOS).all()
    assert torch.equal(fed.inputs[:, 1:], fed.tokens[:, :-1])


def test_greedy_takes_the_likeliest_until_eos(build, source, reference):
    model = build()
    model.output.bias.data[naive.EOS] += 1.5
    fed = feed(model, model.encode(*source), reference, "greedy", steps=9)
    ended = torch.zeros(3, dtype=torch.bool)
    for t in range(fed.tokens.shape[1]):
        assert torch.equal(fed.mask[:, t], ~ended)
        expected = fed.logits[:, t].argmax(-1)
        assert torch.equal(fed.tokens[:, t], torch.where(ended, naive.PAD, expected))
        ended = ended | (expected == naive.EOS)
    assert ended.any()
    assert fed.tokens.shape[1] == 9 or ended.all()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_samples_have_the_log_probabilities_of_their_rows(build, source, reference, dropout):
    model = build(dropout=dropout).train()
    model.output.bias.data[naive.EOS] += 1.5
    memory, inputs = model.encode(*source), reference.repeat_interleave(2, 0)
    torch.manual_seed(5)
    fed = feed(model, memory, inputs, "sample", steps=9)
    torch.manual_seed(5)
    drawn = sample(model, memory, len(inputs), 9)
    assert torch.equal(drawn.tokens, fed.tokens)
    assert torch.equal(drawn.mask, fed.mask)
    assert not drawn.mask.all()
    rows = fed.logits.log_softmax(-1).gather(2, fed.tokens[:, :, None])[:, :, 0]
    torch.testing.assert_close(drawn.log_probs, torch.where(fed.mask, rows.float(), 0))
    weights = torch.randn(drawn.log_probs.shape)
    found = torch.autograd.grad((drawn.log_probs * weights).sum(), model.parameters(), retain_graph=True)
    expected = torch.autograd.grad((torch.where(fed.mask, rows, 0) * weights).sum(), model.parameters())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_nothing_follows_the_own_eos(build, source, reference):
    model = build()
    model.output.bias.data[naive.EOS] += 1.5
    fed = feed(model, model.encode(*source), reference.repeat_interleave(30, 0), "sample", steps=9)
    lengths = fed.mask.sum(1).tolist()
    assert len(set(lengths)) > 4
    for tokens, length in zip(fed.tokens.tolist(), lengths, strict=True):
        assert naive.EOS not in tokens[: length - 1]
        assert length == 9 or tokens[length - 1] == naive.EOS
        assert set(tokens[length:]) <= {naive.PAD}


@pytest.mark.parametrize("steps", [7, 20])
def test_further_positions_go_on_with_the_next_likeliest_where_the_decoder_would_end(build, source, reference, steps):
    model = build()
    model.output.bias.data[naive.EOS] += 1.5
    memory = model.encode(*source)
    plain = feed(model, memory, reference, "greedy", steps=steps)
    fed = feed(model, memory, reference, "greedy", steps=steps, further=2)
    own, wanted = plain.mask.sum(1), ((reference != naive.PAD) & (reference != naive.EOS)).sum(1)
    assert (own < wanted).any()
    assert torch.equal(fed.mask.sum(1), (torch.maximum(own, wanted) + 2).clamp(max=steps))
    for row, length in enumerate(own.tolist()):
        torch.testing.assert_close(fed.logits[row, :length], plain.logits[row, :length], rtol=0, atol=1e-12)
        for t in range(int(fed.mask[row].sum())):
            likeliest = fed.logits[row, t].argsort(descending=True).tolist()
            assert fed.tokens[row, t] == next(token for token in likeliest if token != naive.EOS)
    assert (fed.tokens[~fed.mask] == naive.PAD).all()


def test_further_positions_of_samples_hold_no_eos(build, source, reference):
    model = build()
    model.output.bias.data[naive.EOS] += 1.5
    reference = reference.repeat_interleave(30, 0)
    fed = feed(model, model.encode(*source), reference, "sample", steps=12, further=3)
    lengths, least = fed.mask.sum(1), ((reference != naive.PAD) & (reference != naive.EOS)).sum(1) + 3
    assert naive.EOS not in fed.tokens
    assert (lengths >= least).all()
    assert (lengths == least).any()
    assert (lengths > least).any()
    assert (fed.tokens[~fed.mask] == naive.PAD).all()


def test_own_tokens_stop_when_all_have_ended(build, source, reference):
    model = build()
    model.output.bias.data[naive.EOS] += 30
    for feeding in ("greedy", "sample"):
        fed = feed(model, model.encode(*source), reference, feeding, steps=9)
        assert fed.logits.shape == (3, 1, 11)
        assert (fed.tokens == naive.EOS).all()


def test_draws_follow_the_probabilities(build):
    model, rows = build(), 20000
    memory = model.encode(torch.tensor([[4, 5, 3]]), torch.tensor([3]))
    inputs = torch.full((rows, 1), naive.BOS)
    torch.manual_seed(3)
    with torch.no_grad():
        fed = feed(model, memory, inputs, "sample")
    probability = naive.log_probs(model, [4, 5, 3], [naive.BOS])[0].exp()
    error = (probability * (1 - probability) / rows).sqrt()
    share = torch.bincount(fed.tokens[:, 0], minlength=11) / rows
    assert ((share - probability).abs() < 5 * error).all()


def test_temperature_sharpens_draws(build, source, reference):
    model = build()
    memory = model.encode(*source)
    cold = feed(model, memory, reference, "sample", temperature=1e-4)
    assert torch.equal(cold.tokens, feed(model, memory, reference, "greedy").tokens)


def test_mixture_has_its_share_of_own_tokens(build, source, reference):
    model = build()
    model.output.bias.data[1] += 30  # its own token is always 1
    memory = model.encode(*source)
    for probability in (0.0, 1.0):
        fed = feed(model, memory, reference, "mixture", own_probability=probability)
        own = (reference != naive.PAD) & (torch.arange(6) > 0) & (probability == 1)
        assert torch.equal(fed.inputs, torch.where(own, 1, reference))
        assert torch.equal(fed.mask, reference != naive.PAD)
    several = reference.repeat_interleave(200, 0)
    fed = feed(model, memory, several, "mixture", own_probability=0.3)
    replaceable = (several != naive.PAD) & (torch.arange(6) > 0)
    assert 0.25 < (fed.inputs[replaceable] == 1).double().mean() < 0.35


@pytest.mark.parametrize("feeding", ["greedy", "sample", "mixture"])
def test_choices_pass_no_gradient(build, source, reference, feeding):
    model = build()
    weights = torch.randn(3, 6, 11, dtype=torch.float64)
    fed = feed(model, model.encode(*source), reference, feeding)
    taken = fed.logits.shape[1]
    found = torch.autograd.grad((fed.logits * weights[:, :taken]).sum(), model.parameters())
    again = (model(*source, fed.inputs) * weights[:, :taken]).sum()
    torch.testing.assert_close(found, torch.autograd.grad(again, model.parameters()), rtol=1e-9, atol=1e-12)


def test_no_sentences(build):
    model = build()
    nothing = torch.empty(0, 1, dtype=torch.long)
    memory = model.encode(nothing, nothing[:, 0])
    for feeding in FEEDINGS:
        assert feed(model, memory, nothing, feeding).logits.shape == (0, 1, 11)
