"""Seeds, and where the corpora are; a small corpus."""

import os
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def seed():
    """Seeds torch; the tests draw their cases with numpy generators seeded by it."""
    import torch

    torch.manual_seed(20)
    return 20


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of corpora: $BLEUGRAD_DATA, or ../shared/data beside the repository; skips where absent."""
    path = Path(os.environ.get("BLEUGRAD_DATA") or REPOSITORY.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no corpora at {path}; set BLEUGRAD_DATA to the folder that holds multi30k and e2e_nlg")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The folder of a corpus of a few words."""
    from tests.lab.training.corpora import write_corpus

    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def torch_operations(monkeypatch):
    """The compiled kernels are off: torch operations compute everything."""
    monkeypatch.setenv("BLEUGRAD_KERNELS", "0")
