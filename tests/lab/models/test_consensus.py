"""Minimum Bayes risk decoding: what is drawn, from which distribution, and what is chosen."""

import math
from collections import Counter

import pytest
import torch

import bleugrad
from bleugrad.lab.models import one_pass
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.search.consensus import consensus
from tests.oracles.counting import cut
from tests.oracles.one_pass import frame_outputs, path_outputs
from tests.test_consensus import row_outputs

DRAWS = 20_000


@pytest.fixture(params=["nat", "ctc", "graph"])
def model(request, seed):
    sizes = {"hidden": 8, "heads": 2, "position_extra": 1, "upsampling": 2, "vertices": 2}
    return build_model(ModelConfig(request.param, **sizes), 9, 6).double().eval()


def outputs_of(model, hidden, lengths, never, b):
    """{output: probability} of sentence b, by enumeration."""
    size = int(lengths[b])
    logits = model.project(hidden)[b, :size].clone()
    logits[:, never] = -torch.inf
    if model.config.kind == "nat":
        logits[:, 3] -= model.skip_penalty
        return row_outputs(logits.softmax(-1).numpy(), 3)
    if model.config.kind == "ctc":
        logits[:, 0] -= model.skip_penalty
        return frame_outputs(logits.softmax(-1).numpy(), 0)
    steps = model.transitions(hidden, lengths)[b, :size, :size]
    for w in range(size):
        for u in range(size):
            steps[w, u] = steps[w, u] - model.skip_penalty * (u - w - 1) if u > w else -torch.inf
    steps = steps.softmax(-1).nan_to_num(0)
    return path_outputs(logits.softmax(-1).numpy(), steps.numpy())


@pytest.mark.parametrize("penalty", [0.0, 0.7])
@pytest.mark.parametrize("model", ["nat", "ctc"], indirect=True)
def test_draws_follow_the_distribution_that_is_decoded(model, penalty, monkeypatch):
    monkeypatch.setattr(one_pass, "SAMPLES", DRAWS)
    monkeypatch.setattr(one_pass, "TEMPERATURE", 1.0)
    model.skip_penalty = penalty
    source, lengths = torch.tensor([[7, 3], [5, 3]]), torch.tensor([2, 1])
    with torch.no_grad():
        hidden, positions = model.evaluated(source, lengths)
        never = model.never(True)
        drawn = model.several(model.distribution(hidden, positions, never)[0], positions)
        for b in range(2):
            counts = Counter(map(tuple, drawn[b]))
            for output, probability in outputs_of(model, hidden, positions, never, b).items():
                error = math.sqrt(probability * (1 - probability) / DRAWS)
                assert abs(counts[output] / DRAWS - probability) <= 5 * error + 1e-12, output


@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_matches_are_those_of_the_distribution_that_is_decoded(model, penalty):
    model.skip_penalty = penalty
    with torch.no_grad():
        hidden, lengths = model.evaluated(torch.tensor([[7, 3]]), torch.tensor([2]))
        never = model.never(True)
        output, mask = model.distribution(hidden, lengths, never)
        options = {} if mask is None else {"mask": mask, "eos_id": 3}
        found = bleugrad.expected_bleu(output, [[4, 5, 4]], max_order=1, **options).matches.item()
        outputs = outputs_of(model, hidden, lengths, never, 0)
    expected = sum(p * (min(cut(y, None).count(4), 2) + min(list(y).count(5), 1)) for y, p in outputs.items())
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_choice_is_no_worse_than_the_translation(model, source):
    many = torch.full((3,), 100)
    before = torch.get_rng_state()
    found = consensus(model.train(), *source, many)
    assert torch.equal(torch.get_rng_state(), before)
    usual = model.eval().translate(*source, many)
    assert [one.tokens for one in found] == [one.tokens for one in consensus(model, *source, many)]
    with torch.no_grad():
        output, mask = model.distribution(*model.evaluated(*source), model.never(False))
        options = {} if mask is None else {"mask": mask, "eos_id": 3}
        both = [[one.tokens, other.tokens] for one, other in zip(found, usual, strict=True)]
        scores = bleugrad.mbr(output, both, **options).scores
    assert (scores[:, 0] >= scores[:, 1] - 1e-12).all()
    assert [one.score for one in found] == pytest.approx(scores[:, 0].tolist())
    assert all(len(one.tokens) <= 1 for one in consensus(model, *source, torch.ones(3, dtype=torch.long)))
    none = torch.empty(0, 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
    assert consensus(model, *none, torch.empty(0)) == []


def test_samples_of_an_autoregressive_model(build, source, monkeypatch):
    model, seen = build().eval(), []
    real = bleugrad.mbr

    def spy(samples, candidates, **options):
        seen.append((samples, candidates, options))
        return real(samples, candidates, **options)

    monkeypatch.setattr("bleugrad.lab.models.search.consensus.mbr", spy)
    starts = torch.ones(11, dtype=torch.bool)
    found = consensus(model, *source, torch.full((3,), 6), word_start=starts)
    (samples, candidates, options) = seen[0]
    assert [len(one) for one in samples] == [32] * 3
    assert options["word_start"] is starts
    for own, some, best in zip(samples, candidates, found, strict=True):
        assert some[:32] == own
        assert len({tuple(one) for one in own}) > 3
        assert best.tokens in some
        mean = [bleugrad.bleu([one] * 32, own, level="sentence").value.mean().item() for one in some]
        assert best.score == pytest.approx(max(mean))
