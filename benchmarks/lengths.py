"""How much of a gain in BLEU is length that one number at decoding repairs, for a run of ``bleugrad reproduce``.

    python benchmarks/lengths.py runs/multi30k
    python benchmarks/lengths.py runs/multi30k --name multi30k-lstm --output results/lengths

For greedy search a penalty is subtracted from the logit of EOS; beam search divides log-probabilities by the length to
the power of a penalty, which is 1 otherwise. Higher penalties make longer translations. For every objective and search,
validation BLEU chooses the penalty, and the test set is translated with it and without it. The run directory must hold
the checkpoints of its stages.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from timing import keep

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.runs.files import read_json
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.evaluation import evaluate
from bleugrad.lab.training.system import load

GREEDY, BEAM = (0.0, -1.0, -0.5, 0.5, 1.0, 2.0), (1.0, 0.0, 0.5, 1.5, 2.0, 3.0)
"""Penalties that are tried, the usual one first."""
LABELS = ("ce", "recommended", "recommended-own")


def measure(run: Path, beams: tuple[int, ...], most: int) -> dict[str, list[dict[str, Any]]]:
    """By label, one record per seed and search: validation BLEU of each penalty, test scores without and with one."""
    runs, found = read_json(run / "summary.json")["runs"], {}
    for label in LABELS:
        found[label] = [record for one in runs.get(label, []) for record in of_seed(run, one, beams, most)]
        for record in found[label]:
            chosen, usual = record["test"], record["usual"]
            print(
                f"{label}, seed {record['seed']}, beam {record['beam']}: penalty {record['penalty']:g}, test BLEU "
                f"{100 * usual['bleu']:.2f} -> {100 * chosen['bleu']:.2f}",
                flush=True,
            )
    return {label: records for label, records in found.items() if records}


def of_seed(run: Path, one: dict[str, Any], beams: tuple[int, ...], most: int) -> list[dict[str, Any]]:
    """The records of one trained model; ``most`` validation sentences choose the penalty."""
    system = load(run / one["directory"], "cpu")
    config, bias = system.config, system.model.output.bias.data
    end = bias[EOS].item()
    splits = {split: prepare_split(config.data, split) for split in ("valid", "test")}
    splits["valid"] = Split(splits["valid"].sources[:most], splits["valid"].references[:most])

    def scores(penalty: float, split: str, beam: int) -> dict[str, float]:
        if beam == 1:
            bias[EOS] = end - penalty
        else:
            bias[EOS] = end
            system.config = replace(config, evaluation=replace(config.evaluation, length_penalty=penalty))
        scored = evaluate(system, splits[split], split, beam).scores
        return {name: getattr(scored, name) for name in ("bleu", "brevity_penalty", "length_ratio")}

    found = []
    for beam in beams:
        penalties = GREEDY if beam == 1 else BEAM
        tried = {penalty: scores(penalty, "valid", beam)["bleu"] for penalty in penalties}
        chosen = max(tried, key=tried.__getitem__)
        tests = {"usual": scores(penalties[0], "test", beam), "test": scores(chosen, "test", beam)}
        found.append({"seed": one["seed"], "beam": beam, "valid": tried, "penalty": chosen, **tests})
    return found


def table(folder: Path) -> str:
    """Markdown: test BLEU of each run in the folder, mean over seeds, without and with the penalty."""
    lines = ["| run | search | objective | test BLEU | with the penalty | penalty |", "|---|---|---|---|---|---|"]
    for path in sorted(folder.glob("*.json")):
        for label, records in json.loads(path.read_text(encoding="utf-8"))["runs"].items():
            for beam in sorted({record["beam"] for record in records}):
                ours = [record for record in records if record["beam"] == beam]
                search = "greedy" if beam == 1 else f"beam {beam}"
                bleu = [f"{100 * fmean(record[key]['bleu'] for record in ours):.2f}" for key in ("usual", "test")]
                penalties = ", ".join(f"{record['penalty']:g}" for record in ours)
                lines.append(f"| {path.stem} | {search} | {label} | {' | '.join(bleu)} | {penalties} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a finished bleugrad reproduce of an LSTM or Transformer")
    parser.add_argument("--name", help="name of the record (default: that of the run)")
    parser.add_argument("--most", type=int, default=1000, help="validation sentences that choose (default 1000)")
    parser.add_argument("--output", type=Path, help="directory for NAME.json and summary.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    summary = read_json(arguments.run / "summary.json")
    beams = tuple(1 if search == "greedy" else int(search.split()[1]) for search in summary["searches"])
    record = {
        "corpus": summary["corpus"],
        "signature": summary["bleu_signature"],
        "validation_sentences": arguments.most,
        "runs": measure(arguments.run, beams, arguments.most),
    }
    if arguments.output:
        keep(arguments.output, arguments.name or arguments.run.name, record, "")
        (arguments.output / "summary.md").write_text(table(arguments.output), encoding="utf-8")


if __name__ == "__main__":
    main()
