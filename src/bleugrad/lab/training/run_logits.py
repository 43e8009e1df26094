"""Teacher-forced logits of a sentence, from the checkpoints of a training run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.encoding import encode_split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.errors import UsageError
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.checkpoints import BEST, FOLDER, LAST, Checkpoint, put_weights, read_checkpoint
from bleugrad.lab.training.objectives.config import BLEUScore, ObjectiveConfig
from bleugrad.lab.training.system import TranslationSystem, load


@dataclass(frozen=True)
class RunLogits:
    """Teacher-forced logits (T, V) of a sentence from one checkpoint, with the references' ids, ended by EOS.

    As in training, the decoder has one position per token of the first reference and one for EOS, which counts as a
    token. ``word_start`` (V,) is None unless the run counts words of several tokens.
    """

    name: str
    logits: Tensor
    references: list[list[int]]
    source: str
    vocabulary: list[str]
    word_start: Tensor | None
    objective: ObjectiveConfig

    def options(self) -> dict[str, Any]:
        """The arguments of :func:`bleugrad.explain` with the settings of the run."""
        options: dict[str, Any] = {"vocabulary": self.vocabulary, "word_start": self.word_start}
        score = self.objective
        if isinstance(score, BLEUScore):
            options |= {"max_order": score.max_order, "smoothing": score.smoothing}
        return options | {"method": "bound" if score.name == "bound" else "exact"}


def logits_of_run(run: Path, sentence: int, split: str = "test") -> list[RunLogits]:
    """The logits of a split's sentence, from 1, of the best and, if it differs, the last checkpoint of a run."""
    system = load(run, device="cpu")
    if system.config.model.one_pass:
        kind = system.config.model.kind
        raise UsageError(
            f"{run} holds a model of kind {kind!r}; expected 'lstm' or 'transformer', which are fed tokens"
        )
    pairs = prepare_split(system.config.data, split)
    if not 1 <= sentence <= len(pairs):
        raise UsageError(f"--sentence is {sentence}; expected 1 to {len(pairs)}, the sentences of {split}")
    pair = Split([pairs.sources[sentence - 1]], [pairs.references[sentence - 1]])
    return [_read(system, checkpoint, path, pair) for path, checkpoint in _checkpoints(run)]


def _checkpoints(run: Path) -> list[tuple[Path, Checkpoint]]:
    """The best and, if it differs, the last checkpoint, in training order."""
    best, last = run / FOLDER / BEST, run / FOLDER / LAST
    found = [(path, read_checkpoint(path)) for path in (last, best) if path == best or path.exists()]
    by_step = {_step(checkpoint): (path, checkpoint) for path, checkpoint in found}  # of the same step: the best
    return [by_step[step] for step in sorted(by_step)]


def _step(checkpoint: Checkpoint) -> int:
    return int(checkpoint.state["position"]["step"])


def _read(system: TranslationSystem, checkpoint: Checkpoint, path: Path, pair: Split) -> RunLogits:
    target, settings = system.vocabularies.target, system.config.objective
    put_weights(system.model, checkpoint.weights, path)
    encoded = encode_split(pair, system.vocabularies.source, target)
    batch = BatchPlan(encoded, by="sentences", size=1, seed=0).collate([0])
    with torch.no_grad():
        logits = system.model(batch.source, batch.source_lengths, batch.inputs())
    starts = target.word_start() if getattr(settings, "units", None) == "words" else None
    return RunLogits(
        name=f"{path.stem}, step {_step(checkpoint)}",
        logits=logits[0],
        references=[[*reference, EOS] for reference in encoded.references[0]],
        source=pair.sources[0],
        vocabulary=list(target.tokens),
        word_start=None if starts is None else torch.tensor(starts),
        objective=settings,
    )
