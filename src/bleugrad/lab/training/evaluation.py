"""Translations and scores of a trained model on a split."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.directory import evaluation_file
from bleugrad.lab.runs.files import write_json, write_text
from bleugrad.lab.training.scores import Scores, score
from bleugrad.lab.training.system import TranslationSystem, load


@dataclass(frozen=True)
class Evaluation:
    """Translations of a split and their scores."""

    split: str
    beam: int
    hypotheses: list[str]
    scores: Scores
    mbr: bool = False
    options: tuple[str, ...] = ()  # of the search, that are not the run's own: a part of the names of the files

    def to_json(self) -> dict[str, Any]:
        """All but the translations."""
        return {"split": self.split, "beam": self.beam, "search": self.search, **self.scores.to_json()}

    @property
    def search(self) -> str:
        """The kind of search, as text."""
        name = "mbr" if self.mbr else "greedy" if self.beam == 1 else f"beam {self.beam}"
        return ", ".join([name, *(option.replace("_", " ") for option in self.options)])

    def files(self, run: Path) -> tuple[Path, Path]:
        """The files of the translations and of the scores in a run."""
        names = run, self.split, "mbr" if self.mbr else self.beam
        texts, scores = (".".join([*self.options, kind]) for kind in ("txt", "json"))
        return evaluation_file(*names, texts), evaluation_file(*names, scores)

    def write(self, run: Path) -> None:
        """Save translations, one per line, and scores into a run."""
        texts, scores = self.files(run)
        try:
            texts.parent.mkdir(exist_ok=True)
            write_text(texts, "".join(f"{line}\n" for line in self.hypotheses))
            write_json(scores, self.to_json())
        except OSError as error:
            raise FailureError(f"cannot write to {texts.parent}: {error.strerror}") from None


def evaluate_run(
    directory: Path,
    device: str,
    split: str,
    beams: Iterable[int | None],
    search: str = "beam",
    skip_penalty: float | None = None,
    precision: str = "32",
) -> Iterator[Evaluation]:
    """Translate a split of the corpus of a training run with its best model, and save and return the results."""
    system = load(directory, device, skip_penalty, precision)
    options = [f"skip_penalty_{skip_penalty}"] * (skip_penalty is not None) + [precision] * (precision != "32")
    if system.config.threads:
        torch.set_num_threads(system.config.threads)
    sentences = prepare_split(system.config.data, split)
    for beam in beams:
        found = replace(evaluate(system, sentences, split, beam, search), options=tuple(options))
        found.write(directory)
        yield found


def evaluate(
    system: TranslationSystem, split: Split, name: str, beam: int | None = 1, search: str = "beam"
) -> Evaluation:
    """Translate a split, whose name is ``name``, and score it; a ``beam`` of 1 is greedy search, None the default."""
    if len(split) == 0:
        raise FailureError(f"the corpus has no sentences in {name!r}")
    hypotheses = system.translate(split.sources, beam, search)
    scores = score(hypotheses, split.references, system.config.evaluation.tokenize)
    return Evaluation(name, system.width(beam), hypotheses, scores, mbr=search == "mbr")
