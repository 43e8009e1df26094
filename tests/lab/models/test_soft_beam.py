"""The soft beam: by its definition, and hard beam search in the limit."""

import dataclasses

import pytest
import torch

from bleugrad.lab.models.lstm.decoder import LSTMState
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.soft_beam import soft_beam, soft_choice
from bleugrad.lab.models.transformer_decoder import KeyValueState
from tests.lab.models import naive

SHARP = 1e9


def ending(model):
    """The model with an EOS that ends some members early and leaves some open."""
    model.output.bias.data[naive.EOS] += {"lstm": 1.0, "transformer": 0.0}[model.config.kind]
    return model


def one_of(source, row):
    """One sentence of a batch, without its padding."""
    ids, lengths = source
    return ids[row : row + 1, : int(lengths[row])], lengths[row : row + 1]


def dense(found, vocabulary=11):
    """The distributions as (B, W, T, V)."""
    rows = torch.zeros(*found.tokens.shape[:3], vocabulary, dtype=found.probs.dtype)
    return rows.scatter_add(3, found.tokens, found.probs)


def weights_by_definition(scores, centre, tau):
    raw = [torch.exp(-tau * (score - centre) ** 2) for score in scores]
    return [one / sum(raw) for one in raw]


def mixture(states, weights):
    """The weighted sum of the states of single rows."""
    if isinstance(states[0], KeyValueState):
        layers = [
            sum(w * one.layers[n] for w, one in zip(weights, states, strict=True)) for n in range(len(states[0].layers))
        ]
        return KeyValueState(tuple(layers), states[0].positions)
    parts = [field.name for field in dataclasses.fields(LSTMState)]
    return LSTMState(*(sum(w * getattr(one, part) for w, one in zip(weights, states, strict=True)) for part in parts))


def naive_soft_beam(model, source, width, maximum, tau):
    """Lists of members of one sentence: (rows, score, hard tokens), a row being {token: probability}."""
    memory = model.encode(*source)
    members = [{"rows": [], "score": torch.zeros(()), "tokens": [], "state": memory.state, "input": [(naive.BOS, 1.0)]}]
    for step in range(maximum + 1):
        running = [one for one in members if naive.EOS not in one["tokens"]]
        if not running:
            break
        longer = []
        for one in running:
            embedded = sum(weight * model.target_embedding.weight[token] for token, weight in one["input"])
            hidden, one["after"] = model.step_embedded(memory, one["state"], embedded[None])
            log_probs = torch.log_softmax(model.project(hidden)[0], -1)
            allowed = [naive.EOS] if step == maximum else [1, *range(3, model.target_size)]
            longer += [(one, token, one["score"] + log_probs[token]) for token in allowed]
        best = sorted(longer, key=lambda each: -each[2].item())[: width - (len(members) - len(running))]
        kept = [one for one in members if naive.EOS in one["tokens"]]
        members = kept + [_mixed(longer, each, tau) for each in best]
    return members


def _mixed(longer, hard, tau):
    parent, token, centre = hard
    weights = weights_by_definition([each[2] for each in longer], centre, tau)
    row = {}
    for weight, (_, word, _) in zip(weights, longer, strict=True):
        row[word] = row.get(word, 0) + weight
    if token != naive.EOS:  # only what has not ended goes on
        left = 1 - row.get(naive.EOS, 0)
        weights = [0 * w if each[1] == naive.EOS else w / left for w, each in zip(weights, longer, strict=True)]
    earlier = []
    for t in range(len(parent["rows"])):
        traced = {}
        for weight, (one, _, _) in zip(weights, longer, strict=True):
            for word, share in one["rows"][t].items():
                traced[word] = traced.get(word, 0) + weight * share
        earlier.append(traced)
    return {
        "rows": [*earlier, row],
        "score": centre,
        "tokens": [*parent["tokens"], token],
        "state": mixture([each[0]["after"] for each in longer], weights),
        "input": [(each[1], weight) for weight, each in zip(weights, longer, strict=True)],
    }


@pytest.mark.parametrize("tau", [0.2, 2.0])
def test_choices_are_those_of_the_formula(seed, tau):
    scores = torch.randn(2, 7, dtype=torch.float64) * 3
    centres = scores.topk(3, 1).values
    possible = torch.rand(2, 3, 7) < 0.7
    possible[..., 0] = True
    found = soft_choice(scores, centres, tau, possible)
    for b in range(2):
        for j in range(3):
            kept = possible[b, j].nonzero()[:, 0].tolist()
            expected = torch.zeros(7, dtype=torch.float64)
            expected[kept] = torch.stack(weights_by_definition([scores[b, c] for c in kept], centres[b, j], tau))
            torch.testing.assert_close(found[b, j], expected)


