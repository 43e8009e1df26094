"""A run trained on the small corpus."""

import pytest

from tests.lab.training.corpora import small_config


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """A finished run; tests that change it copy it first."""
    from bleugrad.lab.training.run import train_run

    path = tmp_path_factory.mktemp("finished") / "run"
    train_run(small_config(corpus), path)
    return path
