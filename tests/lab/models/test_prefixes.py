import numpy as np
import pytest
import torch

from bleugrad.lab.models.search.prefixes import prefix_beam
from tests.oracles.one_pass import frame_outputs


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_beam_that_loses_nothing_has_every_output_with_its_probability(seed, steps, blank):
    log_probs = torch.randn(steps, 3, dtype=torch.float64).log_softmax(-1)
    expected = frame_outputs(log_probs.exp().numpy(), blank)
    found = prefix_beam(log_probs, blank, width=1000, longest=steps)
    assert {output for output, _ in found} == set(expected)
    for output, log_prob in found:
        assert np.exp(log_prob) == pytest.approx(expected[output], rel=1e-12)
    assert [log_prob for _, log_prob in found] == sorted((log_prob for _, log_prob in found), reverse=True)


def test_a_narrow_beam_is_a_lower_bound_and_beats_the_best_frames(seed):
    for _ in range(20):
        log_probs = (0.5 * torch.randn(6, 4, dtype=torch.float64)).log_softmax(-1)
        expected = frame_outputs(log_probs.exp().numpy(), 0)
        best, log_prob = prefix_beam(log_probs, 0, width=4, longest=6)[0]
        assert log_probs.amax(1).sum().item() < log_prob <= np.log(expected[best]) + 1e-12


def test_no_output_is_longer_than_allowed_and_forbidden_symbols_never_occur(seed):
    log_probs = torch.randn(5, 4, dtype=torch.float64)
    log_probs[:, 3] = -torch.inf
    found = prefix_beam(log_probs.log_softmax(-1), 0, width=50, longest=2)
    assert max(len(output) for output, _ in found) == 2
    assert all(3 not in output for output, _ in found)


def test_of_no_frames():
    assert prefix_beam(torch.empty(0, 4), 0, width=3, longest=5) == [((), 0.0)]
