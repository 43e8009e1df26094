"""Numbers of the documentation: one-pass models, from results/one_pass."""

from collections.abc import Callable
from functools import partial
from statistics import mean, stdev
from typing import Any

import translation
from measured import NUMBERS, RESULTS, TABLES, markdown, number, read, span, table

FOLDER = RESULTS / "one_pass"
KINDS = ("nat", "ctc", "graph")
CORPORA = {
    "multi30k": "`multi30k`",
    "multi30k_third": "`multi30k`, third seed",
    "multi30k_wide": "`multi30k`, 192 units",
    "multi30k_distilled": "`multi30k`, 192 units, distilled targets",
    "tatoeba_tiny": "`tatoeba_tiny`",
    "builtin": "`builtin`",
    "builtin_long": "`builtin`, longer tuning",
    "builtin_distilled": "`builtin`, distilled targets",
}
NAMES = {
    "base": "likelihood (first phase)",
    "ce": "more likelihood",
    "exact": "exact",
    "exact-mix": "exact + 0.1 likelihood",
    "exact-sharp": "exact, sharpness 2",
    "bound": "paper's bound",
    "clipped-mean": "min(E[count], c), order 2",
}
SEARCH = "greedy"
NONE_YET = "No run of one-pass models is kept in `results/one_pass` yet.\n"


def runs() -> dict[tuple[str, str], translation.Summary]:
    """Summaries by corpus and kind, in the order of the pages."""
    found = {}
    for corpus in CORPORA:
        for kind in KINDS:
            if (FOLDER / f"{corpus}-{kind}" / "summary.json").exists():
                found[corpus, kind] = read(f"one_pass/{corpus}-{kind}/summary.json")
    return found


def _test(summary: translation.Summary, label: str) -> str:
    systems = summary["scores"][SEARCH]["systems"]
    return translation.score(systems[label]) if label in systems else ""


def _validation(summary: translation.Summary, label: str) -> str:
    found = [run["best_bleu"] for run in summary["runs"].get(label, [])]
    return translation.points(mean(found)) if found else ""


def _compared(cell: Callable[[translation.Summary, str], str]) -> str:
    """One row per corpus and kind, one column per objective."""
    found = runs()
    if not found:
        return NONE_YET
    labels = [label for label in NAMES if any(label in summary["titles"] for summary in found.values())]
    rows = [[_run(*names, summary), *(cell(summary, label) for label in labels)] for names, summary in found.items()]
    return markdown(["corpus, model, seeds", *(NAMES[label] for label in labels)], rows)


def _run(corpus: str, kind: str, summary: translation.Summary) -> str:
    return f"{CORPORA[corpus]}, `{kind}`, {len(summary['seeds'])}"


TABLES["one-pass"] = partial(_compared, _test)
TABLES["one-pass-validation"] = partial(_compared, _validation)  # of the epochs and learning rates that it chose


@table
def one_pass_choices() -> str:
    """Learning rates, epochs and convergence of every run."""
    rows = []
    for (corpus, kind), summary in runs().items():
        bases = summary["runs"]["base"]
        converged = sum(run["converged"] for run in bases)
        tuned = summary["runs"]["exact"]
        rates = sorted({one["learning_rate"] for run in tuned for one in run["tries"]})
        epochs = max(run["epochs"] for run in tuned)
        rows.append(
            [
                f"{CORPORA[corpus]}, `{kind}`",
                ", ".join(map(str, summary["seeds"])),
                f"{converged} of {len(bases)}",
                ", ".join(str(run["epochs"]) for run in bases),
                str(epochs),
                ", ".join(f"{rate:g}" for rate in rates),
            ]
        )
    header = ["run", "seeds", "first phases that converged", "their epochs", "epochs of tuning", "learning rates"]
    return markdown(header, rows) if rows else NONE_YET


BARE = "without a penalty"  # of length
SEARCHES = {
    BARE: " --skip-penalty 0",
    "penalty of length, the default": "",
    "minimum Bayes risk": " --search mbr",
}


def _log(name: str, run: str = "multi30k-graph") -> list[str]:
    return (FOLDER / run / f"{name}.log.txt").read_text(encoding="utf-8").splitlines()


@number
def one_pass_shortfall() -> str:
    """The share of words that is missing after likelihood training without a penalty."""
    lines = _log("searches")
    pairs = zip(lines[::2], lines[1::2], strict=True)
    wanted = [scores for command, scores in pairs if "/base" in command and command.endswith(SEARCHES[BARE])]
    return f"{100 - 100 * mean(float(line.split('length ratio ')[1].split(')')[0]) for line in wanted):.0f} %"


