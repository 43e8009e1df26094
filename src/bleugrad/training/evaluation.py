"""Scores of a trained model on a split, and its translations, saved beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bleugrad.data.corpus import Split
from bleugrad.errors import FailureError
from bleugrad.runs.directory import evaluation_file
from bleugrad.runs.files import write_json, write_text
from bleugrad.training.scores import Scores, score
from bleugrad.training.system import TranslationSystem


@dataclass(frozen=True)
class Evaluation:
    """Translations of a split and their scores."""

    split: str
    beam: int
    hypotheses: list[str]
    scores: Scores

    def to_json(self) -> dict[str, Any]:
        """All but the translations."""
        return {"split": self.split, "beam": self.beam, **self.scores.to_json()}

    def write(self, run: Path) -> tuple[Path, Path]:
        """Save translations, one a line, and scores into a run; returns both paths."""
        texts, scores = (evaluation_file(run, self.split, self.beam, kind) for kind in ("txt", "json"))
        try:
            texts.parent.mkdir(exist_ok=True)
            write_text(texts, "".join(f"{line}\n" for line in self.hypotheses))
            write_json(scores, self.to_json())
        except OSError as error:
            raise FailureError(f"cannot write to {texts.parent}: {error.strerror}") from None
        return texts, scores


def evaluate(system: TranslationSystem, split: Split, name: str, beam: int = 1) -> Evaluation:
    """Translate a split and score it against its references.

    Args:
        system: a trained model.
        split: the sentences; their text is taken as it is.
        name: of the split.
        beam: width of the search; 1 is greedy.
    """
    if len(split) == 0:
        raise FailureError(f"the corpus has no sentences in {name!r}")
    hypotheses = system.translate(split.sources, beam)
    return Evaluation(name, beam, hypotheses, score(hypotheses, split.references, system.config.evaluation.tokenize))
