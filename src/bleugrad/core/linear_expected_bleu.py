"""Expected BLEU from hidden states and the output projection, never holding the logits of the whole batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bleugrad.core.arguments import check_eos, check_finite_rows, check_mask, check_projection
from bleugrad.core.counted import count_references
from bleugrad.core.expected_bleu import expected_result
from bleugrad.core.expected_statistics import ScoreOptions
from bleugrad.core.linear_match_probabilities import linear_match_probabilities
from bleugrad.core.score import ExpectedBLEUResult
from bleugrad.core.sequences import IdLists


def linear_expected_bleu(
    hidden: Tensor,
    weight: Tensor,
    references: Tensor | IdLists,
    *,
    bias: Tensor | None = None,
    method: str = "exact",
    mask: Tensor | None = None,
    eos_id: int | None = None,
    word_start: Tensor | None = None,
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    smoothing: float = 1.0,
    level: str = "corpus",
    ignore_index: int = -100,
) -> ExpectedBLEUResult:
    """:func:`bleugrad.expected_bleu` of ``logits = hidden @ weight.T + bias``, in chunks, equal to rounding.

    Memory: the inputs, their gradients, one chunk of logits no larger than ``hidden`` or 64 rows, and two more tensors
    of the size of ``hidden``. Time: four products of the size of the projection forward and backward, two if ``weight``
    and ``bias`` need no gradient.

    Args:
        hidden: (B, T, H), any floating type.
        weight: (V, H), the output projection.
        references: as for :func:`bleugrad.expected_bleu`, and so are all other arguments.
        bias: (V,), or None.
        method: "exact" or "bound".
        mask: (B, T) bool, True where a position counts.
        eos_id: makes the length random.
        word_start: (V,) bool, tokens that open a word; then words are counted.
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: added to matches and totals of every order.
        level: "corpus" or "sentence".
        ignore_index: the padding id of the references.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> hidden, weight = torch.randn(1, 4, 8), torch.randn(50, 8)
        >>> fused = bleugrad.linear_expected_bleu(hidden, weight, [[3, 1, 4, 1]])
        >>> plain = bleugrad.expected_bleu(hidden @ weight.T, [[3, 1, 4, 1]])
        >>> torch.allclose(fused.matches, plain.matches)
        True
    """
    check_projection(hidden, weight, bias)
    batch, steps, _ = hidden.shape
    vocabulary = weight.shape[0]
    mask = check_mask(mask, batch, steps, hidden.device)
    options = ScoreOptions.checked(method, max_order, weights, smoothing, level)
    counted = count_references(
        references,
        word_start,
        batch=batch,
        of="hidden",
        device=hidden.device,
        vocabulary=vocabulary,
        eos_id=check_eos(eos_id, vocabulary),
        ignore_index=ignore_index,
    )
    with torch.autocast(hidden.device.type, enabled=False):
        gathered = linear_match_probabilities(hidden, weight, bias, counted.columns(), word_start=counted.word_start)
        check_finite_rows(gathered.of_rows(), mask, "hidden @ weight.T")
        return expected_result(gathered, counted, mask, options)