def _with_penalty(corpus: str, what: str, penalty: str) -> str:
    """Validation BLEU, or its brevity penalty (BP), of the graph model with the exact loss, first seed."""
    start = f"seed-1/exact-lr5e-4: --skip-penalty {penalty},"
    line = next(line for line in _log("penalties", f"{corpus}-graph") if line.startswith(start))
    return line.split(f"{what} ")[1].split()[0].rstrip(",")


for _penalty in ("0.2", "0.6", "0.8"):
    NUMBERS[f"one-pass-penalty {_penalty}"] = partial(_with_penalty, "multi30k", "BLEU", _penalty)
for _what in ("BLEU", "BP"):
    for _penalty in ("0", "0.8"):
        NUMBERS[f"one-pass-longer {_what} {_penalty}"] = partial(_with_penalty, "tatoeba_tiny", _what, _penalty)


@table
def one_pass_searches() -> str:
    """Test BLEU by decoding, the mean over seeds, from logs of `evaluate`."""
    rows = []
    for corpus, kind in runs():
        if not (FOLDER / f"{corpus}-{kind}" / "searches.log.txt").exists():
            continue
        lines, found = _log("searches", f"{corpus}-{kind}"), dict[tuple[str, str], list[float]]()
        for command, scores in zip(lines[::2], lines[1::2], strict=True):
            run, _, options = command.partition("/")[2].partition(" --split test")
            found.setdefault((run.partition("-lr")[0], options), []).append(float(scores.split("BLEU ")[1].split()[0]))
        for label in ("base", "ce", "exact", "clipped-mean"):
            if all((label, options) in found for options in SEARCHES.values()):
                bleus = (f"{mean(found[label, options]):.2f}" for options in SEARCHES.values())
                rows.append([f"{CORPORA[corpus]}, `{kind}`", NAMES[label], *bleus])
    return markdown(["corpus, model", "training", *SEARCHES], rows)


