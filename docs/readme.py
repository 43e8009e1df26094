"""Writes the results of the README from results/: nothing between its two markers is typed.

    python docs/readme.py

updates them; a test fails while they are out of date.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FIGURE = """<p align="center">
  <picture>
    <source media="(prefers-color-scheme: dark)" srcset="docs/_static/effects-dark.svg">
    <img src="docs/_static/effects.svg" width="800" alt="Gain in test BLEU of each objective over cross-entropy, one
panel per corpus, for greedy search and beam search, with 95 % intervals over seeds.">
  </picture>
</p>

Each dot is the mean gain in test BLEU over cross-entropy; each line is its 95 % interval over seeds. An arrow means
that the interval leaves the axis, an open dot that there is one seed and therefore no interval. Two seeds give very
wide intervals. The [results page](docs/results.md) explains the objectives and discusses each corpus.
"""
CAPTION = """Test BLEU of cross-entropy (mean ± standard deviation over seeds), and the gain of two objectives over it
with the p-value of a paired t-test over seeds. All objectives start from the same weights and train for the same number
of epochs. *exact* is `ExpectedBLEULoss()`. *sharp-mix*, the recommended recipe, adds a random length, a sharper softmax
and 0.1 times the cross-entropy. [Improve BLEU](docs/better.md) lists all recipes that were tried. sacreBLEU signature:
{signatures}.
"""
MARKED = re.compile(r"(<!-- results: begin[^\n]*-->\n).*?(<!-- results: end -->)", re.S)


def results() -> str:
    """The translation results, then one row for each of the other measurements."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    import translation
    from measured import markdown
    from studies import NUMBERS

    number = {name: make() for name, make in NUMBERS.items()}
    rows = [
        [
            "time of the loss, forward and backward, relative to cross-entropy "
            "(float32 on a CPU, C kernels, 1 and 2 threads, V from 8,000)",
            number["loss-cost"],
            "loss",
        ],
        ["the same in a process that keeps its memory between steps", number["loss-cost-kept"], "loss"],
        [
            "cosine of its gradient with the gradient of E[BLEU]",
            f"{number['exact-least-cosine']} or more",
            "estimators",
        ],
        ["the same for the paper's bound", f"{number['bound-least-cosine']} or more", "estimators"],
        [
            "variance per sample of REINFORCE (leave-one-out) relative to the unbiased loss",
            f"{number['unbiased-variance-gain']} times",
            "estimators",
        ],
        [
            "correlation of the paper's bound with sampled E[BLEU] during training",
            f"{number['toy-least-correlation']} or more",
            "toy",
        ],
        [
            "references with repeated words whose expected matches the bound exceeds",
            f"{number['toy-repeated-exceeds']}, by up to {number['toy-largest-excess']}",
            "toy",
        ],
        [
            "sentences for which expected BLEU ranks two models wrongly: in tokens, in words",
            f"{number['tokens-opposite-across']}, {number['words-opposite-across']}",
            "subwords",
        ],
    ]
    linked = [[what, value, f"[{folder}](results/{folder})"] for what, value, folder in rows]
    others = markdown(["quantity", "value", "source"], linked)
    if not translation.kept():
        return f"{translation.NONE_YET}\n{others}"
    caption = CAPTION.format(signatures=translation.signatures())
    return f"{FIGURE}\n{translation.effect()}\n{caption}\n{others}"


def updated(readme: str) -> str:
    """The README with the current results."""
    return MARKED.sub(lambda match: f"{match[1]}\n{results()}\n{match[2]}", readme)


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
