"""Drawing tokens from the rows of the logits, and the log-probabilities of what was drawn.

The softmax of the logits is formed once. Samples are drawn from it by inverting its running sum, the log-probabilities
of the sampled tokens are read from it, and the backward pass scales it in place and returns it as the gradient of the
logits: one tensor of the logits' size, however many samples are drawn.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bleugrad.core.match_probabilities import ROW_BLOCK_DEFAULT, ROW_BLOCK_ELEMENTS, SAFE_PROBABILITY
from bleugrad.core.score import widest_float


def softmax_rows(logits: Tensor) -> Tensor:
    """softmax(logits) without a gradient, in float32, or float64 for float64 logits: (B, T, V)."""
    dtype = logits.dtype if logits.dtype == torch.float64 else torch.float32
    return logits.detach().softmax(-1, dtype=dtype)


def draw_tokens(rows: Tensor, samples: int, generator: torch.Generator | None = None) -> Tensor:
    """Independent tokens of each row, (B, S, T), by inverting the running sum of its probabilities.

    Exact up to the rounding of that sum, which is kept in float64 (float32 on devices without it). A token of
    probability 0 is never drawn: the running sum does not rise there, and what is looked up stays below the last sum,
    since uniform numbers are at most 1 - 2^-53 and the product with that rounds down.

    O(T V + S T log V) time a sentence, and no memory but a block of running sums and the result. Perturbing every logit
    with noise (Gumbel) instead takes V random numbers a row, on a CPU twenty times as long at V = 32000.

    Args:
        rows: (B, T, V), probabilities.
        samples: S.
        generator: of the uniform numbers, on the device of ``rows``.

    >>> draw_tokens(torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]), 2).tolist()
    [[[1, 2], [1, 2]]]
    """
    batch, steps, vocabulary = rows.shape
    device = rows.device
    kind = widest_float(device)
    uniform = torch.rand(batch * steps, samples, generator=generator, dtype=kind, device=device)
    tokens = torch.empty(batch * steps, samples, dtype=torch.long, device=device)
    height = max(1, ROW_BLOCK_ELEMENTS.get(device.type, ROW_BLOCK_DEFAULT) // vocabulary)
    flat = rows.reshape(-1, vocabulary)
    for first in range(0, batch * steps, height):
        block = slice(first, first + height)
        sums = flat[block].cumsum(-1, dtype=kind)
        tokens[block] = torch.searchsorted(sums, uniform[block] * sums[:, -1:], right=True)
    tokens.clamp_(max=vocabulary - 1)  # only a row of NaN, which does not count, leads past the end
    return tokens.view(batch, steps, samples).transpose(1, 2).contiguous()


def token_log_probs(logits: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of several tokens at each position, with the gradient of the logits. Exact.

    ``log_probs[b, t, j] = log softmax(logits[b, t])[tokens[b, t, j]]``, in the dtype of ``rows``. Where the probability
    is so small that it may have lost digits, the logarithm is taken from the logits of its row.

    Args:
        logits: (B, T, V).
        rows: :func:`softmax_rows` of them. The backward pass turns it into the gradient, so it must not be read later.
        tokens: (B, T, J), within 0..V-1.

    O(B T J) time beyond ``rows``. The backward pass is one scaling of ``rows``, O(B T V), and allocates nothing of the
    logits' size unless they are of half precision. Double backward is not supported.
    """
    log_probs: Tensor = _TokenLogProbs.apply(logits, rows, tokens)  # type: ignore[no-untyped-call]
    return log_probs


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        probs = rows.gather(-1, tokens)
        log_probs = probs.log()
        small = (probs < SAFE_PROBABILITY).any(-1)
        if small.any():
            log_probs[small] = logits[small].log_softmax(-1, dtype=rows.dtype).gather(-1, tokens[small])
        ctx.save_for_backward(logits, tokens)
        ctx.rows = rows
        return log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens = ctx.saved_tensors
        rows, ctx.rows = ctx.rows, None
        if rows is None:  # a second backward pass through the same graph
            rows = softmax_rows(logits)
        total = grad.sum(-1, keepdim=True)
        rows.mul_(-total).scatter_add_(-1, tokens, grad)
        broken = total.isnan() | rows[..., :1].isnan()
        if broken.any():  # a row without a softmax has passed the checks only if it does not count
            rows.masked_fill_(broken, 0)
        return rows.to(logits.dtype), None, None
