"""The results of the README, from results/: between its two markers nothing is typed.

    python docs/readme.py

writes them again; a test fails while they are old.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
NONE_YET = """The table of the translation protocol, BLEU of greedy and beam search by objective with seeds, spread and
signature, stands here once a run of it is kept in `results/`.
"""
CAPTION = """Test BLEU of cross-entropy, mean ± standard deviation over seeds, and what each objective has above it,
with the p-value of a paired t-test over seeds. All start from the same weights and have as many epochs and learning
rates. RF is REINFORCE, LB the paper's bound; *own tokens* feeds the decoder what it would write, *CE* adds a
tenth of the cross-entropy, *end-mix* also lets the end of a sentence weigh as much as its middle, *sharp-mix* has a
random length and rows sharper than the model's besides.
[All scores](docs/results.md), [what was tried to get there](docs/better.md).
"""
MARKED = re.compile(r"(<!-- results: begin[^\n]*-->\n).*?(<!-- results: end -->)", re.S)


def results() -> str:
    """The translation results, and the other measurements in a line each."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    import translation
    from measured import markdown
    from studies import NUMBERS

    number = {name: make() for name, make in NUMBERS.items()}
    rows = [
        [
            "time of the loss, forward and backward, over that of cross-entropy "
            "(float32 on a CPU, C kernels, 1 and 2 threads, V from 8,000)",
            number["loss-cost"],
            "loss",
        ],
        ["the same in a process that keeps its memory from step to step", number["loss-cost-kept"], "loss"],
        ["its gradient against that of true E[BLEU]: cosine", f"{number['exact-least-cosine']} or more", "estimators"],
        ["the same for the paper's bound", f"{number['bound-least-cosine']} or more", "estimators"],
        [
            "variance of the unbiased loss, a sample, under REINFORCE's with leave-one-out baseline",
            f"{number['unbiased-variance-gain']} times",
            "estimators",
        ],
        ["correlation of bound and sampled E[BLEU] over a run", f"{number['toy-least-correlation']} or more", "toy"],
        [
            "the bound above the truth, references with repeated words",
            f"{number['toy-repeated-exceeds']} cases, by up to {number['toy-largest-excess']}",
            "toy",
        ],
        [
            "sentences two models order wrongly: BLEU of tokens, of words",
            f"{number['tokens-opposite-across']}, {number['words-opposite-across']}",
            "subwords",
        ],
    ]
    linked = [[what, value, f"[{folder}](results/{folder})"] for what, value, folder in rows]
    others = markdown(["measured", "", "kept in"], linked)
    return f"{translation.effect()}\n{CAPTION}\n{others}" if translation.kept() else f"{NONE_YET}\n{others}"


def updated(readme: str) -> str:
    """The README's text with the results of today."""
    return MARKED.sub(lambda match: f"{match[1]}\n{results()}\n{match[2]}", readme)


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
