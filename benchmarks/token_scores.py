"""Scores of token ids against rouge-score and nltk: 1,024 pairs of 30 tokens, one thread.

    python benchmarks/token_scores.py
    python benchmarks/token_scores.py --output results/token_scores

rouge-score is measured as it is used, on text with its default tokenizer, and with one that splits at spaces. nltk is
given lists of tokens. Sentence scores, except NIST, which is of the corpus. nltk computes the information of n-grams in
each call; here it is computed once, and a row of its own has the time of both. Times are processor time, best of
several, taken in turn.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from nltk.translate.gleu_score import sentence_gleu
from nltk.translate.nist_score import corpus_nist
from rouge_score import rouge_scorer
from timing import machine

import bleugrad

PAIRS, TOKENS, VOCABULARY, SHARED = 1024, 30, 10_000, 0.6


class Spaces:
    def tokenize(self, text: str) -> list[str]:
        return text.split()


def word(number: int) -> str:
    """A word of letters, so that every tokenizer keeps it whole."""
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters += chr(97 + letter)
    return letters


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Hypotheses and references that share six tokens in ten."""
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randint(VOCABULARY, (PAIRS, TOKENS), generator=generator)  # noqa: E731
    hypotheses = draw()
    kept = torch.rand(PAIRS, TOKENS, generator=generator) < SHARED
    return hypotheses, torch.where(kept, hypotheses, draw())


def contestants() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """{name: (this package, the other)}."""
    hypotheses, references = pairs()
    made, wanted = ([[word(token) for token in row] for row in ids.tolist()] for ids in (hypotheses, references))
    texts, others = ([" ".join(row) for row in rows] for rows in (made, wanted))
    nist = bleugrad.NIST.from_references(references)

    def ours(score: object, level: str = "sentence") -> Callable[[], object]:
        return lambda: bleugrad.token_score(hypotheses, references, score, level=level)

    def rouge(name: str, tokenizer: object) -> Callable[[], object]:
        scorer = rouge_scorer.RougeScorer([name], tokenizer=tokenizer)
        return lambda: [scorer.score(r, h) for r, h in zip(others, texts, strict=True)]

    scores = {"rouge1": bleugrad.ROUGE(1), "rouge2": bleugrad.ROUGE(2), "rougeL": bleugrad.ROUGEL()}
    found = {f"{name}, rouge-score": (ours(score), rouge(name, None)) for name, score in scores.items()}
    found |= {f"{name}, rouge-score at spaces": (ours(score), rouge(name, Spaces())) for name, score in scores.items()}
    found["GLEU, nltk"] = (
        ours(bleugrad.GLEU()),
        lambda: [sentence_gleu([r], h) for r, h in zip(wanted, made, strict=True)],
    )
    corpus = lambda: corpus_nist([[row] for row in wanted], made)  # noqa: E731
    found["NIST, nltk"] = (ours(nist, "corpus"), corpus)
    found["NIST with its information, nltk"] = (
        lambda: ours(bleugrad.NIST.from_references(references), "corpus")(),
        corpus,
    )
    return found


def measure(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    best = {name: [math.inf, math.inf] for name in contestants()}
    calls = contestants()
    for _ in range(chosen.rounds):
        for name, (ours, theirs) in calls.items():
            best[name] = [
                min(best[name][0], *(measure(ours) for _ in range(5))),
                min(best[name][1], measure(theirs)),
            ]
    lines = [
        "# Scores of token ids",
        "",
        f"`python benchmarks/token_scores.py`: {PAIRS:,} pairs of {TOKENS} tokens, one thread, milliseconds.",
        "",
        "| score and package | bleugrad | package | ratio |",
        "|---|---|---|---|",
    ]
    for name, (ours, theirs) in best.items():
        lines.append(f"| {name} | {1e3 * ours:.2f} | {1e3 * theirs:.1f} | {theirs / ours:.0f} |")
    print("\n".join(lines))
    if chosen.output is not None:
        chosen.output.mkdir(parents=True, exist_ok=True)
        times = {name: [1e3 * value for value in values] for name, values in best.items()}
        result = {"machine": machine(), "milliseconds": times}
        (chosen.output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (chosen.output / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
