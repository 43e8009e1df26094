"""Scores with the statistics they come from, as people read them."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BLEUResult:
    """BLEU with the statistics it comes from. BLEU lies in 0..1."""

    value: Tensor  #: BLEU, (B,) at sentence level, a scalar at corpus level.
    matches: Tensor  #: clipped n-gram matches O_n, (B, N).
    totals: Tensor  #: n-grams of the hypothesis M_n, (B, N).
    precisions: Tensor  #: (O_n + s) / (M_n + s), (B, N) at sentence level, (N,) of the pooled counts at corpus level.
    brevity_penalty: Tensor  #: (B,) or a scalar.
    hypothesis_lengths: Tensor  #: (B,).
    reference_lengths: Tensor  #: (B,), of the reference closest in length.


@dataclass(frozen=True)
class ExpectedBLEUResult(BLEUResult):
    """Expected statistics, BLEU of them, and a certified interval for the true E[BLEU].

    Both ends are None with ``interval=False``. ``lower`` is None if no certificate is known, which is the case if a
    sentence has several references and there is no smoothing.
    """

    lower: Tensor | None  #: (B,), certified lower bound of each sentence's E[BLEU].
    upper: Tensor | None  #: (B,), certified upper bound of each sentence's E[BLEU].


@dataclass(frozen=True)
class ExpectedScoreResult:
    """A score of expected statistics.

    Matches are clipped at the highest count of an n-gram in any reference.
    """

    value: Tensor  #: the score, (B,) at sentence level, a scalar at corpus level.
    matches: Tensor  #: expected clipped n-gram matches, (B, N).
    hypothesis_lengths: Tensor  #: expected lengths, (B,).
