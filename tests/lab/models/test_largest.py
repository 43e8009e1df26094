import pytest
import torch

from bleugrad.lab.models.search.largest import BLOCK, largest


@pytest.mark.parametrize("size", [3, BLOCK, 6 * BLOCK, 40 * BLOCK, 40 * BLOCK + 7])
@pytest.mark.parametrize("number", [1, 3])
def test_equals_topk(seed, size, number):
    values = torch.randn(20, size)
    found, places = largest(values, number)
    expected = values.topk(number, 1)
    assert torch.equal(found, expected.values)
    assert torch.equal(places, expected.indices)


def test_neighbours_and_the_rest_are_found():
    values = torch.zeros(2, 40 * BLOCK + 2)
    values[0, 5], values[0, 6], values[0, -1] = 3.0, 4.0, 5.0
    values[1] = -torch.inf
    values[1, 9], values[1, -2], values[1, 900] = 1.0, 2.0, 3.0
    found, places = largest(values, 3)
    assert found.tolist() == [[5, 4, 3], [3, 2, 1]]
    assert places.tolist() == [[40 * BLOCK + 1, 6, 5], [900, 40 * BLOCK, 9]]
