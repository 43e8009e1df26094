"""Numbers of the documentation: objectives of beam search, from results/beam."""

import translation
from measured import number

SEARCH = "beam 5"


def _score(run: str, label: str) -> str:
    return translation.score(translation.one_run(run)["scores"][SEARCH]["systems"][label])


@number
def candidates_bleu() -> str:
    return _score("beam/builtin", "candidates-mix")


@number
def longer_reinforce() -> str:
    """With twice the epochs, as the other numbers of this run."""
    return _score("beam/builtin_longer", "reinforce-own")


@number
def longer_mrt() -> str:
    return _score("beam/builtin_longer", "mrt-own")


@number
def longer_own() -> str:
    return _score("beam/builtin_longer", "own-mix")
