"""Words of token references, numbered by sorting."""

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.segment_words`. O(B L log^2) time."""
    _, references, width = ids.shape
    position = torch.arange(width, device=ids.device)
    marked = word_start[ids]
    opens = (marked | (position == 0)) & (position < lengths[..., None])
    column = torch.arange(references * width, device=ids.device).view(references, width).expand_as(ids)
    spans = (_next_opening(opens, lengths) - position).clamp(min=1)
    numbering = _segment_numbers if ids.device.type in SYNCHRONOUS else _pair_numbers
    numbers = numbering(ids.flatten(1), spans.flatten(1)).view_as(ids)
    counts = opens.sum(-1)
    order, used = opens.long().argsort(stable=True, dim=-1, descending=True), position < counts[..., None]
    values = torch.stack([column, spans - 1, numbers, ~marked])
    starts, longer, numbers, continued = values.gather(-1, order.expand_as(values)) * used
    return (starts, longer + 1, numbers, continued > 0, counts), None


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
    columns, number = ids.shape[1], max(1, ids.numel())
    position = torch.arange(columns, device=ids.device)
    table, size, key = _ranks(ids), 1, torch.zeros_like(ids)
    while size <= (int(spans.max()) if spans.numel() else 0):
        last = table.gather(1, (position + spans - size).clamp(0, max(columns - 1, 0)))
        key = torch.where((spans >= size) & (spans < 2 * size), table * number + last, key)
        table, size = _ranks(table * number + table.roll(-size, 1)), 2 * size
    return _ranks(_ranks(key) * (columns + 1) + spans)


def _pair_numbers(ids: Tensor, spans: Tensor) -> Tensor:
    """As :func:`_segment_numbers`, the first column with the same tokens, in shapes that do not depend on the data.

    For each pair of columns i and i + o it counts the differences among the tokens from there on: O(B L^2) memory.
    """
    batch, columns = ids.shape
    column = torch.arange(columns, device=ids.device)
    other = torch.nn.functional.pad(ids, (0, columns)).unfold(1, columns, 1)[:, :columns]  # [o, i] is i + o
    differs = torch.nn.functional.pad((other != ids[:, None]).int().cumsum(2), (1, 0))
    within = (column + spans).clamp(max=columns)[:, None].expand(batch, columns, columns)
    span = torch.nn.functional.pad(spans, (0, columns)).unfold(1, columns, 1)[:, :columns]
    equal = (differs.gather(2, within) == differs[..., :-1]) & (span == spans[:, None])
    source = column - column[:, None]  # [o, j] is j - o
    found = equal.gather(2, source.clamp(min=0).expand_as(equal)) & (source >= 0)
    return column - (found * column[:, None]).amax(1)


def _ranks(keys: Tensor) -> Tensor:
    """A number below the number of keys for each distinct key."""
    inverse: Tensor = torch.unique(keys, return_inverse=True)[1]
    return inverse
