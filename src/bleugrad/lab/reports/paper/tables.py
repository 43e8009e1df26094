"""The tables of the paper's experiment, from a saved summary."""

from collections.abc import Iterable, Mapping
from statistics import mean, median
from typing import Any

from bleugrad.lab.reports.formats import Table, aligned
from bleugrad.lab.reports.page import Strong

Summary = Mapping[str, Any]

BASE, CROSS_ENTROPY = "base", "ce"
SCORES = ("BLEU", "chrF")


def objectives(summary: Summary) -> list[str]:
    """Labels of the objectives of the second phase, in order."""
    return [label for label in summary["titles"] if label != BASE]


DIFFERENCES = (
    "p (seeds): paired t-test over seeds, which needs two seeds. Smallest detectable difference: the smallest "
    "difference that this test calls significant, given the spread of the differences; with two seeds it is very "
    "large. p (sentences): paired bootstrap of the test set. The p-values are not corrected for the number of "
    "comparisons."
)


def scores_table(summary: Summary) -> Table:
    """One row per objective: scores, differences from cross-entropy, intervals."""
    compared = CROSS_ENTROPY in summary["titles"]
    header, rows = [""], []
    for search in summary["searches"]:
        header += [search, *["difference from CE"] * compared, "95 % interval"]
    for label, title in summary["titles"].items():
        row = [title if label != BASE else "base (first phase)"]
        for search in summary["searches"]:
            row.append(score(summary, search, label))
            systems = summary["scores"][search]["systems"]
            if compared:
                difference = systems[label]["mean"] - systems[CROSS_ENTROPY]["mean"]
                row.append("" if label == CROSS_ENTROPY else f"{100 * difference:+.2f}")
            low, high = systems[label]["interval"]
            row.append(f"{100 * low:.1f} to {100 * high:.1f}")
        rows.append(row)
    caption = f"{description(summary)} Interval: bootstrap of the mean over the test sentences. {bold_rule(summary)}"
    return Table(header, rows, caption)


def terminal_text(summary: Summary) -> str:
    """The scores for a terminal, without their intervals."""
    header, rows, _ = scores_table(summary)
    kept = [column for column, name in enumerate(header) if "interval" not in name]
    rows = [[row[column] for column in kept] for row in rows]
    rule = bold_rule(summary).replace("Bold:", "*:").replace("othing is bold", "othing is marked *")
    scores = aligned(Table([header[column] for column in kept], rows, ""))
    return "\n".join([description(summary), scores, rule, f"signature: {summary['bleu_signature']}"])


def differences_table(summary: Summary, search: str, every: bool = False) -> Table:
    """Differences with their significance tests: from cross-entropy, or between all pairs."""
    rows = []
    for pair in summary["scores"][search]["pairs"] if every else _against_cross_entropy(summary, search):
        sign = -1 if pair["one"] == CROSS_ENTROPY else 1
        names = [summary["titles"][pair[side]] for side in ("one", "other")[::sign]]
        rows.append([" - ".join(names), *_test_cells(pair, sign)])
    header = ["", "difference", "p (seeds)", "smallest detectable difference", "p (sentences)"]
    return Table(header, rows, f"Search: {search}.")


def signatures_table(summary: Summary) -> Table:
    """The signatures of sacreBLEU."""
    return Table(["score", "sacreBLEU signature"], [[one, summary[f"{one.lower()}_signature"]] for one in SCORES], "")


def choices_table(summary: Summary) -> Table:
    """The chosen epoch and learning rate of each objective, and the training time."""
    rows = []
    for label, title in summary["titles"].items():
        runs = summary["runs"][label]
        rates = "" if label == BASE else _each(f"{run['learning_rate']:.1e}" for run in runs)
        seconds = [run["seconds_per_epoch"] for run in runs if run["seconds_per_epoch"] is not None]
        time = f"{median(seconds):.1f}" if seconds else ""
        rows.append([title, time, _each(str(run["best_epoch"]) for run in runs), rates])
    caption = (
        "s/epoch: median training time per epoch in seconds. Epoch and learning rate were chosen by validation BLEU; "
        "if the seeds differ, all values are listed. Epoch 0 is the end of the first phase."
    )
    return Table(["", "s/epoch", "epoch", "learning rate"], rows, caption)


