"""Window probabilities: how likely the window ending at each position is each pattern of the references.

Windows are named by the position of their *last* token, so that everything about position e is known once row e is.
Layout is time first, (T, B, ...), because the recursions downstream walk over positions.
"""

import torch
from torch import Tensor


def window_probabilities(match_probs: Tensor, first: int, last: int, max_order: int) -> Tensor:
    """``q[e, n-1, b, j] = prod_k match_probs[e-n+1+k, b, j+k]`` for the columns j of ``first``..``last`` - 1.

    Exact: rows are independent. Every order extends the one below by a token, q_n[e, j] = q_{n-1}[e-1, j] *
    match_probs[e, j+n-1]; windows that do not fit (e < n-1, or running over the last column) have probability 0.

    ``match_probs`` (T, B, L) to (T, N, B, last - first). O(T B N J) time and memory.
    """
    steps, batch, columns = match_probs.shape
    windows = match_probs.new_zeros(steps, max_order, batch, last - first)
    windows[:, 0] = match_probs[:, :, first:last]
    for order in range(2, max_order + 1):
        begin, end = first + order - 1, min(last + order - 1, columns)
        if end > begin:
            torch.mul(
                windows[:-1, order - 2, :, : end - begin],
                match_probs[1:, :, begin:end],
                out=windows[1:, order - 1, :, : end - begin],
            )
    return windows


def add_window_gradient(
    grad_match: Tensor, grad_windows: Tensor, windows: Tensor, match_probs: Tensor, first: int
) -> None:
    """Add to ``grad_match`` (T, B, L) what ``grad_windows`` gives it; ``grad_windows`` is used up."""
    columns = match_probs.shape[2]
    max_order, _, block = windows.shape[1:]
    for order in range(max_order, 1, -1):
        begin, end = first + order - 1, min(first + block + order - 1, columns)
        if end > begin:
            above = grad_windows[1:, order - 1, :, : end - begin]
            below = slice(None, end - begin)
            grad_match[1:, :, begin:end].addcmul_(above, windows[:-1, order - 2, :, below])
            grad_windows[:-1, order - 2, :, below].addcmul_(above, match_probs[1:, :, begin:end])
    grad_match[:, :, first : first + block] += grad_windows[:, 0]
