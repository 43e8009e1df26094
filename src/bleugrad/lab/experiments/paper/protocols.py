"""The two protocols: the paper's to the letter, and one with tuned learning rates and converged first phases."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

from bleugrad.lab.experiments.paper.branches import select

Name = Literal["tuned", "paper"]

PROTOCOLS: Mapping[Name, Mapping[str, Any]] = MappingProxyType(
    {
        "tuned": {},
        "paper": {
            "seeds": 8,
            "beam": 5,
            "label_smoothing": 0.0,
            "base": {
                "learning_rate": 1e-4,
                "epochs": 20,
                "weight_decay": 0.0,
                "warmup": 0,
                "decay": "none",
                "average": 1,
                "early_stopping": 0,
            },
            "tuning": {
                "epochs": 5,
                "learning_rate": 1e-4,
                "reinforce_learning_rate": 1e-5,
                "factors": (1.0,),
                "batch_size": 0,
                "decay": "none",
                "early_stopping": 0,
            },
            "branches": select(
                ("ce", "reinforce-own", "bound-sentence", "exact"), {"reinforce-own": {"objective": {"samples": 2}}}
            ),
        },
    }
)
"""What a protocol changes in the settings of a preset: objectives, rates, epochs, runs and searches.

The presets know the corpora and the sizes of the models. "exact" is not an objective of the paper; it is compared under
the same conditions. The paper does not say how many samples its REINFORCE draws and which baseline it uses; here two
samples are drawn, and the baseline of each is the reward of the other.
"""

NAMES: tuple[Name, ...] = get_args(Name)
