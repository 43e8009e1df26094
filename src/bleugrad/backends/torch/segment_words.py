"""Words of token references, numbered by sorting."""

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.segment_words`. O(B L log^2) time."""
    if ids.device.type not in SYNCHRONOUS:
        return _by_pairs(ids, lengths, word_start), None
    _, references, width = ids.shape
    position = torch.arange(width, device=ids.device)
    marked = word_start[ids]
    opens = (marked | (position == 0)) & (position < lengths[..., None])
    column = torch.arange(references * width, device=ids.device).view(references, width).expand_as(ids)
    spans = (_next_opening(opens, lengths) - position).clamp(min=1)
    numbers = _segment_numbers(ids.flatten(1), spans.flatten(1)).view_as(ids)
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


def _by_pairs(ids: Tensor, lengths: Tensor, word_start: Tensor) -> Outputs:
    """The same in few operations, in shapes that do not depend on the data: O(B L^2) memory."""
    _, references, width = ids.shape
    position, marked = torch.arange(width, device=ids.device), word_start[ids]
    opens = (marked | (position == 0)) & (position < lengths[..., None])
    number = opens.cumsum(-1)  # words so far
    begins = lengths[..., None].expand(-1, -1, width + 2).clone()
    begins = begins.scatter_(-1, number * opens, position.expand_as(ids))[..., 1:]
    counts = number[..., -1] if width else number.sum(-1)
    used, spans = position < counts[..., None], (begins[..., 1:] - begins[..., :-1]).clamp_(min=1)
    first = begins[..., :-1] * used
    numbers = _pair_numbers(ids, begins.gather(-1, number), position).gather(-1, first)
    continued = torch.zeros_like(marked)
    torch.logical_not(marked[..., :1], out=continued[..., :1])
    if references > 1:
        first = torch.arange(0, ids[0].numel(), width, device=ids.device)[:, None] * used + first
    return first, spans, numbers, continued, counts


def _pair_numbers(ids: Tensor, ends: Tensor, position: Tensor) -> Tensor:
    """As :func:`_segment_numbers`, the last column with the same tokens, for words that end before ``ends`` (B, K, R).

    Tokens are the same if what is left of their words is as long, too. For each pair of columns i and i + o the
    differences from there on are counted.
    """
    left, columns = (ends - position).flatten(1), ids.shape[1] * ids.shape[2]
    column, within = position, ends.flatten(1)
    if ids.shape[1] > 1:
        column = torch.arange(columns, device=ids.device)
        within = (left + column).clamp_(max=columns)
    tokens = torch.add(left, ids.flatten(1), alpha=columns + 1)
    other = torch.nn.functional.pad(tokens, (0, columns)).unfold(1, columns, 1)[:, :columns]  # [o, i] is i + o
    differences = (other != tokens[:, None]).cumsum(2, dtype=torch.int32)
    differences = torch.nn.functional.pad(differences, (1, 0))
    equal = differences.gather(2, within[:, None].expand_as(other)) == differences[..., :-1]
    return (column + (equal * column[:, None]).amax(1)).view_as(ids)


def _ranks(keys: Tensor) -> Tensor:
    """A number below the number of keys for each distinct key."""
    inverse: Tensor = torch.unique(keys, return_inverse=True)[1]
    return inverse
