"""``bleugrad explain``: the numbers behind the loss of one sentence, as text and as an interactive page."""

import io
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bleugrad.lab.errors import FailureError, UsageError

if TYPE_CHECKING:
    from bleugrad.explanation import Explanation


def configure(parser: ArgumentParser) -> None:
    """The logits, the settings of the score, and the page."""
    parser.add_argument(
        "sources",
        type=Path,
        nargs="+",
        metavar="FILE_OR_RUN",
        help="saved logits (.safetensors, .npy, .npz, .pt), (T, V) or (checkpoints, T, V), or a training run's "
        "directory; several are shown in this order",
    )
    files = parser.add_argument_group("saved logits")
    files.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="TEXT",
        help="tokens or ids, separated by spaces; repeat the option for several references",
    )
    files.add_argument("--vocabulary", type=Path, metavar="FILE", help="tokens by id: one per line, or JSON")
    files.add_argument("--name", help="name of the tensor in a file with several (default: the only one, or logits)")
    files.add_argument("--end", metavar="TOKEN", help="end-of-sentence token or id: makes the length random")
    files.add_argument("--words", action="store_true", help="count words where the vocabulary holds subwords")
    runs = parser.add_argument_group("training runs")
    runs.add_argument("--sentence", type=int, metavar="N", help="the N-th sentence of the split, from 1")
    runs.add_argument("--split", default="test", help="part of the run's corpus (default: %(default)s)")
    how = parser.add_argument_group("settings")
    how.add_argument("--max-order", type=int, metavar="INT", help="highest n-gram order (default: 4, or the run's)")
    how.add_argument("--smoothing", type=float, metavar="FLOAT", help="added to every order (default: 1, or the run's)")
    how.add_argument(
        "--method", choices=("exact", "bound"), help="method of the loss whose gradient is shown (default: exact)"
    )
    how.add_argument("--samples", type=int, default=1000, help="sampled hypotheses for a check (default: %(default)s)")
    how.add_argument("--seed", type=int, default=0, help="random seed of the samples (default: %(default)s)")
    shown = parser.add_argument_group("output")
    shown.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a self-contained interactive page, for sentences of up to about 360 tokens",
    )
    shown.add_argument("--ngrams", type=int, default=8, help="n-grams per order in the text (default: %(default)s)")


def execute(arguments: Namespace) -> None:
    """Explain every checkpoint, print the last, and write the page."""
    runs = [source.is_dir() for source in arguments.sources]
    if any(runs) and not all(runs):
        raise UsageError("files and runs are given together; expected one kind")
    names, explanations = _of_runs(arguments) if all(runs) else _of_files(arguments)
    _print(names, explanations, arguments.ngrams)
    if arguments.html is not None:
        _write_page(arguments.html, names, explanations)


def _of_files(arguments: Namespace) -> tuple[list[str], list["Explanation"]]:
    from bleugrad.lab.commands.saved_logits import read_logits, read_vocabulary_list, token_ids

    _refuse(arguments, "sentence", "it picks a sentence of a run; a file holds one")
    if not arguments.reference:
        raise UsageError("--reference is missing; expected the tokens, or ids, of the reference between spaces")
    vocabulary = None if arguments.vocabulary is None else read_vocabulary_list(arguments.vocabulary)
    names, tensors = [], []
    for path in arguments.sources:
        found = read_logits(path, arguments.name)
        tensors += found
        names += [path.stem] if len(found) == 1 else [f"{path.stem} {number}" for number in range(1, len(found) + 1)]
    options = _options(arguments) | {
        "vocabulary": vocabulary,
        "eos_id": None,
        "word_start": _word_start(vocabulary) if arguments.words else None,
    }
    if arguments.end is not None:
        ids = token_ids(arguments.end, vocabulary, "--end")
        if len(ids) != 1:
            raise UsageError(f"--end is {arguments.end!r}; expected one token")
        options["eos_id"] = ids[0]
    references = [token_ids(text, vocabulary) for text in arguments.reference]
    return names, [_explained(logits, references, options, arguments.html) for logits in tensors]


def _of_runs(arguments: Namespace) -> tuple[list[str], list["Explanation"]]:
    from bleugrad.lab.training.run_logits import logits_of_run

    for name in ("reference", "vocabulary", "name", "end", "words"):
        _refuse(arguments, name, "a run has its own")
    if arguments.sentence is None:
        raise UsageError("--sentence is missing; expected the number of a sentence of the split, from 1")
    names, explanations = [], []
    for run in arguments.sources:
        for given in logits_of_run(run, arguments.sentence, arguments.split):
            names.append(given.name if len(arguments.sources) == 1 else f"{run.name} {given.name}")
            options = given.options() | _options(arguments)
            explanations.append(_explained(given.logits, given.references, options, arguments.html))
    print(f"source: {given.source}\n")
    return names, explanations


def _options(arguments: Namespace) -> dict[str, Any]:
    """The options that were given."""
    names = ("max_order", "smoothing", "method", "samples", "seed")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def _explained(logits: Any, references: list[list[int]], options: dict[str, Any], page: Path | None) -> "Explanation":
    from bleugrad import explain
    from bleugrad.explanation import MOST_PAGE_CELLS, check_cells

    with _mistakes():
        if page is not None:  # an error before the work
            tokens, orders = sum(map(len, references)), options.get("max_order", 4)
            check_cells("the page", logits.shape[0], tokens, orders, MOST_PAGE_CELLS)
        return explain(logits, references, **options)


def _word_start(vocabulary: list[str] | None) -> Any:
    from bleugrad import word_start_mask

    if vocabulary is None:
        raise UsageError("--words needs --vocabulary, to see which tokens open a word")
    with _mistakes():
        return word_start_mask(vocabulary)


@contextmanager
def _mistakes() -> Iterator[None]:
    """Errors of the library say what is wrong with the content of files or options."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def _refuse(arguments: Namespace, name: str, reason: str) -> None:
    if getattr(arguments, name):
        raise UsageError(f"--{name} is given; {reason}")


def _print(names: list[str], explanations: list["Explanation"], ngrams: int) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding without the shades shows their numbers
        sys.stdout.reconfigure(errors="backslashreplace")
    if len(explanations) > 1:
        print(checkpoint_table(names, explanations), end="\n\n")
    print(explanations[-1].text(shutil.get_terminal_size().columns, ngrams=ngrams))


def checkpoint_table(names: list[str], explanations: list["Explanation"]) -> str:
    """E[BLEU] of several checkpoints, one per line."""
    from bleugrad.explanation import fitted

    label = min(30, max(len("checkpoint"), *map(len, names)))
    lines = [f"{fitted('checkpoint', label)}{'lower':>9}{'upper':>9}{'sampled':>9}{'argmax':>9}{'length':>9}"]
    for name, seen in zip(names, explanations, strict=True):
        low = "none" if seen.lower is None else f"{100 * seen.lower:.2f}"
        sampled = "none" if seen.sampled is None else f"{100 * seen.sampled.mean:.2f}"
        lines.append(
            f"{fitted(name, label)}{low:>9}{100 * seen.upper:>9.2f}{sampled:>9}{100 * seen.argmax_bleu:>9.2f}"
            f"{seen.expected_length:>9.2f}"
        )
    return "\n".join(lines)


def _write_page(path: Path, names: list[str], explanations: list["Explanation"]) -> None:
    from bleugrad.explanation import explanation_page
    from bleugrad.lab.runs.files import write_text

    with _mistakes():
        page = explanation_page(explanations, names)
    try:
        write_text(path, page)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror}") from None
    print(f"\npage: {path}")
