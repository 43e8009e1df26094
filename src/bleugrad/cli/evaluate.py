"""``bleugrad evaluate``: BLEU and chrF of a trained model on a split."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.cli.command import Command
from bleugrad.errors import UsageError


def configure(parser: ArgumentParser) -> None:
    """The run, the split and the search."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a training run")
    parser.add_argument("--split", default="test", metavar="NAME", help="what to translate (default: %(default)s)")
    parser.add_argument(
        "--beam", type=int, default=5, metavar="N", help="width, at most 1000; 1 is greedy (default: %(default)s)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute")


def execute(arguments: Namespace) -> None:
    """Translate, score, show and save."""
    if arguments.beam < 1:
        raise UsageError(f"beam is {arguments.beam}; expected at least 1")
    import torch

    from bleugrad.data.preparation import prepare
    from bleugrad.training.evaluation import evaluate
    from bleugrad.training.system import load

    system = load(arguments.run, arguments.device)
    if system.config.threads:
        torch.set_num_threads(system.config.threads)
    split = prepare(system.config.data).split(arguments.split)
    evaluation = evaluate(system, split, arguments.split, arguments.beam)
    texts, scores = evaluation.write(arguments.run)
    search = "greedy" if arguments.beam == 1 else f"beam {arguments.beam}"
    print(f"{arguments.split}, {len(split)} sentences, {search}: {evaluation.scores.line()}")
    print(f"signatures: BLEU {evaluation.scores.bleu_signature}, chrF {evaluation.scores.chrf_signature}")
    print(f"translations: {texts}\nscores: {scores}")


COMMAND = Command(
    name="evaluate",
    summary="translate a split with a trained model and score it by sacreBLEU",
    example="bleugrad evaluate runs/tiny --split test --beam 5",
    configure=configure,
    execute=execute,
)
