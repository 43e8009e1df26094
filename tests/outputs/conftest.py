"""Backends of the outputs' tests."""

import pytest

from bleugrad.backends.c.library import SWITCH


@pytest.fixture(params=["1", "0"], ids=["compiled", "torch"])
def kernels(request, monkeypatch):
    """With and without the compiled kernels."""
    monkeypatch.setenv(SWITCH, request.param)
