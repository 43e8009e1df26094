"""Report of the estimator measurements: table, summary and figures."""

from functools import partial
from pathlib import Path

YARDSTICK = "REINFORCE, leave-one-out"
UNSAMPLED = ("exact surrogate", "bound")
LARGEST_ERROR = 0.1
"""The table omits cosines with a larger standard error."""


def reduction(yardstick: float, variance: float, digits: int = 3) -> str:
    return f"{yardstick / variance:.{digits}g}" if variance > 0 else "-"


def level(probability: float | None) -> str:
    return "untrained" if probability is None else f"{probability:g}"


def table(results: dict) -> str:
    """The full table as text."""
    lines = []
    for case in results["cases"]:
        squared, error = case["truth_squared_length"], case["truth_squared_length_error"]
        lines.append(
            f"T = {case['T']}, V = {case['V']}, reference token {level(case['probability'])}, "
            f"E[BLEU] = {case['expected_bleu']:.4f}, |true gradient|^2 = {squared:.2e} ± {error:.1e}"
        )
        lines.append(f"  {'':28}{'ms':>8}{'variance':>11}{'':>10}{'variance':>11}{'':>10}{'cosine':>13}{'length':>18}")
        lines.append(f"  {'':28}{'per call':>8}{'per sample':>11}{'reduction':>10}{'per ms':>11}{'reduction':>10}")
        yardstick = case["rows"][YARDSTICK]
        for name, row in case["rows"].items():
            line = f"  {name:28}{row['milliseconds']:8.2f}"
            for key in ("per_sample", "per_millisecond"):
                if key in row:
                    line += f"{row[key]:11.3g}{reduction(yardstick[key], row[key]):>10}"
                else:
                    line += " " * 21
            if "cosine" in row:
                if row["cosine_error"] < LARGEST_ERROR:
                    line += f"{row['cosine']:10.4f} ± {row['cosine_error']:.4f}"
                    line += f"{row['norm_ratio']:10.3f} ± {row['norm_ratio_error']:.3f}"
                else:
                    line += f"{'too noisy':>30}"
            lines.append(line.rstrip())
        lines.append("")
    lines.append(
        "Variance: sum over coordinates for a batch, divided by |true gradient|^2, times samples or milliseconds."
    )
    lines.append(
        f"Reduction: variance of {YARDSTICK} divided by this variance. Cosine, length: relative to the true gradient."
    )
    lines.append("")
    large = results["large_vocabulary_milliseconds"]
    batch, steps, vocabulary = results["settings"]["large"]
    lines.append(f"B = {batch}, T = {steps}, V = {vocabulary}: forward and backward, ms, and relative to cross-entropy")
    for name, milliseconds in large.items():
        lines.append(f"  {name:28}{milliseconds:8.1f}{milliseconds / large['cross-entropy']:8.2f}")
    lines.append("")
    rates = results["reward_sentences_per_second"]
    own = rates["bleugrad.bleu"]
    for name, rate in rates.items():
        lines.append(f"{name:42}{rate:12,.0f} sentences/s" + (f"   1/{own / rate:.1f}" if rate != own else ""))
    return "\n".join(lines) + "\n"


