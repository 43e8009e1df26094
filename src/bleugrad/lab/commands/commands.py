"""All subcommands, in the order of ``bleugrad --help``. A new one needs a module and an entry here."""

from dataclasses import dataclass
from types import ModuleType

from bleugrad.lab.commands import data, evaluate, explain, report, reproduce, toy, train, translate, tune


@dataclass(frozen=True)
class Command:
    """A subcommand, with a one-line summary and a complete example for ``--help``.

    ``module.configure(parser)`` adds the arguments and must not load large libraries, because ``--help`` calls it.
    ``module.execute(arguments)`` does the work.
    """

    module: ModuleType
    summary: str
    example: str

    @property
    def name(self) -> str:
        """The word on the command line."""
        return self.module.__name__.rpartition(".")[2]


COMMANDS = (
    Command(train, "train a translation model on a corpus", "bleugrad train --preset tiny --output runs/tiny"),
    Command(
        tune,
        "continue training from the best weights of a run, with another objective",
        "bleugrad tune runs/tiny --output runs/tiny-recommended",
    ),
    Command(
        evaluate,
        "translate a split with a trained model and score it by sacreBLEU",
        "bleugrad evaluate runs/tiny --split test --beam 5",
    ),
    Command(translate, "translate standard input line by line with a trained model", "bleugrad translate runs/tiny"),
    Command(
        data,
        "fetch, verify and prepare a corpus, and show what is in it; without options, list the corpora",
        "bleugrad data --corpus builtin --builtin-train 1000 --samples 5",
    ),
    Command(
        reproduce,
        "rerun the paper's experiment: cross-entropy, then each objective from the same weights",
        "bleugrad reproduce --preset builtin --seeds 2 --jobs 2 --output runs/builtin",
    ),
    Command(
        explain,
        "explain the loss of one sentence: matches, bound, gradient and expected BLEU",
        'bleugrad explain logits.npy --reference "12 7 7 3" --html explain.html',
    ),
    Command(
        toy,
        "optimise free logits against a random reference, as in the paper's figures 1 and 2",
        "bleugrad toy --orders 2 --seeds 3 --method exact --output runs/toy-exact",
    ),
    Command(report, "redraw the figures and the page of a run of toy or reproduce", "bleugrad report runs/toy"),
)
