"""A branch: a second phase with training settings of its own, which starts from the weights of the first phase.

In a configuration file a branch is a table. Its keys are those of a training run, and ``learning_rates``::

    [branches.mix]
    objective.name = "exact"
    objective.cross_entropy_weight = 0.1
    data.batch_size = 128
    learning_rates = [1e-4, 3e-4, 1e-3]
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.loading import flat, merged, suggestion

Table = Mapping[str, Any]

SHARP_MIX = {"end_positions": 3, "sharpness": 2.0, "cross_entropy_weight": 0.1}

_BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "ce": ("CE", {"name": "ce"}),
    "reinforce": ("RF (reference rows)", {"name": "reinforce"}),
    "bound": ("LB (corpus)", {"name": "bound"}),
    "exact": ("exact", {"name": "exact"}),
    "recommended": ("recommended", {"name": "recommended"}),
    "recommended-own": ("recommended, own tokens", {"name": "recommended", "feeding": "greedy"}),
    "unbiased": ("unbiased", {"name": "unbiased"}),
    "mrt": ("MRT", {"name": "mrt"}),
    "reinforce-own": ("RF (own samples)", {"name": "reinforce", "feeding": "sample"}),
    "bound-sentence": ("LB (sentence)", {"name": "bound", "level": "sentence"}),
    "exact-mix": ("exact, CE", {"name": "exact", "cross_entropy_weight": 0.1}),
    "exact-sharp": ("exact, sharp", {"name": "exact", "sharpness": 2.0}),
    "clipped-mean": ("min(E, c)", {"name": "clipped_mean", "max_order": 2}),
    "exact-own": ("exact, own tokens", {"name": "exact", "feeding": "greedy"}),
    "own-mix": ("exact, own tokens, CE", {"name": "exact", "feeding": "greedy", "cross_entropy_weight": 0.1}),
    "candidates-mix": ("exact, candidates, CE", {"name": "candidates", **SHARP_MIX}),
    "soft-beam-mix": ("exact, soft beam, CE", {"name": "soft_beam", "candidates": 3, **SHARP_MIX}),
    "candidates-risk": (
        "MRT, candidates, CE",
        {"name": "candidates", "candidate_loss": "risk", "cross_entropy_weight": 0.1},
    ),
    "sharp-mix": ("sharp-mix", {"name": "exact", "length": "random", "units": "words", **SHARP_MIX}),
}
"""Titles in tables and objectives of the built-in branches.

RF (own samples) scores whole sequences that the decoder samples and feeds back, as in the paper. RF (reference rows)
samples each position while the decoder is fed the reference. LB (sentence) is the mean score of the sentences, as in
the paper. LB (corpus) pools the batch.
"""

KNOWN: Mapping[str, Table] = MappingProxyType({label: {"objective": one} for label, (_, one) in _BUILT_IN.items()})
"""The tables of the built-in branches. A table with the same label in a file changes single settings of them."""

SHARED = ("seed", "optimizer.epochs", "data.corpus", "optimizer.learning_rate")
LABEL = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class Branch:
    """A second phase."""

    label: str  # names its directories
    overrides: dict[str, Any]  # nested settings of the training run
    rates: tuple[float, ...] = ()  # its learning rates; empty for those of the tuning settings

    @property
    def objective(self) -> str:
        """The objective's name."""
        return str(self.overrides["objective"]["name"])

    @property
    def title(self) -> str:
        """Its name in tables; the label if it is not built in."""
        return _BUILT_IN.get(self.label, (self.label,))[0]

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes this branch."""
        return self.overrides | ({"learning_rates": self.rates} if self.rates else {})


def read_branch(label: str, table: Table) -> Branch:
    """A branch from its table; the settings of its training run are checked where that is built."""
    if not LABEL.fullmatch(label):
        raise UsageError(f"branches: the label {label!r} names a folder; expected small letters, digits, '-', '_'")
    if label in ("base", "logs"):
        raise UsageError(f"branches: the label {label!r} is reserved for the first phase; expected another")
    overrides = merged(KNOWN.get(label, {}), table)
    rates = overrides.pop("learning_rates", ())
    names = dict(flat(overrides))
    if "objective.name" not in names:
        raise UsageError(f"branches.{label}.objective.name is missing; expected an objective, such as 'exact'")
    objective = overrides.pop("objective")  # first, for tables that list the settings
    overrides = {"objective": {"name": objective["name"], **objective}, **overrides}
    if shared := [name for name in SHARED if name in names]:
        instead = "learning_rates" if shared[0].endswith("learning_rate") else "a setting of this branch only"
        raise UsageError(f"branches.{label}.{shared[0]} is the same for all branches; expected {instead}")
    if not isinstance(rates, list | tuple) or not all(type(rate) in (int, float) and 0 < rate < 1e30 for rate in rates):
        raise UsageError(f"branches.{label}.learning_rates is {rates!r}; expected a list of positive numbers")
    return Branch(label, overrides, tuple(map(float, rates)))


def select(names: Sequence[str], tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables of these labels, in this order; a built-in branch needs no table."""
    known = {**KNOWN, **tables}
    for name in names:
        if name not in known:
            raise UsageError(f"branches: {name!r} is not known{suggestion(name, known)}")
    if len(set(names)) < len(names):
        raise UsageError(f"branches is {','.join(names)!r}; expected each label once")
    return {name: tables.get(name, {}) for name in names}
