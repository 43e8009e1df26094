"""What holds for every autoregressive model: padding, batch mates, steps, and several rows per sentence."""

import pytest
import torch

from bleugrad.lab import special_ids
from tests.lab.models.naive import rows_of

LAYERS = [(1, 1), (2, 2), (1, 3)]


@pytest.mark.parametrize("layers", LAYERS)
def test_padding_equals_truncation_and_batch_mates_do_not_matter(build, source, inputs, layers):
    model = build(layers)
    together = model(*source, inputs)
    for row, ids in enumerate(rows_of(source)):
        alone = model(torch.tensor([ids]), torch.tensor([len(ids)]), inputs[row : row + 1, :4])
        torch.testing.assert_close(together[row : row + 1, :4], alone, rtol=1e-11, atol=1e-11)
    garbage = torch.where(torch.arange(5) < source[1][:, None], source[0], 6)
    torch.testing.assert_close(model(garbage, source[1], inputs), together, rtol=0, atol=0)


def test_padding_has_no_gradient(build, source, inputs):
    model = build()
    model(*source, inputs).sum().backward()
    assert model.source_embedding.weight.grad[special_ids.PAD].abs().max() == 0
    assert model.source_embedding.weight.grad[8].abs().max() > 0


@pytest.mark.parametrize("layers", LAYERS)
def test_steps_equal_all_positions_at_once(build, source, inputs, layers):
    model = build(layers)
    memory = model.encode(*source)
    state, hidden = memory.state, []
    for t, tokens in enumerate(inputs.t()):
        new, state = model.step(memory, state, tokens)
        hidden.append(new)
        torch.testing.assert_close(new, model.decode(memory, inputs[:, : t + 1])[:, -1], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(torch.stack(hidden, 1), model.decode(memory, inputs), rtol=1e-11, atol=1e-11)


def test_several_rows_a_sentence_read_its_memory(build, source):
    model = build()
    memory = model.encode(*source)
    inputs = torch.randint(4, 11, (6, 4))
    expected = model.decode(memory.select(torch.tensor([0, 0, 1, 1, 2, 2])), inputs)
    torch.testing.assert_close(model.decode(memory, inputs), expected, rtol=1e-11, atol=1e-11)
    swapped = memory.select(torch.tensor([2, 0, 1]))
    rows = torch.tensor([4, 5, 0, 1, 2, 3])
    torch.testing.assert_close(model.decode(swapped, inputs[rows]), expected[rows], rtol=1e-11, atol=1e-11)
    with pytest.raises(ValueError, match="4 rows for 3 sentences"):
        model.decode(memory, inputs[:4])


def test_rows_go_on_from_their_origins(build, source):
    model = build((1, 2))
    memory, first = model.encode(*source), torch.tensor([4, 5, 6])
    _, state = model.step(memory, memory.state, first)
    origins, tokens = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([7, 8, 7, 7, 9, 8])
    found, after = model.step(memory, state, tokens, origins=origins)
    inputs = torch.stack([first[origins], tokens], 1)
    torch.testing.assert_close(found, model.decode(memory, inputs)[:, 1], rtol=1e-11, atol=1e-11)
    later, _ = model.step(memory, after, tokens)
    inputs = torch.cat([inputs, tokens[:, None]], 1)
    torch.testing.assert_close(later, model.decode(memory, inputs)[:, 2], rtol=1e-11, atol=1e-11)


def test_no_sentences_give_no_rows_and_zero_gradients(build):
    model = build((2, 2))
    nothing = torch.empty(0, 1, dtype=torch.long)
    logits = model(nothing, nothing[:, 0], nothing)
    assert logits.shape == (0, 1, 11)
    logits.sum().backward()
    assert all(parameter.grad.abs().max() == 0 for parameter in model.parameters())
