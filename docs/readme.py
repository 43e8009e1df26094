"""Writes the results of the README from results/: nothing between its markers is typed.

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
    <source media="(prefers-color-scheme: dark)" srcset="docs/_static/default_gains-dark.svg">
    <img src="docs/_static/default_gains.svg" width="700" alt="Gain in test BLEU of the recommended recipe over
cross-entropy, for each corpus and model, for greedy search and beam search, with 95 % intervals over seeds.">
  </picture>
</p>

Each dot is the gain in test BLEU of the recommended recipe, which is the default everywhere, over cross-entropy that
trained for as long from the same weights; a line is its 95 % interval over seeds, an open dot has one seed. The
[results page](docs/results.md) discusses each corpus.
"""
CAPTION = """Test BLEU of cross-entropy (mean ± standard deviation over seeds), and the gain of the recommended recipe
over it, with the p-value of a paired t-test over seeds, or of a paired bootstrap over sentences if there is one seed.
All start from the same weights and train for the same number of epochs. *With own tokens*: `bleugrad tune RUN
--objective recommended --objective-feeding greedy`, whose steps need a greedy search. [Improve
BLEU](docs/better.md) lists all recipes that were tried. sacreBLEU signature: {signatures}.
"""
MARKED = r"(<!-- {0}: begin[^\n]*-->\n).*?(<!-- {0}: end -->)"


def claims() -> str:
    """What is gained and what it costs: one line each, with its conditions."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    import one_pass_numbers
    import translation
    from studies import NUMBERS

    lines = []
    exact, more = (one_pass_numbers.main_score(label) for label in ("exact", "ce"))
    seeds = len(one_pass_numbers.main_seeds("exact"))
    greedy, beam = (one_pass_numbers.autoregressive(search) for search in ("greedy", "beam 5"))
    lines.append(
        f"**One-pass models**, which emit all tokens at once: {exact} BLEU with exact expected BLEU, {more} with "
        f"likelihood trained for the same number of epochs and decoded in the same way. An LSTM that translates token "
        f"by token has {greedy} with greedy search and {beam} with a beam of 5 ([graph model of 128 units, multi30k, "
        f"{seeds} seeds](docs/one-pass.md))."
    )
    searches, runs = ("greedy", "beam 5"), translation.default_runs()
    main = f"{translation.DEFAULT}/multi30k-lstm recommended"
    greedy, beam = (translation.gain(f"{main} {search}") for search in searches)
    others = (
        sorted(float(translation.gain(f"{translation.DEFAULT}/{name} recommended {search}")) for name in runs)
        for search in searches
    )
    spans = [f"{found[0]:+.2f} to {found[-1]:+.2f}" for found in others]
    lines.append(
        f"**Autoregressive models**: the recommended recipe has {greedy} BLEU with greedy search and {beam} with a "
        "beam of 5 over cross-entropy trained for the same number of epochs ([LSTM, multi30k, "
        f"{translation.number_of_seeds(runs['multi30k-lstm'])}](docs/results.md)); over {len(runs)} pairs of model and "
        f"corpus, {spans[0]} and {spans[1]}. On multi30k and tatoeba the Transformer gains [nothing but "
        "length](docs/results.md#the-recommended-recipe)."
    )
    lines.append(
        f"**Cost**: the recommended loss takes {NUMBERS['recommended-cost']()} of the time of cross-entropy, both with "
        f"label smoothing, forward and backward; the plain loss takes {NUMBERS['loss-cost']()} of plain cross-entropy "
        "([float32 on a CPU, C kernels, vocabularies from 8,000 tokens](docs/performance.md)). No GPU was measured."
    )
    return "\n".join(f"* {line}" for line in lines) + "\n"


def results() -> str:
    """The translation results, then one row for each of the other measurements."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    import translation
    from measured import markdown
    from studies import NUMBERS

    rows = [
        [
            "time of the recommended loss, forward and backward, relative to cross-entropy, both with label smoothing "
            "(float32 on a CPU, C kernels, 1 and 2 threads, V from 8,000)",
            NUMBERS["recommended-cost"](),
            "loss",
        ],
        ["time of the plain loss relative to plain cross-entropy", NUMBERS["loss-cost"](), "loss"],
        ["the same in a process that keeps its memory between steps", NUMBERS["loss-cost-kept"](), "loss"],
        [
            "cosine of its gradient with the gradient of E[BLEU]",
            f"{NUMBERS['exact-least-cosine']()} or more",
            "estimators",
        ],
        ["the same for the paper's bound", f"{NUMBERS['bound-least-cosine']()} or more", "estimators"],
        [
            "variance per sample of REINFORCE (leave-one-out) relative to the unbiased loss",
            f"{NUMBERS['unbiased-variance-gain']()} times",
            "estimators",
        ],
        [
            "correlation of the paper's bound with sampled E[BLEU] during training",
            f"{NUMBERS['toy-least-correlation']()} or more",
            "toy",
        ],
        [
            "references with repeated words whose expected matches the bound exceeds",
            f"{NUMBERS['toy-repeated-exceeds']()}, by up to {NUMBERS['toy-largest-excess']()}",
            "toy",
        ],
        [
            "sentences for which expected BLEU ranks two models wrongly: in tokens, in words",
            f"{NUMBERS['tokens-opposite-across']()}, {NUMBERS['words-opposite-across']()}",
            "subwords",
        ],
    ]
    linked = [[what, value, f"[{folder}](results/{folder})"] for what, value, folder in rows]
    others = markdown(["quantity", "value", "source"], linked)
    caption = CAPTION.format(signatures=translation.signatures(translation.default_runs()))
    return f"{translation.effect()}\n{caption}\n{others}"


def updated(readme: str) -> str:
    """The README with the current results."""
    for name, text in (("claims", claims()), ("figure", FIGURE), ("results", results())):
        readme = re.sub(
            MARKED.format(name), lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", readme, flags=re.S
        )
    return readme


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
