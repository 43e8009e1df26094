"""Numbers of the documentation: objectives of beam search, from results/beam."""

from functools import partial

import translation
from measured import NUMBERS

SEARCH = "beam 5"


def _score(run: str, label: str) -> str:
    return translation.score(translation.one_run(run)["scores"][SEARCH]["systems"][label])


NUMBERS["candidates-bleu"] = partial(_score, "beam/builtin", "candidates-mix")
for _name, _label in (("reinforce", "reinforce-own"), ("mrt", "mrt-own"), ("own", "own-mix")):
    NUMBERS[f"longer-{_name}"] = partial(_score, "beam/builtin_longer", _label)  # twice the epochs