@number
def one_pass_wide_second() -> str:
    """Test BLEU of the exact loss with a second seed of the wide graph model, from the log of a run in progress."""
    lines = (FOLDER / "multi30k_wide-graph" / "second_seed.log.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if "seed-2/exact-lr5e-4 on test" in line).split("BLEU ")[1].split()[0]


@table
def token_by_token_searches() -> str:
    """Test BLEU of models that translate token by token on multi30k, from a log of `evaluate`."""
    path = FOLDER / "token_by_token" / "searches.log.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[str]] = {}
    for command, scores in zip(lines[::2], lines[1::2], strict=True):
        run = command.partition("evaluate ")[2].partition(" ")[0].removeprefix("multi30k-")
        found.setdefault(run, []).append(scores.split("BLEU ")[1].split()[0])
    shown = {"lstm": "LSTM", "transformer": "Transformer", "ce": "more cross-entropy"}
    rows = [[", ".join(shown.get(part, part) for part in run.split("/")), *bleus] for run, bleus in found.items()]
    return markdown(["model", "greedy", "beam 5", "minimum Bayes risk"], rows)


def _gain(corpus: str, kind: str, label: str, other: str) -> str:
    pair = translation.difference(runs()[corpus, kind]["scores"][SEARCH], label, other)
    if pair is None:
        raise KeyError(label)
    return f"{100 * pair['difference']:+.1f}"


def main_seeds(label: str) -> list[float]:
    """Test BLEU of the graph model of 128 units on multi30k, all seeds; the third one has a run of its own."""
    kept = runs()
    found = [kept[corpus, "graph"]["runs"][label] for corpus in ("multi30k", "multi30k_third")]
    return [run["test"][SEARCH]["bleu"] for some in found for run in some]


def main_score(label: str) -> str:
    """Their mean and standard deviation."""
    found = main_seeds(label)
    return translation.score({"mean": mean(found), "std": stdev(found)})


def _main_gains() -> list[float]:
    """The gains of the exact loss over more likelihood, by seed."""
    return [exact - ce for exact, ce in zip(main_seeds("exact"), main_seeds("ce"), strict=True)]


NUMBERS |= {f"one-pass-main {label}": partial(main_score, label) for label in ("ce", "exact")}
NUMBERS["one-pass-main gain"] = lambda: f"{100 * mean(_main_gains()):+.1f}"
NUMBERS["one-pass-main gains"] = lambda: span(_main_gains(), lambda value: f"{100 * value:+.1f}")


def _plane() -> Any:
    return read("one_pass/plane/plane.json")


@table
def one_pass_plane() -> str:
    """BLEU and speed of every model."""
    rows = _plane()["rows"]
    slowest = next(row for row in rows if row["beam"] > 1)
    header = ["model", "parameters", "BLEU", "sentences/s, batches", "against beam 5", "sentences/s, one at a time"]
    header.append("against beam 5")
    return markdown(
        header,
        [
            [
                row["name"],
                f"{row['parameters']:,}",
                f"{100 * row['bleu']:.1f}" + (f" ± {100 * row['deviation']:.1f}" if row.get("deviation") else ""),
                *(
                    cell
                    for way in ("batches", "alone")
                    for cell in (f"{row[way]:,.0f}", f"{row[way] / slowest[way]:.1f} x")
                ),
            ]
            for row in rows
        ],
    )


def _speed(way: str, greedy: bool = False) -> str:
    """Sentences per second of the one-pass models, as a multiple of beam search, or of greedy search."""
    rows = _plane()["rows"]
    searched = next(row for row in rows if row["kind"] not in KINDS and (row["beam"] == 1) == greedy)
    passes = [row for row in rows if row["kind"] in KINDS and row.get("search") != "mbr"]
    return span([row[way] / searched[way] for row in passes], lambda value: f"{value:.1f}")


NUMBERS |= {f"one-pass-speed-{way}": partial(_speed, way) for way in ("batches", "alone")}
NUMBERS["one-pass-speed-greedy"] = partial(_speed, "batches", greedy=True)


@number
def mbr_speed() -> str:
    """The time of the package mbrs as a multiple of that of `bleugrad.mbr`, both with samples."""
    return span(list(read("mbr/mbr.json")["ratios"].values()), lambda value: f"{value:.0f}")


@number
def one_pass_machine() -> str:
    machine = _plane()["machine"]
    return f"{machine['processor']}, torch {machine['torch']}"


@number
def one_pass_least_gain() -> str:
    """The smallest gain of the exact loss over more likelihood among the seeds of `nat` on the built-in corpus."""
    found = runs()["builtin", "nat"]["runs"]
    bleu = {label: [run["test"][SEARCH]["bleu"] for run in found[label]] for label in ("exact", "ce")}
    return f"{100 * min(exact - ce for exact, ce in zip(bleu['exact'], bleu['ce'], strict=True)):+.1f}"


def _length(kind: str, label: str) -> str:
    """Length of the translations over that of the references, on multi30k."""
    found = [run["test"][SEARCH]["length_ratio"] for run in runs()["multi30k", kind]["runs"][label]]
    return f"{100 * mean(found):.0f} %"


def autoregressive(search: str) -> str:
    """Test BLEU of the LSTM on multi30k after cross-entropy, the model that one-pass models are compared with."""
    return translation.points(read("multi30k/summary.json")["scores"][search]["systems"]["ce"]["mean"])


def _first_seed(label: str, corpus: str) -> str:
    """Test BLEU of `nat` with the first seed."""
    return translation.points(runs()[corpus, "nat"]["runs"][label][0]["test"][SEARCH]["bleu"])


for _label, _name in (("base", "one-pass-distilled"), ("exact", "one-pass-distilled-exact")):
    for _corpus in ("builtin", "builtin_distilled"):
        NUMBERS[f"{_name} {_corpus}"] = partial(_first_seed, _label, _corpus)

NUMBERS |= {
    f"one-pass-length {kind} {label}": partial(_length, kind, label)
    for kind in ("ctc", "graph")
    for label in ("base", "exact")
}
NUMBERS |= {f"one-pass-lstm {search}": partial(autoregressive, search) for search in ("greedy", "beam 5")}

USED = (
    "builtin nat exact base",
    "builtin nat exact ce",
    "builtin nat exact clipped-mean",
    "builtin_long nat exact base",
    "builtin_distilled nat exact base",
    "builtin graph exact ce",
    "builtin graph exact clipped-mean",
    "builtin graph exact-mix exact",
    "builtin graph exact-sharp exact",
    "builtin ctc exact ce",
    "builtin ctc exact clipped-mean",
    "multi30k nat exact base",
    "multi30k nat exact ce",
    "multi30k nat exact clipped-mean",
    "multi30k ctc exact ce",
    "multi30k ctc exact clipped-mean",
    "multi30k_wide graph exact ce",
    "multi30k graph exact clipped-mean",
    "tatoeba_tiny nat exact base",
    "tatoeba_tiny nat exact ce",
    "tatoeba_tiny ctc exact ce",
    "tatoeba_tiny graph exact ce",
)
"""The gains that pages name: corpus, kind, objective, and what it is compared with."""

NUMBERS |= {f"one-pass {name}": partial(_gain, *name.split()) for name in USED}


def _graph(corpus: str, label: str) -> str:
    """Test BLEU of `graph`, the mean over seeds."""
    return translation.points(runs()[corpus, "graph"]["scores"][SEARCH]["systems"][label]["mean"])


NUMBERS |= {
    f"one-pass-graph {corpus} {label}": partial(_graph, corpus, label)
    for corpus in ("multi30k_wide", "multi30k_distilled")
    for label in ("base", "exact")
}
