"""Scores with the statistics they come from, as people read them."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BLEUResult:
    """BLEU with the statistics it comes from. BLEU lies in 0..1.

    Attributes:
        value: BLEU, (B,) at sentence level, a scalar at corpus level.
        matches: clipped n-gram matches O_n, (B, N).
        totals: n-grams of the hypothesis M_n, (B, N).
        precisions: (O_n + s) / (M_n + s), (B, N) at sentence level, (N,) of the pooled counts at corpus level.
        brevity_penalty: (B,) or a scalar.
        hypothesis_lengths: (B,).
        reference_lengths: (B,), of the reference closest in length.
    """

    value: Tensor
    matches: Tensor
    totals: Tensor
    precisions: Tensor
    brevity_penalty: Tensor
    hypothesis_lengths: Tensor
    reference_lengths: Tensor


@dataclass(frozen=True)
class ExpectedBLEUResult(BLEUResult):
    """Expected statistics, BLEU of them, and a certified interval for the true E[BLEU].

    Attributes:
        lower: (B,) certified lower bound of each sentence's E[BLEU], or None if no certificate is known (a sentence
            with several references, without smoothing) or with ``interval=False``.
        upper: (B,) certified upper bound of each sentence's E[BLEU], or None with ``interval=False``.
    """

    lower: Tensor | None
    upper: Tensor | None


@dataclass(frozen=True)
class ExpectedScoreResult:
    """A score of expected statistics.

    Attributes:
        value: the score, (B,) at sentence level, a scalar at corpus level.
        matches: expected clipped n-gram matches, (B, N), with the highest count of an n-gram in any reference.
        hypothesis_lengths: expected lengths, (B,).
    """

    value: Tensor
    matches: Tensor
    hypothesis_lengths: Tensor
