"""Both toy studies: from settings to measurements and a summary in the run directory."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.experiments.toy.curves import Measurement, learning_curve, pearson
from bleugrad.lab.experiments.toy.repeats import Case, random_cases, smallest_example
from bleugrad.lab.runs.directory import Run
from bleugrad.lab.runs.progress import Progress

SURROGATES = ("bound", "exact", "argmax_bleu")


def run_study(config: ToyConfig, run: Run) -> None:
    """Record every measurement and save the results."""
    run.summarise({"curves": _follow_all(config, run), "repeats": _compare_repeats(config, run)})


def _follow_all(config: ToyConfig, run: Run) -> list[dict[str, Any]]:
    """Run every ascent, record the measurements, and return the summaries."""
    summaries = []
    runs = [(order, seed) for order in config.orders for seed in range(config.seed, config.seed + config.seeds)]
    with Progress(len(runs) * config.steps, "learning curves") as progress:
        for number, (order, seed) in enumerate(runs):
            curve: list[Measurement] = []
            for point in learning_curve(config, order, seed):
                curve.append(point)
                run.record(kind="curve", order=order, seed=seed, **asdict(point))
                progress.advance(number * config.steps + point.step - progress.done, expected_bleu=point.sampled)
            summaries.append({"order": order, "seed": seed, **summarise_curve(curve)})
    return summaries


def summarise_curve(curve: Sequence[Measurement]) -> dict[str, Any]:
    """Correlation of each surrogate with sampled E[BLEU], its largest gap, and the last measurement."""
    truth = [point.sampled for point in curve]
    summary: dict[str, Any] = {"final": asdict(curve[-1])}
    for name in SURROGATES:
        values = [getattr(point, name) for point in curve]
        gap = max((value - true for value, true in zip(values, truth, strict=True)), key=abs)
        summary[name] = {"pearson": pearson(values, truth), "largest_gap": gap}
    return summary


def _compare_repeats(config: ToyConfig, run: Run) -> dict[str, Any] | None:
    """Record the cases and return their summary; None if the study is off."""
    if config.repeats.cases == 0:
        return None
    for point in smallest_example():
        run.record(kind="example", **asdict(point))
    cases: list[Case] = []
    with Progress(2 * config.repeats.cases, "repeated words", unit="case") as progress:
        for case in random_cases(config.repeats, config.seed):
            cases.append(case)
            run.record(kind="case", **asdict(case))
            progress.advance()
    kinds = {"distinct": False, "repeated": True}
    return {name: summarise_cases([case for case in cases if case.repeated == kind]) for name, kind in kinds.items()}


def summarise_cases(cases: Sequence[Case], tolerance: float = 1e-9) -> dict[str, Any]:
    """Errors of the bound, and of BLEU from bound or exact matches; a relative ``tolerance`` allows for rounding."""
    excess = [max(_relative(case.bound_matches, case.true_matches)) for case in cases]
    error = [max(map(abs, _relative(case.exact_matches, case.true_matches))) for case in cases]
    return {
        "cases": len(cases),
        "bound_exceeds": sum(value > tolerance for value in excess),
        "largest_excess": max(excess),
        "exact_error": max(error),
        "bound_bleu": _gap_summary([case.bound_bleu - case.true_bleu for case in cases]),
        "exact_bleu": _gap_summary([case.exact_bleu - case.true_bleu for case in cases]),
    }


def _relative(found: Sequence[float], true: Sequence[float]) -> list[float]:
    return [value / truth - 1 if truth > 0 else value for value, truth in zip(found, true, strict=True)]


def _gap_summary(gaps: Sequence[float]) -> dict[str, float]:
    return {"largest_gap": max(gaps, key=abs), "mean_absolute_gap": sum(map(abs, gaps)) / len(gaps)}
