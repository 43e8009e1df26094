"""Log-normalisers of projected rows by fused cross-entropies that others maintain.

The log-normaliser is all that match probabilities need of the whole vocabulary. For any token v it is ::

    logsumexp(logits) = -log p[v] + hidden . weight[v] + bias[v]

and a fused linear cross-entropy gives -log p[v] without the logits, with its gradient. So every function of hidden
states (rows, H), weight (V, H), bias (V,) or None and tokens (rows,) that returns the cross-entropy of each row can be
used, and each probability follows from one row of the weight.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from bleugrad.backends.dtypes import compute_dtype

RowLoss: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]


def _torch(hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: Tensor) -> Tensor:
    fused: Any = getattr(torch.nn.functional, "linear_cross_entropy", None)
    if fused is None:
        raise ValueError(f"normaliser is 'torch', but torch {torch.__version__} has no linear_cross_entropy")
    from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

    options = LinearCrossEntropyOptions()  # without options it forms the logits
    return cast(Tensor, fused(hidden, weight, tokens, linear_bias=bias, reduction="none", options=options))


def _cut_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: Tensor) -> Tensor:
    fused = import_module("cut_cross_entropy").linear_cross_entropy
    return cast(Tensor, fused(hidden, weight, tokens, bias=bias, reduction="none", impl="cce_exact"))


PROVIDERS: dict[str, RowLoss] = {"torch": _torch, "cut_cross_entropy": _cut_cross_entropy}
"""By name. Apple's package drops small gradients by default; ``impl="cce_exact"`` keeps them."""


def normalised_probabilities(
    inputs: tuple[Tensor, Tensor, Tensor | None], ids: Tensor, targets: Tensor | None, row_loss: RowLoss
) -> tuple[Tensor, Tensor]:
    """The first two outputs of :data:`bleugrad.backends.operations.projected_probabilities`. Exact.

    ``inputs`` are hidden states (B, T, H), which must be finite, weight and bias. Memory: that of the fused loss, and
    the rows of the weight that are needed.
    """
    hidden, weight, bias = inputs
    kind, states = compute_dtype(hidden), hidden.flatten(0, 1)
    losses = row_loss(states, weight, bias, ids.new_zeros(states.shape[0]))
    if losses.dtype != kind:
        raise ValueError(
            f"normaliser returned {losses.dtype}; expected {kind}, since rounded log-normalisers are wrong"
        )
    normaliser = losses + states.to(kind) @ weight[0].to(kind)
    if bias is not None:
        normaliser = normaliser + bias[0]
    normaliser = normaliser.view(*hidden.shape[:2], 1)
    scores = torch.bmm(hidden, torch.nn.functional.embedding(ids, weight).to(hidden.dtype).mT).to(kind)
    if bias is not None:
        scores = scores + bias[ids][:, None]
    log_probs = scores.new_empty(0)
    if targets is not None:
        rows = torch.nn.functional.embedding(targets, weight).to(kind)
        log_probs = (hidden.to(kind)[:, :, None] * rows).sum(3) - normaliser
        if bias is not None:
            log_probs = log_probs + bias[targets]
    return (scores - normaliser).exp(), log_probs
