"""``bleugrad distil``: a corpus whose training targets are the translations of a trained model."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import add_search_arguments
from bleugrad.lab.errors import FailureError

SUMMARY = "write the corpus of a run with the translations of its model as training targets"
EXAMPLE = "bleugrad distil runs/lstm --output corpora/distilled"
AT_ONCE = 1024
"""Sentences between two messages of progress."""


def configure(parser: ArgumentParser) -> None:
    """The search and the folder."""
    add_search_arguments(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder of the new corpus (default: RUN-distilled)")
    parser.add_argument("--overwrite", action="store_true", help="replace the corpus in that folder")
    parser.description = (
        f"{parser.description} The old references become further references: the likelihood does not use them, "
        "expected BLEU does."
    )


def execute(arguments: Namespace) -> None:
    """Translate the training text, then write all files."""
    import torch

    from bleugrad.lab.data.checksums import SUMS, write_sums
    from bleugrad.lab.data.preparation import prepare
    from bleugrad.lab.runs.files import write_text
    from bleugrad.lab.runs.lock import LOCK, locked
    from bleugrad.lab.runs.progress import Progress
    from bleugrad.lab.training.system import load

    folder: Path = arguments.output or arguments.run.with_name(f"{arguments.run.resolve().name}-distilled")
    system = load(arguments.run, arguments.device, arguments.skip_penalty, arguments.precision)
    system.width(arguments.beam, search=arguments.search)  # raises before the corpus is read
    torch.set_num_threads(system.config.threads or torch.get_num_threads())
    data = system.config.data
    with locked(folder):
        corpus = prepare(data)
        texts = {}
        for name, split in corpus.splits.items():
            if len(split) or name == "train":
                texts[f"{name}.{data.source_language}"] = split.sources
                texts[f"{name}.{data.target_language}"] = ["\t".join(choices) for choices in split.references]
        existing = {path.name for path in folder.iterdir()} - {LOCK}
        if foreign := sorted(existing - {SUMS, *texts}):
            raise FailureError(f"{folder} holds {foreign[0]!r}, which is not of this corpus; choose another --output")
        if existing and not arguments.overwrite:
            raise FailureError(f"{folder} holds a corpus; choose another --output, or replace it with --overwrite")
        sources, targets = corpus.train.sources, texts[f"train.{data.target_language}"]
        with Progress(len(sources), "translate", "sentence") as progress:
            for start in range(0, len(sources), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                found = system.translate(sources[some], arguments.beam, arguments.search)
                targets[some] = [f"{best}\t{known}" for best, known in zip(found, targets[some], strict=True)]
                progress.advance(len(found))
        for name, lines in texts.items():
            write_text(folder / name, "".join(f"{line}\n" for line in lines))
        write_sums(folder, texts)
    where = shlex.join(["--data-corpus", "files", "--data-directory", str(folder)])
    print(f"corpus: {folder}; train on it with: bleugrad train {where}")
