"""With and without the compiled kernels."""

import pytest

from bleugrad.core.native.build import SWITCH


@pytest.fixture
def without_kernels(monkeypatch):
    """Torch operations do everything, as where no compiler is."""
    monkeypatch.setenv(SWITCH, "0")
