"""The longest common subsequence of token ids, batched, for every prefix of the hypotheses."""

import torch
from torch import Tensor

from bleugrad.references.sequences import References
from bleugrad.scores.ngram_matrices import byte_planes, equal_bytes

BITS = 56
"""Positions of a reference in one integer: seven bytes, which leaves room for a carry."""


def common_subsequences(hypotheses: Tensor, lengths: Tensor, references: References) -> Tensor:
    """Length of the longest common subsequence of each prefix and each reference: (B, T) to (B, K, T + 1) long.

    Bit-parallel (Hyyro, 2004): bit j of V is 0 where the subsequence grows at position j of the reference. A token
    whose positions in the reference are the bits of M leads from V to ``(V + (V & M)) | (V & ~M)``, and the zeros of V
    are counted. References of more than 56 tokens take several integers with carries. O(T R / 56) steps on (B, K)
    integers after O(T R) comparisons. Hypotheses are closed up. Prefixes longer than a hypothesis have its value.
    """
    masks, full = _position_masks(hypotheses, lengths, references), (1 << BITS) - 1
    state = torch.full_like(masks[:, 0], full)
    history = [state]
    for t in range(hypotheses.shape[1]):
        carry: Tensor | int = 0
        new = []
        for old, mask in zip(state, masks[:, t], strict=True):
            total = old + (old & mask) + carry
            carry = total >> BITS
            new.append((total & full) | (old & ~mask))
        state = torch.stack(new)
        history.append(state)
    return _ones(torch.stack(history, 3) ^ full).sum(0).permute(1, 0, 2)


def _position_masks(hypotheses: Tensor, lengths: Tensor, references: References) -> Tensor:
    """(W, T, K, B): the positions of each token of the hypotheses in the references, as bits of W integers."""
    (batch, steps), (_, number, width) = hypotheses.shape, references.ids.shape
    words, position = max(1, -(-width // BITS)), torch.arange(max(steps, width), device=hypotheses.device)
    x = hypotheses.masked_fill(position[:steps] >= lengths[:, None], -1).t()
    y = references.ids.masked_fill(position[:width] >= references.lengths[..., None], -2)
    y = torch.nn.functional.pad(y, (0, words * BITS - width), value=-2).permute(1, 2, 0)
    x_bytes, y_bytes = byte_planes(x, y)
    masks = torch.zeros(words, steps, number, batch, dtype=torch.long, device=x.device)
    for byte in range(-(-width // 8)):
        here = slice(8 * byte, 8 * byte + 8)
        equal = equal_bytes([plane[:, here] for plane in y_bytes], [plane[:, None, None] for plane in x_bytes])
        bits = equal[:, :, 0]
        for bit in range(1, 8):
            bits = bits | (equal[:, :, bit] << bit)
        word, place = divmod(byte, BITS // 8)
        masks[word] |= bits.long() << (8 * place)
    return masks


def _ones(values: Tensor) -> Tensor:
    """The number of ones among the bits of integers of at least 0."""
    values = values - ((values >> 1) & 0x5555555555555555)
    values = (values & 0x3333333333333333) + ((values >> 2) & 0x3333333333333333)
    values = (values + (values >> 4)) & 0x0F0F0F0F0F0F0F0F
    values = values + (values >> 8)
    values = values + (values >> 16)
    return (values + (values >> 32)) & 0x7F
