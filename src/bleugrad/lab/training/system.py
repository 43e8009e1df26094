"""A trained translation model: text in, text out."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch

from bleugrad.lab.data.raw_text import untokenised
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.extras import require_translation
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.one_pass import OnePassModel
from bleugrad.lab.models.protocol import TranslationModel
from bleugrad.lab.training.checkpoints import BEST, FOLDER, put_weights, read_checkpoint
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.processes import SingleProcess
from bleugrad.lab.training.run import read_config
from bleugrad.lab.training.skip_penalty import check_penalty
from bleugrad.lab.training.translation import translate_ids
from bleugrad.lab.training.vocabularies import Vocabularies

MOST_TOKENS = 1000
"""Longer lines are cut off: no model was trained on them."""

USUAL_BEAM = 5
"""Width of a search if none is given."""

SEARCHES = ("beam", "mbr")
"""How translations are found."""

WIDEST_BEAM = 1000
"""Hypotheses of a search; a wider one finds no better translation, and takes memory in proportion."""


@dataclass(frozen=True)
class Translation:
    """A translation, its log-probability, and its score for ranking."""

    text: str
    log_prob: float
    score: float


class TranslationSystem:
    """A trained translation model with the vocabularies and settings of its run. :func:`bleugrad.load` makes one."""

    def __init__(
        self, model: TranslationModel, vocabularies: Vocabularies, config: TrainConfig, processes: SingleProcess
    ) -> None:
        self.model, self.vocabularies, self.config = model.to(processes.device).eval(), vocabularies, config
        self.processes = processes
        self._cased = any(token != token.lower() for token in vocabularies.source.tokens)

    def translate(self, lines: Sequence[str], beam: int | None = None, search: str = "beam") -> list[str]:
        """The best translation of each line.

        Lines and translations look like the training text: ordinary text if the run was trained with ``--data-raw``,
        else tokens with spaces between them. The translation of an empty line is empty.

        ``beam`` is the width of the search, 1 to 1,000; 1 is greedy. Default: 5, or 1 for one-pass models. "nat" and
        "graph" models have no beam search. A beam of a "ctc" model sums the probabilities of all frames that give a
        translation. ``search`` is "beam", or "mbr" for the candidate that is closest to the model's own output, on
        average (minimum Bayes risk, :func:`bleugrad.mbr`); some candidates are samples.
        """
        return [best[0].text for best in self.search(lines, beam, search=search)]

    def search(
        self, lines: Sequence[str], beam: int | None = None, n_best: int = 1, first: int = 1, search: str = "beam"
    ) -> list[list[Translation]]:
        """The ``n_best`` translations of each line, the best first; fewer if the search finds fewer.

        ``lines``, ``beam`` and ``search`` are those of :meth:`translate`, ``n_best`` is at most ``beam``, and ``first``
        is the number of the first line in warnings. With the search "mbr" there is one translation, its score is that
        of :func:`bleugrad.mbr`, and its log-probability is not known (NaN).
        """
        if isinstance(lines, str) or not isinstance(lines, Sequence) or not all(isinstance(one, str) for one in lines):
            raise TypeError(f"lines is a {type(lines).__name__}; expected a list of texts, one per sentence")
        width = self.width(beam, n_best, search)
        self._check_tokenised(lines, first)
        sources = [self._encoded(line, number) for number, line in enumerate(lines, start=first)]
        settings = self.config.evaluation
        starts = self.vocabularies.target.word_start()
        word_start = None if starts is None else torch.tensor(starts, device=self.processes.device)
        options = {"width": width, "n_best": n_best, "search": search, "word_start": word_start}
        found = translate_ids(self.model, sources, settings, self.processes, **options)  # type: ignore[arg-type]
        decode = self.vocabularies.target.decode
        return [[Translation(decode(one.tokens), one.log_prob, one.score) for one in best] for best in found]

    def width(self, beam: int | None = None, n_best: int = 1, search: str = "beam") -> int:
        """The width of a search: ``beam``, or the default. Raise if the model cannot search so."""
        kind = self.config.model.kind
        if search not in SEARCHES:
            raise UsageError(f"search is {search!r}; expected one of {', '.join(SEARCHES)}")
        if search == "mbr" and (beam is not None or n_best != 1):
            raise UsageError(f"beam is {beam} and n_best {n_best} with search 'mbr'; expected None and 1")
        width = (1 if self.config.model.one_pass else USUAL_BEAM) if beam is None else beam
        if not isinstance(width, int) or not 1 <= width <= WIDEST_BEAM:
            raise UsageError(f"beam is {beam!r}; expected 1 to {WIDEST_BEAM}")
        if kind in ("nat", "graph") and width > 1:
            raise UsageError(f"beam is {beam} with model.kind {kind!r}, which has no beam search; expected 1")
        if not isinstance(n_best, int) or not 1 <= n_best <= width:
            raise UsageError(f"n_best is {n_best!r}; expected 1 to beam = {width}, the width of the search")
        return width

    def _check_tokenised(self, lines: Sequence[str], first: int) -> None:
        """Warn of the first line that looks like ordinary text if the model was trained on tokenised text."""
        data = self.config.data
        if data.raw:
            return
        for number, line in enumerate(lines, start=first):
            if word := untokenised(line, self._cased or data.lowercase):
                message = (
                    f"line {number} has {word!r} and looks like ordinary text, but the run was trained on tokenised "
                    "text: tokenise the input, or train with --data-raw"
                )
                warnings.warn(message, stacklevel=4)
                return

    def _encoded(self, line: str, number: int) -> list[int]:
        tokens = self.vocabularies.source.encode(line.lower() if self.config.data.lowercase else line)
        if len(tokens) > MOST_TOKENS:
            message = f"line {number} has {len(tokens)} tokens; only the first {MOST_TOKENS} are translated"
            warnings.warn(message, stacklevel=4)
        return tokens[:MOST_TOKENS]


def load(
    run: str | PathLike[str], device: str = "auto", skip_penalty: float | None = None, precision: str = "32"
) -> TranslationSystem:
    """The best model of a training run.

    Args:
        run: the directory of a run of ``bleugrad train`` or ``bleugrad tune``.
        device: "cpu", "cuda", or "auto", which is a GPU if there is one.
        skip_penalty: one-pass models: what is subtracted from the logit of EOS (nat) or blank (ctc), or for each
            skipped vertex (graph). Higher penalties make longer translations. Default: the one that was chosen on the
            validation text.
        precision: "32", or "bf16" for parameters and products in bfloat16, which processors with instructions for them
            compute faster. Probabilities are float32.

    Example::

        system = bleugrad.load("runs/tiny")
        system.translate(["wo ist mein buch ?"])  # a list of texts
        system.search(["wo ist mein buch ?"], beam=5, n_best=3)[0][0].score
    """
    if not isinstance(run, str | PathLike):
        raise TypeError(f"run is a {type(run).__name__}; expected the path of a training run")
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device is {device!r}; expected 'auto' or 'cpu' or 'cuda'")
    if precision not in ("32", "bf16"):
        raise ValueError(f"precision is {precision!r}; expected '32' or 'bf16'")
    require_translation("a trained translation model")
    directory = Path(run)
    config = read_config(directory)
    path = directory / FOLDER / BEST
    if not path.exists():
        raise FailureError(f"the run in {directory} has no {BEST} yet: no epoch is finished")
    checkpoint = read_checkpoint(path)
    vocabularies = Vocabularies.read(directory)
    vocabularies.check_fit(checkpoint.state, directory, path)
    with torch.random.fork_rng(devices=[]):  # the caller's random state stays the same
        model = build_model(config.model, len(vocabularies.source), len(vocabularies.target))
    put_weights(model, checkpoint.weights, path)
    if precision == "bf16":
        model.to(torch.bfloat16)
    if isinstance(model, OnePassModel):
        chosen = checkpoint.state.get("skip_penalty", 0.0) if skip_penalty is None else skip_penalty
        model.skip_penalty = check_penalty(chosen)
    elif skip_penalty is not None:
        raise UsageError(
            f"skip_penalty is {skip_penalty} with model.kind {config.model.kind!r}; expected a one-pass model"
        )
    return TranslationSystem(model, vocabularies, config, SingleProcess(device))
