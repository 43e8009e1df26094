"""Numbers and tables of the documentation: words and subwords."""

from functools import partial

from measured import NUMBERS, Row, markdown, number, percent, read, span, table


def checkpoints(last: bool = True) -> list[Row]:
    found = read("subwords/results.json")["cases"]
    end = max(case["step"] for case in found)
    return [case for case in found if case["step"] == end or not last]


def _opposite(units: str, which: str) -> str:
    name = {"tokens": "opposite_order_expected", "words": "opposite_order_expected_in_words"}[units]
    return percent(
        read("subwords/results.json")["summary"][name][f"{which} vocabular{'y' if which == 'same' else 'ies'}"]
    )


def _pairs() -> int:
    count = len(checkpoints(last=False))
    return count * (count - 1) // 2


def _opposite_pairs(units: str) -> str:
    found = read("subwords/results.json")["summary"]["ranking_of_checkpoints"][f"expected_{units}"]
    return str(round(found["opposite"] * _pairs()))


@number
def checkpoint_pairs() -> str:
    return str(_pairs())


def _each(units: str, what: str, places: int) -> str:
    return ", ".join(f"{case['summary'][units][what]:.{places}f}" for case in checkpoints())


@number
def other_segmentations() -> str:
    return span([case["other_segmentation"] for case in checkpoints()], percent)


@number
def other_segmentations_most() -> str:
    return percent(max(case["other_segmentation"] for case in checkpoints(last=False)))


@number
def subword_vocabularies() -> str:
    return ", ".join(str(case["vocabulary"]) for case in checkpoints())


@number
def subword_tokens_per_word() -> str:
    return ", ".join(f"{case['tokens_per_word']:.2f}" for case in checkpoints())


def _setting(name: str) -> str:
    return str(read("subwords/results.json")["settings"][name])


NUMBERS |= {f"subword-{name}": partial(_setting, name) for name in ("sentences", "samples")}
for one in ("token", "word"):
    NUMBERS |= {
        f"{one}s-opposite-across": partial(_opposite, f"{one}s", "different"),
        f"{one}s-opposite-within": partial(_opposite, f"{one}s", "same"),
        f"{one}s-opposite-pairs": partial(_opposite_pairs, one),
        f"{one}s-gaps": partial(_each, one, "gap", 3),
        f"{one}s-greedy-correlations": partial(_each, one, "spearman_greedy_word", 3),
    }


@table
def subwords() -> str:
    header = ["BPE vocabulary", "tokens per word", "expected token BLEU", "expected word BLEU", "greedy word BLEU"]
    header += [f"correlation of {units} BLEU with true word BLEU" for units in ("token", "word")]
    rows = [
        [
            case["vocabulary"],
            f"{case['tokens_per_word']:.2f}",
            *(f"{100 * case[name]:.1f}" for name in ("expected_token", "expected_word", "greedy_word")),
            *(f"{case['summary'][units]['spearman_sampled']:.3f}" for units in ("token", "word")),
        ]
        for case in checkpoints()
    ]
    return markdown(header, rows)
