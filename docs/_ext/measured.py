"""Numbers and tables of the documentation, read from results/: none of them is typed on a page.

A number is a function without arguments that returns text, under the name a page uses. Nothing here needs Sphinx, so
that tests and the README's table can ask for the same text.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"

NUMBERS: dict[str, Callable[[], str]] = {}
TABLES: dict[str, Callable[[], str]] = {}

Row = dict[str, Any]


@cache
def read(path: str) -> Any:
    """A JSON file of results/."""
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def number(function: Callable[[], str]) -> Callable[[], str]:
    """Enter a number under its function's name, hyphens for underscores."""
    NUMBERS[function.__name__.replace("_", "-")] = function
    return function


def table(function: Callable[[], str]) -> Callable[[], str]:
    """Enter a table, as Markdown."""
    TABLES[function.__name__.replace("_", "-")] = function
    return function


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of cells."""
    lines = [list(header)]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def digits(value: float, number: int = 2) -> str:
    """So many significant digits, thousands with commas: 5178 as 5,200."""
    rounded = float(f"{value:.{number}g}")
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.{number}g}"


def span(values: Iterable[float], shown: Callable[[float], str] = digits) -> str:
    """Least to greatest."""
    found = sorted(values)
    least, greatest = shown(found[0]), shown(found[-1])
    return least if least == greatest else f"{least} to {greatest}"


def percent(share: float, places: int = 1) -> str:
    """A share of 1 in hundredths."""
    return f"{100 * share:.{places}f} %"


# The toy study.


def curves() -> list[Row]:
    return list(read("toy/summary.json")["curves"])


@number
def toy_least_correlation() -> str:
    """Of the bound with sampled E[BLEU], over the steps of a run, rounded down."""
    return f"{int(1000 * min(curve['bound']['pearson'] for curve in curves())) / 1000:.3f}"


@number
def toy_seeds() -> str:
    return str(len({curve["seed"] for curve in curves()}))


@number
def toy_bound_lag() -> str:
    return f"{-min(curve['bound']['largest_gap'] for curve in curves() if curve['order'] == 1):.2f}"


@number
def toy_repeated_exceeds() -> str:
    found = read("toy/summary.json")["repeats"]["repeated"]
    return f"{found['bound_exceeds']} of {found['cases']}"


@number
def toy_largest_excess() -> str:
    return percent(read("toy/summary.json")["repeats"]["repeated"]["largest_excess"])


@number
def toy_seconds() -> str:
    return f"{read('toy/run.json')['seconds']:.0f} s"


def _toy_table(make: Any) -> str:
    from bleugrad.reports.page import shown
    from bleugrad.runs.directory import read_run

    header, rows, _ = make(read_run(RESULTS / "toy"))
    return markdown(header, [map(shown, row) for row in rows])


@table
def toy_curves() -> str:
    from bleugrad.reports.toy_tables import curve_table

    return _toy_table(curve_table)


@table
def toy_repeats() -> str:
    from bleugrad.reports.toy_tables import repeat_table

    return _toy_table(repeat_table)


# Variance, bias and cost of the estimators.

LEAVE_ONE_OUT, GREEDY, NO_BASELINE = "REINFORCE, leave-one-out", "REINFORCE, greedy", "REINFORCE, no baseline"
ONE, EIGHT, EXACT, BOUND = "unbiased, 1 sample", "unbiased, 8 samples", "exact surrogate", "bound"
SHARP, FLAT = "minimum risk, alpha 1", "minimum risk, alpha 0.005"


def cases(least_vocabulary: int = 0) -> list[Row]:
    return [case for case in read("estimators/results.json")["cases"] if case["V"] >= least_vocabulary]


def trained() -> list[Row]:
    return [case for case in cases() if case["probability"] is not None]


def ratios(above: str, below: str, what: str, of: list[Row]) -> list[float]:
    return [case["rows"][above][what] / case["rows"][below][what] for case in of]


def milliseconds(name: str) -> float:
    return float(read("estimators/results.json")["large_vocabulary_milliseconds"][name])


def cost(name: str) -> str:
    """Time of forward and backward pass at a large vocabulary, in that of cross-entropy."""
    return f"{milliseconds(name) / milliseconds('cross-entropy'):.2f}"


@number
def unbiased_variance_gain() -> str:
    return span(ratios(LEAVE_ONE_OUT, ONE, "per_sample", cases()))


@number
def unbiased_time_gain_large() -> str:
    return span(ratios(LEAVE_ONE_OUT, EIGHT, "per_millisecond", cases(10000)))


@number
def unbiased_cost() -> str:
    return cost(EIGHT)


@number
def estimators_large_shape() -> str:
    batch, steps, vocabulary = read("estimators/results.json")["settings"]["large"]
    return f"B = {batch}, T = {steps}, V = {vocabulary}"


@number
def greedy_variance_excess() -> str:
    return digits(max(ratios(GREEDY, LEAVE_ONE_OUT, "per_sample", trained())), 1)


@number
def exact_least_cosine() -> str:
    return f"{min(case['rows'][EXACT]['cosine'] for case in cases()):.4f}"


@number
def bound_least_cosine() -> str:
    return f"{min(case['rows'][BOUND]['cosine'] for case in cases()):.4f}"


def _length_errors(of: list[Row]) -> list[float]:
    return [abs(case["rows"][name]["norm_ratio"] - 1) for case in of for name in (EXACT, BOUND)]


@number
def surrogate_length_error_trained() -> str:
    return percent(max(_length_errors(trained())), 0)


@number
def surrogate_length_error_untrained() -> str:
    return percent(max(_length_errors([case for case in cases(10000) if case["probability"] is None])), 0)


@number
def sharp_risk_length_sure() -> str:
    surest = max(case["probability"] for case in trained())
    return span(
        (case["rows"][SHARP]["norm_ratio"] for case in trained() if case["probability"] == surest),
        lambda value: digits(value, 1),
    )


@number
def truth_gradients() -> str:
    settings = read("estimators/results.json")["settings"]
    return f"{settings['truth_blocks'] * settings['truth_calls'] * settings['truth_samples']:,}"


@number
def truth_error() -> str:
    return percent(max(case["truth_squared_length_error"] / case["truth_squared_length"] for case in cases()), 1)


def _rewards(name: str) -> str:
    speeds = read("estimators/results.json")["reward_sentences_per_second"]
    return f"{speeds['bleugrad.bleu'] / speeds[name]:.0f}"


@number
def reward_speed() -> str:
    return _rewards("sacrebleu.sentence_bleu")


@number
def reward_speed_untokenized() -> str:
    return _rewards("sacrebleu.sentence_bleu, tokenize='none'")


# Cost of the loss.


def loss_times(allocator: str = "default", family: str = "plain") -> list[Row]:
    """Of processes with the C library's own settings, or told to be ``keeping`` their memory."""
    rows = read("loss/loss.json")["times"]
    return [row for row in rows if row["family"] == family and row["allocator"] == allocator]


