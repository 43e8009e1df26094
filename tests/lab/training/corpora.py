"""A corpus of a few words, and the smallest settings that train on it."""

import random

from bleugrad.lab.settings.loading import build

ENGLISH = {"ich": "i", "du": "you", "wir": "we", "sehe": "see", "suche": "seek", "katze": "cat", "haus": "house"}


TRANSFORMER = {"model__kind": "transformer", "model__heads": 2, "model__dropout": 0.3, "model__tied": "output"}
"""Settings of a Transformer of the same size."""


def write_corpus(folder, train=40, valid=7, test=5, seed=0):
    """Words and their translations in reverse order, as the files of a folder; validation has an odd number."""
    choice = random.Random(seed)
    for split, size in (("train", train), ("valid", valid), ("test", test)):
        sources = [[choice.choice(list(ENGLISH)) for _ in range(choice.randrange(2, 6))] for _ in range(size)]
        targets = [[ENGLISH[word] for word in reversed(source)] for source in sources]
        for language, lines in (("de", sources), ("en", targets)):
            (folder / f"{split}.{language}").write_text("".join(" ".join(line) + "\n" for line in lines))
    return folder


def small_config(folder, **more):
    """Settings for it; ``more`` are settings by their path, with __ for the dot: ``optimizer__epochs=3``."""
    values = {
        "record_every": 2,
        "checkpoint_every": 3,
        "device": "cpu",
        "data": {"corpus": "files", "directory": str(folder), "batch_size": 8, "min_count": 1},
        "model": {"embedding": 6, "hidden": 6},
        "optimizer": {"epochs": 2, "learning_rate": 0.01},
    }
    for path, value in more.items():
        *tables, name = path.split("__")
        place = values
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = value
    from bleugrad.lab.training.config import TrainConfig

    return build(TrainConfig, values)


def objective_config(name="ce", **options):
    """Settings of an objective."""
    from bleugrad.lab.training.config import TrainConfig

    return build(TrainConfig, {"objective": {"name": name, **options}}).objective
