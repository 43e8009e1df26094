"""Report on subword and word BLEU: statistics over checkpoints and sentences, table and figure."""

import itertools
from functools import partial
from pathlib import Path

import numpy as np


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; ties share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def pearson(a: list[float], b: list[float]) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def spearman(a: list[float], b: list[float]) -> float:
    return pearson(ranks(np.asarray(a)), ranks(np.asarray(b)))


def agreement(a: list[float], b: list[float]) -> tuple[float, float]:
    """Kendall's tau-a, and the fraction of pairs in opposite order."""
    left, right = np.asarray(a), np.asarray(b)
    upper = np.triu_indices(len(left), 1)
    signs = (np.sign(left[:, None] - left) * np.sign(right[:, None] - right))[upper]
    return float(signs.mean()), float((signs < 0).mean())


def reversed_pairs(cases: list[dict], token: str, word: str) -> dict[str, float]:
    """How often token BLEU ranks two checkpoints on one sentence in the opposite order of word BLEU."""
    result = {}
    for kind, same in (("same vocabulary", True), ("different vocabularies", False)):
        opposite = decided = 0
        for one, other in itertools.combinations(cases, 2):
            if (one["vocabulary"] == other["vocabulary"]) is same:
                differences = [
                    np.round(np.subtract(one["sentences"][name], other["sentences"][name]), 6) for name in (token, word)
                ]
                product = np.sign(differences[0]) * np.sign(differences[1])
                opposite += int((product < 0).sum())
                decided += int((differences[1] != 0).sum())
        result[kind] = opposite / max(decided, 1)
    return result


def summarise(cases: list[dict]) -> dict:
    for case in cases:
        own = case["sentences"]
        case["summary"] = {
            measure: {
                "gap": float(np.mean(np.abs(np.subtract(own[measure], own["sampled"])))),
                "bias": float(np.mean(np.subtract(own[measure], own["sampled"]))),
                **{f"pearson_{truth}": pearson(own[measure], own[truth]) for truth in ("sampled", "greedy_word")},
                **{f"spearman_{truth}": spearman(own[measure], own[truth]) for truth in ("sampled", "greedy_word")},
            }
            for measure in ("token", "word")
        }
    greedy_word = [case["greedy_word"] for case in cases]
    ranking = {}
    for name in ("expected_token", "expected_word", "greedy_token"):
        tau, opposite = agreement([case[name] for case in cases], greedy_word)
        ranking[name] = {"tau": tau, "opposite": opposite, "pearson": pearson([c[name] for c in cases], greedy_word)}
    return {
        "ranking_of_checkpoints": ranking,
        "opposite_order_greedy": reversed_pairs(cases, "greedy_token", "greedy_word"),
        "opposite_order_expected": reversed_pairs(cases, "token", "sampled"),
        "opposite_order_expected_in_words": reversed_pairs(cases, "word", "sampled"),
    }


def table(results: dict) -> str:
    lines = [
        "Corpus BLEU of held-out sentences (x 100, no smoothing); greedy word BLEU is computed by sacreBLEU",
        f"  {'BPE':>5}{'tokens/word':>13}{'step':>7}{'expected, tokens':>18}{'expected, words':>17}"
        f"{'greedy, tokens':>16}{'greedy, words':>15}",
    ]
    for case in results["cases"]:
        numbers = [100 * case[name] for name in ("expected_token", "expected_word", "greedy_token", "greedy_word")]
        lines.append(
            f"  {case['vocabulary']:5}{case['tokens_per_word']:13.2f}{case['step']:7}"
            f"{numbers[0]:18.2f}{numbers[1]:17.2f}{numbers[2]:16.2f}{numbers[3]:15.2f}"
        )
    lines += [
        "",
        "Sentence BLEU (smoothing 1): error against true expected word BLEU (sampled), and correlation over sentences",
        f"  {'BPE':>5}{'step':>7}  {'units':7}{'bias':>9}{'mean gap':>10}{'r, sampled':>12}{'rho, sampled':>14}"
        f"{'r, greedy':>11}{'rho, greedy':>13}",
    ]
    for case in results["cases"]:
        for name, row in case["summary"].items():
            lines.append(
                f"  {case['vocabulary']:5}{case['step']:7}  {name + 's':7}{row['bias']:+9.4f}{row['gap']:10.4f}"
                f"{row['pearson_sampled']:12.4f}{row['spearman_sampled']:14.4f}"
                f"{row['pearson_greedy_word']:11.4f}{row['spearman_greedy_word']:13.4f}"
            )
    summary = results["summary"]
    count = len(results["cases"])
    lines += [
        "",
        f"Ranking of all {count} checkpoints against greedy word BLEU: Kendall's tau, pairs in opposite order",
    ]
    for name, row in summary["ranking_of_checkpoints"].items():
        lines.append(f"  {name.replace('_', ', '):18}{row['tau']:7.3f}{100 * row['opposite']:8.1f} %")
    lines += ["", "Two checkpoints on one sentence: how often the two scores rank them in opposite order"]
    for label, key in (
        ("greedy outputs: token BLEU, word BLEU", "opposite_order_greedy"),
        ("expected: token BLEU, true word BLEU", "opposite_order_expected"),
        ("expected: word BLEU, true word BLEU", "opposite_order_expected_in_words"),
    ):
        shares = ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in summary[key].items())
        lines.append(f"  {label:40}{shares}")
    other = ", ".join(f"{100 * case['other_segmentation']:.1f}" for case in results["cases"])
    lines += [
        "",
        f"Greedy outputs that differ from the tokenizer's segmentation, % per row: {other}",
        f"sacreBLEU {results['cases'][0]['signature']}",
    ]
    return "\n".join(lines) + "\n"


def draw_checkpoints(results: dict, figure, palette) -> None:
    upper, lower = figure.subplots(2, 1)
    styles = {500: ("vermillion", "o"), 2000: ("blue", "s"), 8000: ("green", "^")}
    for size in results["settings"]["vocabularies"]:
        cases = [case for case in results["cases"] if case["vocabulary"] == size]
        color, marker = styles.get(size, ("ink", "D"))
        for name, line in (("token", ":"), ("word", "-")):
            upper.plot(
                [100 * case[f"expected_{name}"] for case in cases],
                [100 * case["greedy_word"] for case in cases],
                line,
                marker=marker,
                color=getattr(palette, color),
                markerfacecolor=palette.paper if name == "token" else getattr(palette, color),
                lw=1.3,
                ms=5,
                label=f"{name}s, BPE {size}",
            )
    upper.set(xlabel="expected corpus BLEU", ylabel="greedy word BLEU")
    upper.legend(ncols=1)
    last = [case for case in results["cases"] if case["vocabulary"] == results["settings"]["vocabularies"][0]][-1]
    own = last["sentences"]
    for name, color in (("token", "vermillion"), ("word", "blue")):
        lower.plot(own["sampled"], own[name], ".", color=getattr(palette, color), ms=3, label=f"in {name}s")
    lower.axline((0, 0), slope=1, color=palette.ink, lw=0.8)
    lower.set(xlabel=f"true expected word BLEU, sampled (BPE {last['vocabulary']})", ylabel="expected sentence BLEU")
    lower.legend()


def draw(results: dict, folder: Path) -> None:
    from bleugrad.lab.reports.style import save_figure

    save_figure(folder, "subwords", 7.5, partial(draw_checkpoints, results))
