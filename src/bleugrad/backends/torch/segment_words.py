"""Words of token references, numbered by sorting."""

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.ngram_clips import dense_ranks


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.segment_words`. O(B L log^2) time."""
    _, references, width = ids.shape
    position = torch.arange(width, device=ids.device)
    marked = word_start[ids]
    opens = (marked | (position == 0)) & (position < lengths[..., None])
    column = torch.arange(references * width, device=ids.device).view(references, width).expand_as(ids)
    spans = (_next_opening(opens, lengths) - position).clamp(min=1)
    numbers = _segment_numbers(ids.flatten(1), spans.flatten(1)).view_as(ids)
    counts = opens.sum(-1)
    order, used = opens.long().argsort(stable=True, dim=-1, descending=True), position < counts[..., None]
    starts, longer, numbers = (values.gather(-1, order) * used for values in (column, spans - 1, numbers))
    return (starts, longer + 1, numbers, (~marked).gather(-1, order) & used, counts), None


def _next_opening(opens: Tensor, lengths: Tensor) -> Tensor:
    """The position of the next opening after each position, or the sequence's length: (B, K, R)."""
    position = torch.arange(opens.shape[-1], device=opens.device)
    here = torch.where(opens, position, lengths[..., None])
    soonest = here.flip(-1).cummin(-1).values.flip(-1)
    return torch.cat([soonest[..., 1:], lengths[..., None]], -1)[..., : opens.shape[-1]]


def _segment_numbers(ids: Tensor, spans: Tensor) -> Tensor:
    """A number for the ``spans`` tokens from each column on, equal iff the tokens are: (B, L).

    A run of s tokens, 2^k <= s < 2^(k+1), is given by its first and its last 2^k tokens, and those are numbered by
    doubling.
    """
    columns = ids.shape[1]
    position = torch.arange(columns, device=ids.device)
    table, size, key = dense_ranks(ids), 1, torch.zeros_like(ids)
    while size <= columns:
        last = table.gather(1, (position + spans - size).clamp(0, columns - 1))
        key = torch.where((spans >= size) & (spans < 2 * size), table * columns + last, key)
        table, size = dense_ranks(table * columns + table.roll(-size, 1)), 2 * size
    return dense_ranks(dense_ranks(key) * (columns + 1) + spans)
