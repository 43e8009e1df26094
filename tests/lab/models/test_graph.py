"""Graph models: transitions and lookahead decoding by their definitions."""

import itertools
import math

import pytest
import torch

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.graph import BEST, LONGER
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.transformer import position_codes


@pytest.fixture
def model(seed):
    model = build_model(ModelConfig("graph", hidden=8, heads=2, vertices=2), 9, 11).double().eval()
    torch.nn.init.normal_(model.output.weight, std=2.0)
    torch.nn.init.normal_(model.leaving_entering.weight)
    return model


def test_transitions_are_a_mixture_of_heads(model, source):
    hidden, lengths = model.decode(model.encode(*source))
    found = model.transitions(hidden, lengths).exp()
    for rows, length, given in zip(hidden, lengths.tolist(), found, strict=True):
        numbered = rows + position_codes(len(rows), rows)
        leaving, entering = model.leaving_entering(numbered).chunk(2, 1)
        weights = model.head_weights(numbered).softmax(-1)
        for w in range(length - 1):
            expected = torch.zeros(length - w - 1, dtype=torch.float64)
            for head in range(2):
                units = slice(4 * head, 4 * head + 4)
                scores = entering[w + 1 : length, units] @ leaving[w, units] / math.sqrt(4)
                expected += weights[w, head] * scores.softmax(0)
            torch.testing.assert_close(given[w, w + 1 : length], expected, rtol=0, atol=1e-12)
            assert not given[w, : w + 1].any()
            assert not given[w, length:].any()


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("forbid_unk", [False, True])
def test_lookahead_goes_to_the_best_token_and_transition(model, source, forbid_unk, penalty):
    model.skip_penalty = penalty
    found = model.translate(*source, torch.full((3,), 100), forbid_unk)
    graph = model.graph(model.encode(*source))
    log_probs = graph.logits.log_softmax(-1)
    log_probs[..., [0, 2, 3, *([1] * forbid_unk)]] = -torch.inf
    transitions = graph.transition_probs().log()
    for b, length in enumerate(graph.lengths.tolist()):
        for w in range(length - 1):
            lower = penalty * torch.arange(length - w - 1, dtype=torch.float64)
            transitions[b, w, w + 1 : length] = (transitions[b, w, w + 1 : length] - lower).log_softmax(0)
    for sentence, (hypothesis, length) in enumerate(zip(found, graph.lengths.tolist(), strict=True)):
        place, tokens, total = 0, [], 0.0
        while True:
            tokens.append(int(log_probs[sentence, place].argmax()))
            total += log_probs[sentence, place].max().item()
            if place == length - 1:
                break
            gains = [
                (transitions[sentence, place, u] + log_probs[sentence, u].max()).item()
                for u in range(place + 1, length)
            ]
            following = place + 1 + max(range(len(gains)), key=gains.__getitem__)
            total += transitions[sentence, place, following].item()
            place = following
        assert hypothesis.tokens == tokens
        assert hypothesis.log_prob == pytest.approx(total)
        assert hypothesis.score == pytest.approx(total / len(tokens))
    assert len({len(one.tokens) for one in found}) > 1
    cut = model.translate(*source, torch.tensor([1, 2, 0]), forbid_unk)
    assert [one.tokens for one in cut] == [one.tokens[:most] for one, most in zip(found, (1, 2, 0), strict=True)]


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_most_likely_paths_are_those_of_enumeration(model, source, penalty):
    """With one of the two best tokens at each vertex; every token adds to the score."""
    model.skip_penalty = penalty
    with torch.no_grad():
        hidden, lengths = model.evaluated(*source)
        output, _ = model.distribution(hidden, lengths, model.never(True))
        found = model.several(output, lengths)
    emitted, steps = output.logits.log_softmax(-1), output.transition_probs().log()
    for b, length in enumerate(lengths.tolist()):
        scores = {}
        for inner in itertools.product((False, True), repeat=length - 2):
            path = [0, *(place for place, used in enumerate(inner, start=1) if used), length - 1]
            walked = sum(steps[b, w, u].item() for w, u in itertools.pairwise(path))
            for tokens in itertools.product(*(emitted[b, place].topk(2).indices.tolist() for place in path)):
                spoken = sum(emitted[b, place, token].item() for place, token in zip(path, tokens, strict=True))
                scores[tuple(path), tokens] = walked + spoken + LONGER * (len(path) - 1)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:BEST]
        assert found[b] == [list(tokens) for _, tokens in best]


def test_a_graph_of_few_paths_has_few_candidates(model):
    with torch.no_grad():
        hidden, lengths = model.evaluated(torch.tensor([[3], [3]]), torch.tensor([1, 1]))
        output, _ = model.distribution(hidden, lengths, model.never(True))
        assert [len(own) for own in model.several(output, lengths)] == [4, 4]  # two vertices, two tokens each
        assert [len(own) for own in model.several(output, torch.tensor([2, 1]))] == [4, 2]
