"""Time of minimum Bayes risk decoding with BLEU: bleugrad.mbr beside the package mbrs, and without samples.

    python benchmarks/mbr.py
    python benchmarks/mbr.py --output results/mbr

Candidates and references are token lists that resemble samples of a translation model: copies of one sentence in which
tokens are replaced, left out and inserted. mbrs gets them as texts with spaces, its tokenizer is off. It is timed with
one worker process as it is used, and as a loop over its sentence scores in this process, without starting the worker.
bleugrad compares the lists of one sentence per call, and those of all sentences in one call. The exact rows score
candidates against a distribution: CTC frames and a graph with the given vocabulary, and need no references.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from timing import best_times, keep, machine

import bleugrad

try:
    from mbrs.decoders.mbr import DecoderMBR
    from mbrs.metrics.bleu import MetricBLEU
except ImportError as error:
    DecoderMBR = MetricBLEU = None
    print(f"no comparison with mbrs, which cannot be imported ({error}); pip install mbrs in an environment of its own")

FRAMES = 39
"""Frames or vertices of a sentence: three for each of 13 source tokens, the mean of multi30k."""


def samples(random: Random, number: int, length: int, vocabulary: int) -> list[list[int]]:
    """Noisy copies of one random sentence."""
    sentence = [random.randrange(4, vocabulary) for _ in range(length)]
    found = []
    for _ in range(number):
        tokens = []
        for token in sentence:
            chance = random.random()
            if chance > 0.1:  # one in ten is left out
                tokens.append(token if chance > 0.3 else random.randrange(4, vocabulary))
            if random.random() < 0.05:
                tokens.append(random.randrange(4, vocabulary))
        found.append(tokens or sentence)
    return found


def peers(sentences: list[list[list[int]]]) -> dict[str, Callable[[], object]]:
    """mbrs with one worker process, and its scores in a loop; nothing if it cannot be imported."""
    if MetricBLEU is None or DecoderMBR is None:
        return {}
    metric = MetricBLEU(MetricBLEU.Config(tokenize="none", num_workers=1))
    decoder = DecoderMBR(DecoderMBR.Config(), metric)
    texts = [[" ".join(map(str, tokens)) for tokens in own] for own in sentences]

    def loop() -> None:
        for own in texts:
            scores = [sum(metric.score(one, other) for other in own) for one in own]
            max(range(len(own)), key=scores.__getitem__)

    return {"mbrs, one worker": lambda: [decoder.decode(own, own) for own in texts], "mbrs, in a loop": loop}


def exact(sentences: list[list[list[int]]], vocabulary: int) -> dict[str, Callable[[], object]]:
    """Candidates against the distribution of frames and of paths, all sentences in one call."""
    logits = 3 * torch.randn(len(sentences), FRAMES, vocabulary)
    frames = bleugrad.CTC(logits, blank_id=0)
    graph = bleugrad.Graph(logits, torch.randn(len(sentences), FRAMES, FRAMES))
    return {
        "bleugrad, exact, CTC": lambda: bleugrad.mbr(frames, sentences),
        "bleugrad, exact, graph": lambda: bleugrad.mbr(graph, sentences),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=32, help="candidates and references (default 32)")
    parser.add_argument("--exact-candidates", type=int, default=20, help="candidates without samples (default 20)")
    parser.add_argument("--length", type=int, default=13, help="tokens of a sentence (default 13)")
    parser.add_argument("--vocabulary", type=int, default=5921)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="directory for mbr.json and summary.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = Random(0)
    sizes = (arguments.candidates, arguments.length, arguments.vocabulary)
    sentences = [samples(random, *sizes) for _ in range(arguments.sentences)]
    calls = {
        "bleugrad, one sentence per call": lambda: [bleugrad.mbr([own], [own]) for own in sentences],
        "bleugrad, one call": lambda: bleugrad.mbr(sentences, sentences),
        **exact([own[: arguments.exact_candidates] for own in sentences], arguments.vocabulary),
        **peers(sentences),
    }
    seconds = {name: each / len(sentences) for name, each in best_times(calls, arguments.rounds).items()}
    settings = {key: value for key, value in vars(arguments).items() if key != "output"}
    record: dict[str, Any] = {"machine": machine(), "settings": settings, "seconds_per_sentence": seconds}
    lines = ["| method | milliseconds per sentence |", "|---|---|"]
    lines += [f"| {name} | {1000 * each:.2f} |" for name, each in seconds.items()]
    record["ratios"] = {
        f"{slow} / {fast}": seconds[slow] / seconds[fast]
        for slow in seconds
        if slow.startswith("mbrs")
        for fast in list(seconds)[:2]
    }
    lines += ["", *(f"{name}: {ratio:.1f}" for name, ratio in record["ratios"].items())]
    summary = "\n".join(lines) + "\n"
    print(summary)
    keep(arguments.output, "mbr", record, summary)


if __name__ == "__main__":
    main()
