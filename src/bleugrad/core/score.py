"""From statistics to the score: precisions, brevity penalty, their product, and the results people read."""

from dataclasses import dataclass

import torch
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
    """Expected statistics, the BLEU they make, and a certified interval for the true E[BLEU].

    Attributes:
        lower: (B,) certified lower bound of each sentence's E[BLEU], or None where no certificate is known
            (a sentence with several references, without smoothing).
        upper: (B,) certified upper bound of each sentence's E[BLEU].
    """

    lower: Tensor | None
    upper: Tensor


def widest_float(device: torch.device) -> torch.dtype:
    """The most precise floating type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def brevity_penalties(hypothesis_lengths: Tensor, reference_lengths: Tensor) -> Tensor:
    """BP = 1 if c > r else exp(1 - r / c), elementwise; 0 for an empty hypothesis of a non-empty reference.

    The division is by max(c, tiny), so that c = 0 gives exp of a huge negative number, which is 0; c = r = 0 gives 1.
    """
    tiny = torch.finfo(hypothesis_lengths.dtype).tiny
    excess = (reference_lengths - hypothesis_lengths).clamp(min=0)
    return torch.exp(-excess / hypothesis_lengths.clamp(min=tiny))


def smoothed_precisions(matches: Tensor, totals: Tensor, smoothing: float) -> Tensor:
    """(O_n + s) / (M_n + s), the paper's smoothing on every order; 0 where M_n + s = 0.

    sacreBLEU's add-k differs: it leaves order 1 as it is.
    """
    denominator = totals + smoothing
    if smoothing > 0:
        return (matches + smoothing) / denominator
    return torch.where(
        denominator > 0, (matches + smoothing) / denominator.clamp(min=torch.finfo(totals.dtype).tiny), 0
    )


def weighted_geometric_mean(factors: Tensor, weights: tuple[float, ...]) -> Tensor:
    """prod_n factors_n ^ w_n over the last axis; 0, with zero gradient, where a factor of positive weight is 0.

    Orders of weight 0 are left out. The logarithm is taken of max(factor, tiny), and 1 / tiny is finite, so values and
    gradients are finite.
    """
    used = [order for order, weight in enumerate(weights) if weight > 0]
    if len(used) < len(weights):
        factors = factors[..., used]
    exponents = factors.new_tensor([weights[order] for order in used])
    tiny = torch.finfo(factors.dtype).tiny
    mean = (factors.clamp(min=tiny).log() * exponents).sum(-1).exp()
    return torch.where((factors >= tiny).all(-1), mean, 0)
