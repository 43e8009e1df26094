"""A summary of the paper's experiment as the study saves it, with numbers made up."""

import copy

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0"


def scores(bleu):
    return {
        "bleu": bleu,
        "chrf": bleu + 0.2,
        "brevity_penalty": 0.98,
        "length_ratio": 0.981,
        "bleu_signature": SIGNATURE,
        "chrf_signature": "chrf",
    }


def run(seed, history, test, **more):
    best = max(history, key=lambda point: point["bleu"])
    return {
        "seed": seed,
        "directory": f"seed-{seed}/x",
        "best_bleu": best["bleu"],
        "best_epoch": best["epoch"],
        "epochs": history[-1]["epoch"],
        "history": history,
        "test": {"greedy": scores(test), "beam 5": scores(test + 0.01)},
        "seconds_per_epoch": 12.5,
        **more,
    }


def course(start, values):
    return [{"epoch": start + place, "bleu": value} for place, value in enumerate(values)]


def pair(one, other, difference, p):
    return {
        "one": one,
        "other": other,
        "difference": difference,
        "p": p,
        "smallest": 0.004,
        "bootstrap_p": 0.2,
        "equal": False,
    }


def system(mean, std=0.002):
    return {"mean": mean, "std": std, "interval": [mean - 0.01, mean + 0.01]}


def tried(rates, best):
    return [{"learning_rate": rate, "best_bleu": bleu, "best_epoch": 1} for rate, bleu in zip(rates, best, strict=True)]


def make_summary(seeds=(1, 2), best="exact"):
    """Two objectives; exact is the best with greedy search, nothing is with the beam."""
    runs = {
        "base": [run(seed, course(1, [0.1, 0.2, 0.3, 0.3][: 2 + seed]), 0.30, converged=True) for seed in seeds],
        "ce": [
            run(seed, course(0, [0.3, 0.301, 0.302]), 0.31, learning_rate=1e-4, tries=tried([1e-4, 3e-4], [0.302, 0.3]))
            for seed in seeds
        ],
        "exact": [
            run(
                seed,
                course(0, [0.3, 0.31, 0.32]),
                0.33,
                learning_rate=seed * 1e-4,
                tries=tried([1e-4, 2e-4], [0.31, 0.32]),
            )
            for seed in seeds
        ],
    }
    std = 0.002 if len(seeds) > 1 else None
    p = 0.01 if len(seeds) > 1 else None
    table = {"base": system(0.30, std), "ce": system(0.31, std), "exact": system(0.33, std)}
    pairs = [pair("ce", "base", 0.01, 0.3), pair("exact", "base", 0.03, p), pair("exact", "ce", 0.02, p)]
    search = {"systems": table, "pairs": pairs, "best": best if len(seeds) > 1 else None}
    return {
        "corpus": "tatoeba_tiny",
        "test_sentences": 500,
        "references": 1,
        "seeds": list(seeds),
        "searches": ["greedy", "beam 5"],
        "titles": {"base": "base", "ce": "CE", "exact": "exact"},
        "objectives": {},
        "bleu_signature": SIGNATURE,
        "chrf_signature": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
        "runs": runs,
        "scores": {"greedy": search, "beam 5": copy.deepcopy(search) | {"best": None}},
        "examples": [
            {
                "sentence": 7,
                "source": "ich sehe die katze",
                "references": ["i see the cat"],
                "translations": {"base": "i see cat", "ce": "i see a cat", "exact": "i see the cat"},
            }
        ],
    }
