"""Words of token references, numbered by sorting."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.references.ngrams import dense_ranks
from bleugrad.references.sequences import close_up


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.segment_words`. O(L log^2 L) time."""
    references, width = ids.shape[1:]
    position = torch.arange(width, device=ids.device)
    inside = position < lengths[..., None]
    marked = word_start[ids]
    opens = (marked | (position == 0)) & inside
    column = torch.arange(references * width, device=ids.device).view(references, width).expand_as(opens)
    spans = (_next_opening(opens, lengths) - position).clamp(min=1)
    numbers = _segment_numbers(ids.flatten(1), spans.flatten(1)).view_as(spans)
    (numbers, counts), (starts, _), (spans, _) = (close_up(values, opens) for values in (numbers, column, spans))
    continued = close_up((~marked).long(), opens)[0].bool()
    return (starts, spans.clamp(min=1), numbers, continued, counts), None


def _next_opening(opens: Tensor, lengths: Tensor) -> Tensor:
    """The position of the next opening after each position, or the sequence's length: (B, K, R)."""
    position = torch.arange(opens.shape[-1], device=opens.device)
    here = torch.where(opens, position, lengths[..., None])
    soonest = here.flip(-1).cummin(-1).values.flip(-1)
    return torch.cat([soonest[..., 1:], lengths[..., None]], -1)[..., : opens.shape[-1]]


def _segment_numbers(ids: Tensor, spans: Tensor) -> Tensor:
    """A number for the ``spans`` tokens from each column on, equal within a row iff the tokens are: (B, L).

    A run of s tokens, 2^k <= s < 2^(k+1), is given by its first and its last 2^k tokens, and those are numbered by
    doubling: O(L log^2 L) time.
    """
    columns = ids.shape[1]
    longest = int(spans.max()) if spans.numel() else 0
    position = torch.arange(columns, device=ids.device)
    table, size, key = dense_ranks(ids), 1, torch.zeros_like(ids)
    while size <= longest:
        last = table.gather(1, (position + spans - size).clamp(0, max(columns - 1, 0)))
        key = torch.where((spans >= size) & (spans < 2 * size), table * columns + last, key)
        table, size = dense_ranks(table * columns + table.roll(-size, 1)), 2 * size
    return dense_ranks(dense_ranks(key) * (columns + 1) + spans)
