"""One of the processes `torchrun` starts: `several_processes.py CORPUS FOLDER` trains there, and evaluates.

Every run is `NAME-WORLD` and holds as many sentences in a batch, of all processes together, whatever their number.
"""

import json
import sys
from pathlib import Path

from bleugrad.lab.training.config import EvaluationConfig
from bleugrad.lab.training.processes import find_processes
from bleugrad.lab.training.run import train_run
from bleugrad.lab.training.system import load
from bleugrad.lab.training.translation import translate_ids
from tests.lab.training.corpora import small_config

WHOLE_BATCH = 8  # of 41 sentences: one batch of each epoch has a single sentence, and leaves one of two processes none
RUNS = {
    "ce": {},
    "exact": {"objective__name": "exact", "objective__cross_entropy_weight": 0.1},
    "bound": {"objective__name": "bound", "objective__level": "sentence"},
    "accumulation": {"optimizer__accumulation": 2},
    "transformer": {"model__kind": "transformer", "model__heads": 2, "model__tied": "output", "optimizer__average": 2},
    "graph": {"model__kind": "graph", "model__heads": 2},
}


def main(corpus, folder):
    processes = find_processes("cpu")
    for name, more in RUNS.items():
        size = WHOLE_BATCH // processes.world
        config = small_config(Path(corpus), model__dropout=0.0, data__batch_size=size, **more)
        train_run(config, Path(folder, f"{name}-{processes.world}"), processes=processes)
    processes.barrier()
    system = load(Path(folder, f"ce-{processes.world}"), "cpu")
    sources = [[4 + place % 5] * (place % 4) for place in range(9)]
    parts = []
    gather = processes.gather
    processes.gather = lambda found: parts.extend(gather(found)) or parts
    hypotheses = translate_ids(system.model, sources, EvaluationConfig(batch_size=2), processes)
    if processes.is_first:
        result = {"parts": [sorted(part) for part in parts], "tokens": [best[0].tokens for best in hypotheses]}
        Path(folder, f"translations-{processes.world}.json").write_text(json.dumps(result))
    processes.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
