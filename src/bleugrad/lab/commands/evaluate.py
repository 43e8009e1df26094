"""``bleugrad evaluate``: BLEU and chrF of a trained model on a split."""

from argparse import ArgumentParser, Namespace

from bleugrad.lab.commands.options import add_search_arguments

SUMMARY = "translate a split with a trained model and score it by sacreBLEU"
EXAMPLE = "bleugrad evaluate runs/tiny --split test --beam 5"


def configure(parser: ArgumentParser) -> None:
    """The search and the split."""
    add_search_arguments(parser)
    parser.add_argument("--split", default="test", metavar="NAME", help="part of the corpus (default: %(default)s)")


def execute(arguments: Namespace) -> None:
    """Translate, score, show and save."""
    from bleugrad.lab.training.evaluation import evaluate_run

    run, split, beams = arguments.run, arguments.split, [arguments.beam]
    how = (arguments.search, arguments.skip_penalty, arguments.precision)
    (found,) = evaluate_run(run, arguments.device, split, beams, *how)
    scores, (texts, table) = found.scores, found.files(run)
    print(f"{split}, {scores.sentences} sentences, {found.search}: {scores.line()}")
    print(f"signatures: BLEU {scores.bleu_signature}, chrF {scores.chrf_signature}")
    print(f"translations: {texts}\nscores: {table}")
