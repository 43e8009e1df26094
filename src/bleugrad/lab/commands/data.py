"""``bleugrad data``: fetch, verify and prepare a corpus, and show what is in it."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import add_options, given_options
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.loading import build, merged, read_toml

SUMMARY = "fetch, verify and prepare a corpus, and show what is in it; without options, list the corpora"
EXAMPLE = "bleugrad data --corpus builtin --builtin-train 1000 --samples 5"


def configure(parser: ArgumentParser) -> None:
    """The settings of the data, and the number of samples."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml", help="settings of a training run; its table [data] is used"
    )
    parser.add_argument(
        "--samples", type=int, default=3, metavar="INT", help="sentence pairs to show (default: %(default)s)"
    )
    add_options(parser, DataConfig)


def execute(arguments: Namespace) -> None:
    """Prepare and describe the corpus; without any setting, list the corpora."""
    given = given_options(arguments)
    if not given and arguments.config is None:
        print(listing())
        return
    from bleugrad.lab.data.preparation import prepare

    from_file = read_toml(arguments.config).get("data", {}) if arguments.config is not None else {}
    if not isinstance(from_file, dict):
        raise UsageError(f"{arguments.config}: data is {from_file!r}; expected a table of settings")
    config = build(DataConfig, merged(from_file, given))
    corpus, languages = prepare(config), (config.source_language, config.target_language)
    print(f"{corpus.name}, {corpus.origin}: {corpus.sizes()}")
    for source, references in list(zip(corpus.train.sources, corpus.train.references, strict=True))[
        : arguments.samples
    ]:
        print("", f"{languages[0]}: {source}", *(f"{languages[1]}: {text}" for text in references), sep="\n")


def listing() -> str:
    """The named corpora and their folders."""
    from bleugrad.lab.data.locations import VARIABLE, corpus_folder, roots
    from bleugrad.lab.data.named.catalogue import CATALOGUE

    lines = ["builtin: sentences of an artificial grammar; part of the package", "  found: always"]
    for name, corpus in CATALOGUE.items():
        folder = corpus_folder(build(DataConfig, {"corpus": name}))
        found = str(folder) if folder else f"no; `bleugrad data --corpus {name}` downloads and prepares it"
        lines += [f"{name}: {corpus.title}", f"  terms: {corpus.terms}", f"  found: {found}"]
    places = " and ".join(map(str, roots()))
    lines += [
        "files: your own text, with --train-source FILE --train-target FILE ..., or --directory FOLDER",
        "",
        f"looked in {places}; set {VARIABLE} or --directory to look elsewhere",
    ]
    return "\n".join(lines)