def _cost(name: str, allocator: str = "default") -> str:
    times = [row["milliseconds"] for row in loss_times(allocator)]
    return span([found[name] / found["cross_entropy"] for found in times], lambda value: f"{value:.2f}")


@number
def loss_cost() -> str:
    return _cost("exact")


@number
def loss_cost_kept() -> str:
    return _cost("exact", "keeping")


@number
def bound_cost() -> str:
    return _cost("bound")


@number
def words_cost() -> str:
    return _cost("exact, words")


def _largest_fused() -> Row:
    rows = [row for row in read("loss/loss.json")["memory"] if "fused" in row["megabytes"]]
    return max(rows, key=lambda row: row["shape"][-1])


@number
def fused_shape() -> str:
    return " x ".join(map(str, _largest_fused()["shape"]))


@number
def fused_memory() -> str:
    return f"{_largest_fused()['megabytes']['fused']:.0f} MB"


@number
def unfused_memory() -> str:
    """Of the plain loss with the projection before it, logits included."""
    row = _largest_fused()
    return f"{row['megabytes']['plain']:.0f} MB"


# Words and subwords.


def checkpoints(last: bool = True) -> list[Row]:
    found = read("subwords/results.json")["cases"]
    end = max(case["step"] for case in found)
    return [case for case in found if case["step"] == end or not last]


def _opposite(units: str, which: str) -> str:
    name = {"tokens": "opposite_order_expected", "words": "opposite_order_expected_in_words"}[units]
    return percent(
        read("subwords/results.json")["summary"][name][f"{which} vocabular{'y' if which == 'same' else 'ies'}"]
    )


@number
def tokens_opposite_across() -> str:
    return _opposite("tokens", "different")


@number
def words_opposite_across() -> str:
    return _opposite("words", "different")


@number
def tokens_opposite_within() -> str:
    return _opposite("tokens", "same")


@number
def words_opposite_within() -> str:
    return _opposite("words", "same")


def _pairs() -> int:
    count = len(checkpoints(last=False))
    return count * (count - 1) // 2


def _opposite_pairs(units: str) -> str:
    found = read("subwords/results.json")["summary"]["ranking_of_checkpoints"][f"expected_{units}"]
    return str(round(found["opposite"] * _pairs()))


@number
def checkpoint_pairs() -> str:
    return str(_pairs())


@number
def tokens_opposite_pairs() -> str:
    return _opposite_pairs("token")


@number
def words_opposite_pairs() -> str:
    return _opposite_pairs("word")


def _each(units: str, what: str, places: int) -> str:
    return ", ".join(f"{case['summary'][units][what]:.{places}f}" for case in checkpoints())


@number
def tokens_gaps() -> str:
    return _each("token", "gap", 3)


@number
def words_gaps() -> str:
    return _each("word", "gap", 3)


@number
def tokens_greedy_correlations() -> str:
    return _each("token", "spearman_greedy_word", 3)


@number
def words_greedy_correlations() -> str:
    return _each("word", "spearman_greedy_word", 3)


@number
def other_segmentations() -> str:
    return span([case["other_segmentation"] for case in checkpoints()], percent)


@number
def other_segmentations_most() -> str:
    return percent(max(case["other_segmentation"] for case in checkpoints(last=False)))


@number
def subword_vocabularies() -> str:
    return ", ".join(str(case["vocabulary"]) for case in checkpoints())


@number
def subword_tokens_per_word() -> str:
    return ", ".join(f"{case['tokens_per_word']:.2f}" for case in checkpoints())


@number
def subword_sentences() -> str:
    return str(read("subwords/results.json")["settings"]["sentences"])


@number
def subword_samples() -> str:
    return str(read("subwords/results.json")["settings"]["samples"])


@table
def subwords() -> str:
    header = ["BPE", "tokens a word", "expected, tokens", "expected, words", "greedy, words"]
    header += ["correlation with true expected word BLEU: tokens", "words"]
    rows = [
        [
            case["vocabulary"],
            f"{case['tokens_per_word']:.2f}",
            *(f"{100 * case[name]:.1f}" for name in ("expected_token", "expected_word", "greedy_word")),
            *(f"{case['summary'][units]['spearman_sampled']:.3f}" for units in ("token", "word")),
        ]
        for case in checkpoints()
    ]
    return markdown(header, rows)