def test_the_gradient_of_soft_choices_goes_through_scores_and_centres(seed):
    scores = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    possible = torch.ones(2, 3, 6, dtype=torch.bool)
    possible[:, 1, 4] = False
    assert torch.autograd.gradcheck(lambda s: soft_choice(s, s.topk(3, 1).values, 1.3, possible), scores)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_sharp_limit_is_beam_search(build, source, width):
    model = ending(build((1, 2)))
    found = soft_beam(model, model.encode(*source), width, maximum=6, tau=SHARP, tokens=11)
    for row, hypotheses in enumerate(beam(model, *source, width=width, maximum=6, n_best=width)):
        hard = {(*each.tokens, naive.EOS): each.log_prob for each in hypotheses}
        soft = {}
        for tokens, score in zip(found.chosen[row].tolist(), found.scores[row].tolist(), strict=True):
            soft[tuple(token for token in tokens if token != naive.PAD)] = score
        assert set(soft) == set(hard)
        for tokens, score in soft.items():
            assert score == pytest.approx(hard[tokens], rel=1e-9)
    certain = torch.nn.functional.one_hot(found.chosen, 11).double()
    torch.testing.assert_close(dense(found)[found.mask], certain[found.mask])
    assert width == 1 or not found.mask.all()


def test_in_the_sharp_limit_scores_have_the_gradient_of_log_probabilities(build, source):
    model = ending(build())
    found = soft_beam(model, model.encode(*source), 2, maximum=4, tau=SHARP)
    chosen = found.chosen.flatten(0, 1)
    inputs = torch.cat([torch.full((6, 1), naive.BOS), chosen[:, :-1]], 1)
    log_probs = model.project(model.decode(model.encode(*source), inputs)).log_softmax(-1)
    hard = torch.where(found.mask.flatten(0, 1), log_probs.gather(2, chosen[..., None])[..., 0], 0).sum()
    torch.testing.assert_close(
        torch.autograd.grad(found.scores.sum(), model.parameters()), torch.autograd.grad(hard, model.parameters())
    )


def test_in_the_sharp_limit_rows_of_the_model_are_those_of_the_candidates(build, source):
    """Values and gradients; the last position of an open member is a forced EOS."""
    model = ending(build())
    found = soft_beam(model, model.encode(*source), 2, 4, SHARP, 11, rows="model", sharpness=1.5)
    chosen = found.chosen.flatten(0, 1)
    inputs = torch.cat([torch.full((6, 1), naive.BOS), chosen[:, :-1]], 1)
    logits = 1.5 * model.project(model.decode(model.encode(*source), inputs))
    logits[..., [naive.PAD, naive.BOS]] = -torch.inf
    rows, counts = dense(found).flatten(0, 1), found.mask.flatten(0, 1)
    counts[:, 4:] = False
    expected = logits.softmax(-1)
    torch.testing.assert_close(rows[counts], expected[counts])
    factors = torch.randn_like(rows[counts])
    slopes = [torch.autograd.grad((factors * one[counts]).sum(), model.parameters()) for one in (rows, expected)]
    torch.testing.assert_close(*slopes)


def test_rows_of_the_model_are_mixed_over_the_parents(build, source):
    """At the first step there is one parent, so the row is that of the model; later rows are mixtures."""
    model = build()
    model.output.bias.data[naive.EOS] -= 30
    memory = model.encode(*source)
    choices, of_model = (dense(soft_beam(model, memory, 2, 2, 0.7, 11, rows=rows)) for rows in ("choices", "model"))
    first = model.project(model.step(memory, memory.state, torch.full((3,), naive.BOS))[0])
    first[:, [naive.PAD, naive.BOS]] = -torch.inf
    torch.testing.assert_close(of_model[:, 0, 0], first.softmax(-1))
    torch.testing.assert_close(of_model.sum(3), torch.ones(3, 2, 3, dtype=torch.float64))
    assert (of_model - choices)[:, :, 1].abs().max() > 0.01


@pytest.mark.parametrize(("width", "tau"), [(1, 0.5), (3, 0.1), (3, 1.0)])
def test_members_are_those_of_lists(build, source, width, tau):
    model = ending(build((1, 2)))
    found = soft_beam(model, model.encode(*source), width, maximum=4, tau=tau, tokens=11)
    rows = dense(found)
    ends = []
    for sentence in range(3):
        members = naive_soft_beam(model, one_of(source, sentence), width, 4, tau)
        assert len(members) == width
        for place, member in enumerate(members):
            length = len(member["tokens"])
            ends.append(length)
            assert found.chosen[sentence, place, :length].tolist() == member["tokens"]
            assert not found.mask[sentence, place, length:].any()
            torch.testing.assert_close(found.scores[sentence, place], member["score"])
            for t, row in enumerate(member["rows"]):
                expected = torch.zeros(11, dtype=torch.float64)
                expected[list(row)] = torch.stack(list(row.values()))
                torch.testing.assert_close(rows[sentence, place, t], expected)
    assert len(set(ends)) > 1


