"""A small corpus, and a run trained on it."""

import pytest

from tests.training.corpora import small_config, write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """A finished run; tests that change it copy it first."""
    from bleugrad.training.run import train_run

    path = tmp_path_factory.mktemp("finished") / "run"
    train_run(small_config(corpus), path)
    return path
