"""What people read of the time to a given BLEU: table and summary."""

import itertools

SHARES = {"cross-entropy": 0.0, "expected BLEU": 1.0, "half of each": 0.5}
"""Methods without samples, by the share of BLEU in their loss."""


def time_to(scores: list[dict], bleu: float, clock: str) -> float | None:
    """When a score was first reached, linearly between two scores."""
    before = scores[0]
    for score in scores:
        if score["bleu"] >= bleu:
            if score["bleu"] == before["bleu"]:
                return score[clock]
            share = (bleu - before["bleu"]) / (score["bleu"] - before["bleu"])
            return before[clock] + share * (score[clock] - before[clock])
        before = score
    return None


def table(result: dict) -> str:
    """Rows of methods and learning rates, columns of BLEU to reach."""
    start, gains = result["start"], result["settings"]["gains"]
    head = [
        "method",
        "learning rate",
        "steps",
        "best BLEU",
        "last BLEU",
        *(f"BLEU {start + gain:.1f}" for gain in gains),
    ]
    lines = [head, ["---"] * len(head)]
    for run in result["runs"]:
        reached = [time_to(run["scores"], start + gain, "processor") for gain in gains]
        best, last = max(score["bleu"] for score in run["scores"]), run["scores"][-1]
        lines.append(
            [run["method"], f"{run['rate']:g}", str(last["step"]), f"{best:.1f}", f"{last['bleu']:.1f}"]
            + ["not reached" if seconds is None else f"{seconds:.0f} s" for seconds in reached]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(result: dict) -> str:
    """The table with what must be known to read it."""
    chosen = result["settings"]
    batch, samples = chosen["batch"], chosen["samples"]
    paragraphs = [
        f"A causal model of {result['parameters']:,} parameters on `tatoeba_tiny`, German to English, was pre-trained "
        f"by {chosen['pretrain']} steps of cross-entropy to BLEU {result['start']:.1f}, then trained on by each method "
        f"for {chosen['budget']:g} s of processor time, one thread. The last columns are the processor time of "
        f"training until greedy output on {chosen['sentences']} held-out sentences first reached that score; scoring "
        "is left out.",
        table(result),
        f"A step of cross-entropy or expected BLEU holds {batch} sentences; one of REINFORCE or GRPO holds {batch} "
        f"sampled sequences, {samples} of each of {batch // samples} sentences, and takes longer. " + limits(result),
        f"`{result['signature']}`, seed {chosen['seed']}. `results/grpo/results.json` has every score with processor "
        "and wall-clock time, settings and versions; `benchmarks/grpo.py` makes it.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def limits(result: dict) -> str:
    """What one seed and these learning rates leave open."""
    steady = [run["scores"][1:] for run in result["runs"] if run["method"] in SHARES]
    swings = [abs(a["bleu"] - b["bleu"]) for scores in steady for a, b in itertools.pairwise(scores)]
    text = "It is one seed"
    if swings:
        text += (
            f", and without samples the score of one run moves by up to {max(swings):.1f} from one moment to the next: "
            "the table does not settle the order of methods that are closer than a few points, such as cross-entropy "
            "and expected BLEU"
        )
    lowest, at_lowest = min(result["settings"]["rates"]), []
    for method in dict.fromkeys(run["method"] for run in result["runs"]):
        last = {run["rate"]: run["scores"][-1]["bleu"] for run in result["runs"] if run["method"] == method}
        if len(last) > 1 and max(last, key=last.__getitem__) == lowest:
            at_lowest.append(method)
    if at_lowest:
        text += f". A learning rate below those tried may suit better where the lowest was best: {', '.join(at_lowest)}"
    return text + "."