def test_width_1_feeds_mixtures_of_embeddings(build, source):
    model, tau = build(), 0.4
    model.output.bias.data[naive.EOS] -= 30
    memory = model.encode(*source)
    rows = dense(soft_beam(model, memory, 1, maximum=3, tau=tau, tokens=11))[:, 0]
    state, embedded = memory.state, model.target_embedding(torch.full((3,), naive.BOS))
    total = torch.zeros(3, dtype=torch.float64)
    for t in range(3):
        hidden, state = model.step_embedded(memory, state, embedded)
        log_probs = model.project(hidden).log_softmax(-1)
        log_probs[:, [naive.PAD, naive.BOS]] = -torch.inf
        score = total[:, None] + log_probs
        weights = (-tau * (score - score.max(1, keepdim=True).values) ** 2).softmax(1)
        torch.testing.assert_close(rows[:, t], weights)
        total = score.max(1).values
        embedded = weights @ model.target_embedding.weight


def test_a_batch_equals_one_sentence_at_a_time_and_members_that_are_open(build, source):
    model, limits = ending(build((1, 2))), torch.tensor([5, 2, 3])
    together = soft_beam(model, model.encode(*source), 3, maximum=limits, tau=0.5, tokens=6)
    for row in range(3):
        alone = soft_beam(model, model.encode(*one_of(source, row)), 3, int(limits[row]), 0.5, tokens=6)
        steps = alone.chosen.shape[2]
        assert torch.equal(together.chosen[row, :, :steps], alone.chosen[0])
        assert not together.mask[row, :, steps:].any()
        torch.testing.assert_close(together.scores[row], alone.scores[0])
        torch.testing.assert_close(dense(together)[row, :, :steps][alone.mask[0]], dense(alone)[0][alone.mask[0]])


def test_gradients_are_those_of_finite_differences(build, source):
    model = ending(build())
    parameters = list(model.parameters())
    directions = [torch.randn_like(parameter) for parameter in parameters]
    factors = torch.randn(3, 2, 4, 11, dtype=torch.float64)

    def value():
        found = soft_beam(model, model.encode(*source), 2, maximum=3, tau=0.6, tokens=11)
        weighted = factors[:, :, : found.mask.shape[2]] * dense(found) * found.mask[..., None]
        return weighted.sum() + found.scores.tanh().sum()

    slopes = torch.autograd.grad(value(), parameters)
    expected = sum((slope * way).sum() for slope, way in zip(slopes, directions, strict=True))
    ends = []
    with torch.no_grad():
        for shift in (1e-6, -2e-6):
            for parameter, way in zip(parameters, directions, strict=True):
                parameter += shift * way
            ends.append(value())
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-6, expected, rtol=1e-6, atol=1e-7)
    assert expected.abs() > 1e-2


def test_tokens_that_are_left_out_matter_less_as_choices_become_sharp(build, source):
    model = build()
    memory = model.encode(*source)
    few, all_possible, whole = (soft_beam(model, memory, 2, 3, 0.5, tokens) for tokens in (4, 9, 11))
    torch.testing.assert_close(dense(all_possible), dense(whole), rtol=1e-12, atol=1e-12)
    assert (dense(few) - dense(whole)).abs().max() > 1e-3
    few, whole = (soft_beam(model, memory, 2, 3, 1e4, tokens) for tokens in (4, 11))
    assert (dense(few) - dense(whole)).abs().max() < 1e-6


def test_a_beam_may_have_fewer_members_than_places(build, source):
    model = build(vocabulary=6)
    found = soft_beam(model, model.encode(*source), 9, maximum=1, tau=SHARP, tokens=9)
    for row, hypotheses in enumerate(beam(model, *source, width=9, maximum=1, n_best=9)):
        assert len(hypotheses) == 4  # nothing, or one of UNK and two words
        assert int(found.mask[row].any(1).sum()) == 4
        hard = {(*each.tokens, naive.EOS) for each in hypotheses}
        soft = {tuple(token for token in tokens if token) for tokens in found.chosen[row].tolist()} - {()}
        assert soft == hard
    found.scores[found.mask.any(2)].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_lower_precision_of_the_model_leaves_distributions_that_sum_to_1(build, source):
    model = build((1, 2)).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = soft_beam(model, model.encode(*source), 3, maximum=4, tau=0.5)
    assert found.probs.dtype == torch.float32
    torch.testing.assert_close(found.probs.sum(3), torch.ones(found.chosen.shape), rtol=0, atol=1e-5)


def test_no_sentences(build):
    model = build()
    nothing = torch.empty(0, 1, dtype=torch.long)
    found = soft_beam(model, model.encode(nothing, nothing[:, 0]), 3, 4)
    assert found.chosen.shape == (0, 3, 1)
    assert found.probs.shape[:3] == (0, 3, 1)


def test_a_state_that_cannot_be_mixed_is_named(build, source):
    class Opaque:
        state = object()
        device = torch.device("cpu")

        def __len__(self):
            return 2

    with pytest.raises(TypeError, match=r"is a object, which has no mixed\(weights\); expected a model whose states"):
        soft_beam(build(), Opaque(), 1)
