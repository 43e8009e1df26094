"""``bleugrad evaluate``: BLEU and chrF of a trained model on a split."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import BEAM, DEVICE, PENALTY, SEARCH
from bleugrad.lab.errors import UsageError
from bleugrad.lab.runs.directory import evaluation_file


def configure(parser: ArgumentParser) -> None:
    """The run, the split and the search."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a training run")
    parser.add_argument("--split", default="test", metavar="NAME", help="part of the corpus (default: %(default)s)")
    parser.add_argument("--beam", type=int, metavar="N", help=BEAM)
    parser.add_argument("--search", choices=("beam", "mbr"), default="beam", help=SEARCH)
    parser.add_argument("--skip-penalty", type=float, metavar="X", help=PENALTY)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=DEVICE)


def execute(arguments: Namespace) -> None:
    """Translate, score, show and save."""
    if arguments.beam is not None and arguments.beam < 1:
        raise UsageError(f"beam is {arguments.beam}; expected at least 1")
    from bleugrad.lab.training.evaluation import evaluate_run

    (found,) = evaluate_run(
        arguments.run, arguments.device, arguments.split, [arguments.beam], arguments.search, arguments.skip_penalty
    )
    scores = found.scores
    print(f"{arguments.split}, {scores.sentences} sentences, {found.search}: {scores.line()}")
    print(f"signatures: BLEU {scores.bleu_signature}, chrF {scores.chrf_signature}")
    search = "mbr" if found.mbr else found.beam
    texts, table = (evaluation_file(arguments.run, arguments.split, search, kind) for kind in ("txt", "json"))
    print(f"translations: {texts}\nscores: {table}")
