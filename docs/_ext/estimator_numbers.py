"""Numbers of the documentation: variance, bias and cost of the estimators."""

from functools import partial

from measured import NUMBERS, Row, digits, number, percent, read, span

LEAVE_ONE_OUT, GREEDY, NO_BASELINE = "REINFORCE, leave-one-out", "REINFORCE, greedy", "REINFORCE, no baseline"
ONE, EIGHT, EXACT, BOUND = "unbiased, 1 sample", "unbiased, 8 samples", "exact surrogate", "bound"
SHARP, FLAT = "minimum risk, alpha 1", "minimum risk, alpha 0.005"


def cases(least_vocabulary: int = 0) -> list[Row]:
    return [case for case in read("estimators/results.json")["cases"] if case["V"] >= least_vocabulary]


def trained() -> list[Row]:
    return [case for case in cases() if case["probability"] is not None]


def ratios(above: str, below: str, what: str, of: list[Row]) -> list[float]:
    return [case["rows"][above][what] / case["rows"][below][what] for case in of]


def milliseconds(name: str) -> float:
    return float(read("estimators/results.json")["large_vocabulary_milliseconds"][name])


def cost(name: str) -> str:
    """Time of forward and backward pass at a large vocabulary, relative to cross-entropy."""
    return f"{milliseconds(name) / milliseconds('cross-entropy'):.2f}"


@number
def unbiased_variance_gain() -> str:
    return span(ratios(LEAVE_ONE_OUT, ONE, "per_sample", cases()))


@number
def unbiased_time_gain_large() -> str:
    return span(ratios(LEAVE_ONE_OUT, EIGHT, "per_millisecond", cases(10000)))


@number
def estimators_large_shape() -> str:
    batch, steps, vocabulary = read("estimators/results.json")["settings"]["large"]
    return f"B = {batch}, T = {steps}, V = {vocabulary}"


@number
def greedy_variance_excess() -> str:
    return digits(max(ratios(GREEDY, LEAVE_ONE_OUT, "per_sample", trained())), 1)


def least_cosine(name: str) -> str:
    return f"{min(case['rows'][name]['cosine'] for case in cases()):.4f}"


def _length_errors(of: list[Row]) -> list[float]:
    return [abs(case["rows"][name]["norm_ratio"] - 1) for case in of for name in (EXACT, BOUND)]


@number
def surrogate_length_error_trained() -> str:
    return percent(max(_length_errors(trained())), 0)


@number
def surrogate_length_error_untrained() -> str:
    return percent(max(_length_errors([case for case in cases(10000) if case["probability"] is None])), 0)


@number
def sharp_risk_length_sure() -> str:
    surest = max(case["probability"] for case in trained())
    return span(
        (case["rows"][SHARP]["norm_ratio"] for case in trained() if case["probability"] == surest),
        lambda value: digits(value, 1),
    )


@number
def truth_gradients() -> str:
    settings = read("estimators/results.json")["settings"]
    return f"{settings['truth_blocks'] * settings['truth_calls'] * settings['truth_samples']:,}"


@number
def truth_error() -> str:
    return percent(max(case["truth_squared_length_error"] / case["truth_squared_length"] for case in cases()), 1)


def _rewards(name: str) -> str:
    speeds = read("estimators/results.json")["reward_sentences_per_second"]
    return f"{speeds['bleugrad.bleu'] / speeds[name]:.0f}"


NUMBERS |= {
    "unbiased-cost": partial(cost, EIGHT),
    "exact-least-cosine": partial(least_cosine, EXACT),
    "bound-least-cosine": partial(least_cosine, BOUND),
    "reward-speed": partial(_rewards, "sacrebleu.sentence_bleu"),
    "reward-speed-untokenized": partial(_rewards, "sacrebleu.sentence_bleu, tokenize='none'"),
}
