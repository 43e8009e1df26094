"""Numbers and tables of the documentation: words and subwords."""

from measured import Row, markdown, number, percent, read, span, table


def checkpoints(last: bool = True) -> list[Row]:
    found = read("subwords/results.json")["cases"]
    end = max(case["step"] for case in found)
    return [case for case in found if case["step"] == end or not last]


def _opposite(units: str, which: str) -> str:
    name = {"tokens": "opposite_order_expected", "words": "opposite_order_expected_in_words"}[units]
    return percent(
        read("subwords/results.json")["summary"][name][f"{which} vocabular{'y' if which == 'same' else 'ies'}"]
    )


@number
def tokens_opposite_across() -> str:
    return _opposite("tokens", "different")


@number
def words_opposite_across() -> str:
    return _opposite("words", "different")


@number
def tokens_opposite_within() -> str:
    return _opposite("tokens", "same")


@number
def words_opposite_within() -> str:
    return _opposite("words", "same")


def _pairs() -> int:
    count = len(checkpoints(last=False))
    return count * (count - 1) // 2


def _opposite_pairs(units: str) -> str:
    found = read("subwords/results.json")["summary"]["ranking_of_checkpoints"][f"expected_{units}"]
    return str(round(found["opposite"] * _pairs()))


@number
def checkpoint_pairs() -> str:
    return str(_pairs())


@number
def tokens_opposite_pairs() -> str:
    return _opposite_pairs("token")


@number
def words_opposite_pairs() -> str:
    return _opposite_pairs("word")


def _each(units: str, what: str, places: int) -> str:
    return ", ".join(f"{case['summary'][units][what]:.{places}f}" for case in checkpoints())


@number
def tokens_gaps() -> str:
    return _each("token", "gap", 3)


@number
def words_gaps() -> str:
    return _each("word", "gap", 3)


@number
def tokens_greedy_correlations() -> str:
    return _each("token", "spearman_greedy_word", 3)


@number
def words_greedy_correlations() -> str:
    return _each("word", "spearman_greedy_word", 3)


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


@number
def subword_sentences() -> str:
    return str(read("subwords/results.json")["settings"]["sentences"])


@number
def subword_samples() -> str:
    return str(read("subwords/results.json")["settings"]["samples"])


@table
def subwords() -> str:
    header = ["BPE", "tokens a word", "expected, tokens", "expected, words", "greedy, words"]
    header += ["correlation with true expected word BLEU: tokens", "words"]
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