def summary(results: dict) -> str:
    """The table of the documentation page: one row per case."""
    lines = [
        "| T | V | p(reference token) | leave-one-out, variance | greedy, variance | unbiased, variance |"
        " reduction per sample | reduction per ms | exact: cosine, length | bound: cosine, length |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in results["cases"]:
        rows = case["rows"]
        loo, greedy, one, eight = (
            rows[name] for name in (YARDSTICK, "REINFORCE, greedy", "unbiased, 1 sample", "unbiased, 8 samples")
        )
        cells = [
            str(case["T"]),
            str(case["V"]),
            level(case["probability"]),
            f"{loo['per_sample']:.2g}",
            f"{greedy['per_sample']:.2g}",
            f"{one['per_sample']:.2g}",
            reduction(loo["per_sample"], one["per_sample"], 2),
            reduction(loo["per_millisecond"], eight["per_millisecond"], 2),
            *(f"{rows[name]['cosine']:.4f}, {rows[name]['norm_ratio']:.2f}" for name in UNSAMPLED),
        ]
        lines.append("| " + " | ".join(plain(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def plain(number: str) -> str:
    """Writes 1.2e+03 as 1,200."""
    return f"{float(number):,.0f}" if "e+" in number else number


STYLES = {
    "REINFORCE, no baseline": ("purple", "v", ":"),
    "REINFORCE, greedy": ("orange", "s", "--"),
    "REINFORCE, leave-one-out": ("vermillion", "o", "-"),
    "minimum risk, alpha 0.005": ("ink", "x", ":"),
    "minimum risk, alpha 1": ("ink", "+", "--"),
    "unbiased, 1 sample": ("blue", "D", "-"),
    "unbiased, 8 samples": ("green", "^", "-"),
}
BIASED = ("minimum risk, alpha 0.005", "minimum risk, alpha 1")
CASE_STYLES = (("blue", "o", "-"), ("green", "s", "--"), ("orange", "D", "-"), ("vermillion", "^", "--"))


def draw(results: dict, folder: Path) -> None:
    from bleugrad.lab.reports.style import save_figure

    save_figure(folder, "variance", 6.4, partial(draw_variance, results, "per_sample", "variance per sample"))
    save_figure(
        folder, "variance-per-millisecond", 6.4, partial(draw_variance, results, "per_millisecond", "variance per ms")
    )
    save_figure(folder, "bias", 6.2, partial(draw_bias, results))


def by_shape(results: dict) -> dict[tuple[int, int], list[dict]]:
    shapes: dict[tuple[int, int], list[dict]] = {}
    for case in results["cases"]:
        shapes.setdefault((case["T"], case["V"]), []).append(case)
    return shapes


def draw_variance(results: dict, key: str, label: str, figure, palette) -> None:
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    unbiased = [case["rows"][name][key] for case in results["cases"] for name in STYLES if name not in BIASED]
    limits = (min(unbiased) / 3, max(unbiased) * 3)  # a vanishing gradient has a small variance too
    for axis, ((steps, vocabulary), cases) in zip(axes.flat, by_shape(results).items(), strict=True):
        levels = [level(case["probability"]) for case in cases]
        for name, (color, marker, line) in STYLES.items():
            values = [case["rows"][name][key] for case in cases]
            axis.plot(
                range(len(levels)),
                values,
                line,
                marker=marker,
                color=getattr(palette, color),
                ms=4,
                lw=1.3,
                label=name + " (biased)" * (name in BIASED),
            )
        axis.set_yscale("log")
        axis.set_ylim(*limits)
        axis.set_title(f"T = {steps}, V = {vocabulary}", fontsize=10)
        axis.set_xticks(range(len(levels)), levels, rotation=45, ha="right")
    for axis in axes[1]:
        axis.set_xlabel("p(reference token)", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"{label},\nrelative to |true gradient|²", fontsize=9)
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=8)


def draw_bias(results: dict, figure, palette) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True)
    for (color, marker, _), ((steps, vocabulary), cases) in zip(CASE_STYLES, by_shape(results).items(), strict=True):
        levels = [level(case["probability"]) for case in cases]
        for name, line in zip(UNSAMPLED, ("-", ":"), strict=True):
            for axis, key in ((upper, "cosine"), (lower, "norm_ratio")):
                axis.errorbar(
                    range(len(levels)),
                    [case["rows"][name][key] for case in cases],
                    yerr=[case["rows"][name][f"{key}_error"] for case in cases],
                    linestyle=line,
                    marker=marker,
                    color=getattr(palette, color),
                    ms=4,
                    lw=1.3,
                    capsize=2,
                    label=f"{name.split()[0]}, T = {steps}, V = {vocabulary}",
                )
        lower.set_xticks(range(len(levels)), levels)
    upper.set_ylabel("cosine to the true gradient")
    lower.set_ylabel("length / length of true gradient")
    lower.set_xlabel("probability of a reference token")
    handles, names = upper.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=8)
