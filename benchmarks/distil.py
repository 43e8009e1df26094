"""Writes a corpus whose training targets are the translations of a trained model: knowledge distillation.

    python benchmarks/distil.py runs/lstm corpora/distilled
    bleugrad train --model-kind nat --data-corpus files --data-directory corpora/distilled

The corpus is that of the run. Training sources keep their order, validation and test stay as they are. A one-pass model
finds the translations of one model easier to learn than those of many people (Kim and Rush, *Sequence-Level Knowledge
Distillation*, 2016).
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.training.system import load


def write(folder: Path, name: str, languages: tuple[str, str], sources: Iterable[str], targets: Iterable[str]) -> None:
    for language, lines in zip(languages, (sources, targets), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def references(split: Split) -> list[str]:
    """One line per sentence; tabs separate several references."""
    return ["\t".join(found) for found in split.references]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="training run of the model that translates")
    parser.add_argument("folder", type=Path, help="folder of the corpus, made if missing")
    parser.add_argument("--beam", type=int, default=5, help="width of the beam (default 5)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    system = load(arguments.run, "cpu")
    data = system.config.data
    corpus, languages = prepare(data), (data.source_language, data.target_language)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sources = list(corpus.train.sources)
    write(arguments.folder, "train", languages, sources, system.translate(sources, arguments.beam))
    for name, split in (("valid", corpus.valid), ("test", corpus.test)):
        write(arguments.folder, name, languages, split.sources, references(split))
    print(f"{len(sources)} training pairs in {arguments.folder}")


if __name__ == "__main__":
    main()
