"""Glancing by its definition: alignments by enumeration, the symbols that are shown, and the likelihood given them."""

import itertools
import math

import pytest
import torch

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.objectives.config import CrossEntropyConfig
from bleugrad.lab.training.objectives.glancing import best_frames, best_path, shown_symbols
from bleugrad.lab.training.objectives.one_pass import certain_emissions
from bleugrad.outputs import path_log_probs
from tests.lab.training.corpora import objective_config
from tests.lab.training.test_objectives import make_batch
from tests.oracles.one_pass import merge


def draw_graph(steps=6, labels=4):
    """Log-probabilities of labels at vertices, and of transitions, of two sentences of different lengths."""
    lengths, numbers = torch.tensor([steps, steps - 1]), torch.tensor([labels, labels - 1])
    vertex = torch.arange(steps)
    possible = (vertex > vertex[:, None]) & (vertex < lengths[:, None, None])
    transitions = torch.randn(2, steps, steps, dtype=torch.float64).exp() * possible
    transitions = transitions / transitions.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.randn(2, steps, labels, dtype=torch.float64), transitions, lengths, numbers


def paths(length, number):
    """Every way of ``number`` vertices from the first to the last of ``length``."""
    if number == 1:
        return [(0,)] if length == 1 else []
    return [(0, *middle, length - 1) for middle in itertools.combinations(range(1, length - 1), number - 2)]


def probability(path, emissions, transitions):
    walked = math.prod(transitions[w, u].item() for w, u in itertools.pairwise(path))
    return walked * math.prod(emissions[u, i].exp().item() for i, u in enumerate(path))


def test_the_best_path_by_enumeration(seed):
    for _ in range(5):
        emissions, transitions, lengths, numbers = draw_graph()
        found = best_path(emissions, transitions.log(), lengths, numbers)
        for b, (length, number) in enumerate(zip(lengths.tolist(), numbers.tolist(), strict=True)):
            best = max(paths(length, number), key=lambda path, b=b: probability(path, emissions[b], transitions[b]))
            assert found[b].tolist() == [*best, *[-1] * (4 - number)]


def test_no_path_is_said():
    emissions, transitions = torch.zeros(3, 2, 3), torch.tensor([[0.0, 1.0], [0.0, 0.0]]).expand(3, 2, 2)
    found = best_path(emissions, transitions.log(), torch.tensor([2, 2, 2]), torch.tensor([3, 1, 0]))
    assert found.tolist() == [[-1, -1, -1]] * 3


def test_the_best_frames_by_enumeration(seed):
    labels, numbers, lengths = torch.tensor([[1, 1], [2, 0], [0, 0]]), torch.tensor([2, 1, 0]), torch.tensor([5, 4, 3])
    for _ in range(5):
        log_probs = torch.randn(3, 5, 3, dtype=torch.float64).log_softmax(-1)
        found = best_frames(log_probs, labels, lengths, numbers, 0)
        for b, (length, number) in enumerate(zip(lengths.tolist(), numbers.tolist(), strict=True)):
            wanted = tuple(labels[b, :number].tolist())
            ways = [way for way in itertools.product(range(3), repeat=length) if merge(way, 0) == wanted]
            best = max(ways, key=lambda way, b=b: sum(log_probs[b, t, v].item() for t, v in enumerate(way)))
            assert found[b].tolist() == [*best, *[-1] * (5 - length)]
    none = best_frames(log_probs[:1, :2], labels[:1], torch.tensor([2]), numbers[:1], 0)
    assert none.tolist() == [[-1, -1]]  # two equal labels need a blank between them


def test_the_share_that_is_shown(seed):
    assigned = torch.tensor([[5, 6, 7, 8] * 5000 + [-1] * 7, [5, 6, 7, 8] * 5000 + [-1] * 7])
    predicted = assigned.clone()
    predicted[0, 0:20000:4] = 9  # a quarter is wrong
    shown = shown_symbols(assigned, predicted, 0.8)
    assert (shown[1] == -1).all()
    assert (shown[0, 20000:] == -1).all()
    chosen = shown[0] >= 0
    assert torch.equal(shown[0][chosen], assigned[0][chosen])
    for share in (chosen[:20000].double().mean(), chosen[0:20000:4].double().mean()):  # right ones are shown as often
        assert abs(share - 0.2) < 5 * (0.2 * 0.8 / 5000) ** 0.5
    assert torch.equal(shown_symbols(assigned[:, :4], 0 * assigned[:, :4], 1.0), assigned[:, :4])


def test_the_likelihood_of_a_graph_given_what_is_shown(seed):
    """The sum over paths that agree with it, in which shown labels cost nothing."""
    emissions, transitions, lengths, numbers = draw_graph()
    emissions.requires_grad_()
    path = best_path(emissions.detach(), transitions.log(), lengths, numbers)
    shown = torch.zeros(2, 6, dtype=torch.bool)
    given = [[1], [0, 2]]  # labels of each sentence
    for b, chosen in enumerate(given):
        shown[b, path[b, chosen]] = True
    found = path_log_probs(certain_emissions(emissions, shown, path), transitions, lengths, numbers)
    for b, (length, number) in enumerate(zip(lengths.tolist(), numbers.tolist(), strict=True)):
        total = 0.0
        for way in paths(length, number):
            pinned = {u: i for i, u in enumerate(path[b, :number].tolist()) if i in given[b]}
            agrees = all(way[i] == u for u, i in pinned.items())
            if agrees:
                free = emissions[b].detach().clone()
                free[:, given[b]] = 0.0
                total += probability(way, free, transitions[b])
        assert found[b].item() == pytest.approx(math.log(total))
    found.sum().backward()
    assert emissions.grad.isfinite().all()
    assert not emissions.grad[shown].any()


@pytest.mark.parametrize("kind", ["nat", "ctc", "graph"])
def test_glancing_lowers_the_loss_of_what_is_left_only(seed, kind):
    """Everything shown leaves no loss at certain positions; nothing shown is the likelihood."""
    model = build_model(ModelConfig(kind, hidden=8, heads=2, dropout=0.0), 12, 12)
    batch, plain = make_batch(), build_objective(model, objective_config())
    glancing = build_objective(model, CrossEntropyConfig(glancing_first=1.0, glancing_last=0.0))
    plain.begin_epoch(1, 0.0)
    glancing.begin_epoch(2, 1.0)
    assert glancing.ratio == 0
    torch.testing.assert_close(glancing(batch), plain(batch))
    glancing.begin_epoch(1, 0.5)
    assert glancing.ratio == 0.5
    glancing.begin_epoch(1, 0.0)
    shown = glancing(batch)
    assert shown.isfinite()
    if kind != "nat":  # the mean of nat is over what is left
        assert shown < 0.8 * plain(batch)
    shown.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    model.eval()
    torch.testing.assert_close(glancing(batch), plain(batch))