def lengths_table(summary: Summary) -> Table:
    """chrF, length ratio and brevity penalty."""
    header, rows = [""], []
    for search in summary["searches"]:
        header += [f"chrF, {search}", "length ratio", "BP"]
    for label, title in summary["titles"].items():
        row = [title]
        for search in summary["searches"]:
            found = [run["test"][search] for run in summary["runs"][label]]
            row.append(f"{100 * mean(one['chrf'] for one in found):.2f}")
            row += [f"{mean(one[name] for one in found):.3f}" for name in ("length_ratio", "brevity_penalty")]
        rows.append(row)
    return Table(header, rows, "Means over seeds. Length ratio: tokens per reference token. BP: brevity penalty.")


def tries_table(summary: Summary) -> Table:
    """Validation BLEU of every learning rate that was tried."""
    rows = []
    for label in objectives(summary):
        tried: dict[float, list[float]] = {}
        for run in summary["runs"][label]:
            for one in run["tries"]:
                tried.setdefault(one["learning_rate"], []).append(one["best_bleu"])
        scores = [f"{rate:.1e}: {100 * mean(found):.2f}" for rate, found in sorted(tried.items())]
        rows.append([summary["titles"][label], *scores])
    most = max(map(len, rows))
    rows = [[*row, *[""] * (most - len(row))] for row in rows]
    header = ["", *(f"try {number}" for number in range(1, most))]
    return Table(header, rows, "Learning rate: best validation BLEU, mean over the seeds that tried it.")


def base_table(summary: Summary) -> Table:
    """The first phase of each seed."""
    rows = []
    for run in summary["runs"][BASE]:
        numbers = [str(run[name]) for name in ("seed", "epochs", "best_epoch")]
        rows.append([*numbers, f"{100 * run['best_bleu']:.2f}", "yes" if run["converged"] else "no"])
    caption = (
        "The first phase, cross-entropy. Converged: stopped early, or gained less than 0.2 validation BLEU in the last "
        "three epochs."
    )
    return Table(["seed", "epochs", "best epoch", "validation BLEU", "converged"], rows, caption)


def score(summary: Summary, search: str, label: str) -> str:
    """Mean and standard deviation over seeds, times 100; strong if significantly the best."""
    found = summary["scores"][search]["systems"][label]
    spread = "" if found["std"] is None else f" ± {100 * found['std']:.2f}"
    text = f"{100 * found['mean']:.2f}{spread}"
    return Strong(text) if summary["scores"][search]["best"] == label else text


def description(summary: Summary) -> str:
    """The caption of the scores."""
    seeds = len(summary["seeds"])
    spread = "one seed." if seeds == 1 else f"mean ± standard deviation of {seeds} seeds."
    return f"Test BLEU on {summary['corpus']} ({summary['test_sentences']} sentences), {spread}"


def bold_rule(summary: Summary) -> str:
    """The meaning of bold, or why nothing is bold."""
    if len(summary["seeds"]) == 1:
        return "With one seed no test over seeds is possible, so nothing is bold."
    if "ce" not in summary["titles"]:
        return "Without CE there is nothing to compare with, so nothing is bold."
    any_bold = any(summary["scores"][search]["best"] for search in summary["searches"])
    rule = "better than CE and than the second best in a paired t-test over seeds, p < 0.05"
    return f"Bold: {rule}." if any_bold else f"Nothing is bold: no objective is {rule}."


def _against_cross_entropy(summary: Summary, search: str) -> list[dict[str, Any]]:
    """The pairs of cross-entropy and another objective."""
    pairs = summary["scores"][search]["pairs"]
    return [pair for pair in pairs if CROSS_ENTROPY in (sides := (pair["one"], pair["other"])) and BASE not in sides]


def _test_cells(pair: Mapping[str, Any], sign: int) -> list[str]:
    if pair["equal"]:
        return ["0.00", "equal", "", "equal"]
    smallest = "" if pair["smallest"] is None else f"{100 * pair['smallest']:.2f}"
    difference = f"{100 * sign * pair['difference']:+.2f}"
    return [difference, _probability(pair["p"]), smallest, _probability(pair["bootstrap_p"])]


def _probability(p: float | None) -> str:
    if p is None:
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _each(values: Iterable[str]) -> str:
    """The values of the seeds; one if all are equal."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else ", ".join(found)
