"""The recursion over tokens in logarithmically many operations, for devices that are not waited for.

With v^k_e = a_e N^k_{e-1} - N^k_e the recursion of ``renewal.py`` is one of N alone. With the generating function
N_e(z) = sum_k N^k_e z^(k-1) it is ::

    N_e(z) = a_e N_{e-1}(z) - (1 - z) sum_{i = 1..n} beta_i(e) N_{e-i}(z)

where beta holds q_e at i = n and, for each shift d at which the n-gram overlaps itself, tail(e, d) at i = d and
-a_{e-d} tail(e, d) at i = d + 1. A step multiplies the row (N_{e-1}, .., N_{e-W}) by a W x W matrix of polynomials in
z, W = N. Steps are multiplied in pairs: up to the products of blocks of positions, then down to the rows at each
position. Polynomials are cut off at the clip c, and a block of 2^l positions has degree 2^l at most. So the
coefficients of an n-gram fill its c slots (see ``slots.py``), and a product of two levels has T L terms whatever the
clips are.

About 4 N^2 times the memory of the window probabilities. A few operations for each of log2 T levels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Polynomials:
    """Products of matrices of polynomials (blocks, S + 1, rows, columns) whose coefficients are laid out in slots.

    The last slot is not used and stays 0. ``lower`` and ``other`` (D, S + 1): the slots whose coefficients of degree
    k - d and d are multiplied for slot (n-gram, k); ``upper``: the slot of degree k + d, the last where there is none.
    """

    lower: Tensor
    other: Tensor
    upper: Tensor
    other_of_upper: Tensor

    @classmethod
    def of(cls, first: Tensor, most: int) -> "Polynomials":
        """From the first slot (S,) of each slot's n-gram, or itself where it is not used; degrees up to ``most``."""
        unused = first.shape[0]
        begin = torch.nn.functional.pad(first, (0, 1), value=unused)
        slot = torch.arange(unused + 1, device=first.device)
        degree = torch.arange(most + 1, device=first.device)[:, None]
        inside = degree <= slot - begin
        above = (slot + degree).clamp(max=unused)
        follows = begin[above] == begin
        return cls(
            torch.where(inside, slot - degree, unused),
            torch.where(inside, begin + degree, unused),
            torch.where(follows, above, unused),
            torch.where(follows, (begin + degree).clamp(max=unused), unused),
        )

    def product(self, left: Tensor, right: Tensor, most: int) -> Tensor:
        """left * right, where the degree of the right is at most ``most``."""
        return (_take(left, self.lower, most) @ _take(right, self.other, most)).sum(1)

    def adjoint(self, grad: Tensor, left: Tensor, right: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """The gradients of left and right."""
        of_left = (_take(grad, self.upper, most) @ _take(right, self.other_of_upper, most).mT).sum(1)
        shares = _take(left, self.lower, most).mT @ grad.unsqueeze(1)
        of_right = torch.zeros_like(right, memory_format=torch.contiguous_format)
        of_right.index_add_(1, _index(self.other, most), shares.flatten(1, 2))
        return of_left, of_right


def _index(slots: Tensor, most: int) -> Tensor:
    return slots[: min(most + 1, slots.shape[0])].reshape(-1)


def _take(values: Tensor, slots: Tensor, most: int) -> Tensor:
    """(blocks, S + 1, ...) to (blocks, D, S + 1, ...)."""
    taken: Tensor = values.index_select(1, _index(slots, most))
    return taken.view(taken.shape[0], -1, slots.shape[1], *taken.shape[2:])


class TransferTree:
    """The recursion, run forward: ``levels`` (T, S) is N_e.

    ``beta`` (T, S, W), ``alive`` (T, S) or None, ``first`` (S,) as for :class:`Polynomials`.
    """

    def __init__(self, beta: Tensor, alive: Tensor | None, first: Tensor) -> None:
        steps, slots, width = beta.shape
        self.beta, self.alive, pad = beta, alive, torch.nn.functional.pad
        slot = torch.arange(slots, device=beta.device)
        self.constant, self.linear = (slot == first).to(beta.dtype), (slot == first + 1).to(beta.dtype)
        rounds = max(steps - 1, 1).bit_length()
        self.polynomials = Polynomials.of(first, min(2**rounds // 2, steps))
        step = (self.linear - self.constant)[:, None] * beta
        lives = self.constant.expand(steps, -1) if alive is None else alive * self.constant
        column = step + pad(lives.unsqueeze(2), (0, width - 1))
        moved = torch.eye(width, device=beta.device, dtype=beta.dtype)[:, :-1] * self.constant[:, None, None]
        leaves = torch.cat([column.unsqueeze(3), moved.expand(steps, -1, -1, -1)], 3)
        self.blocks = [pad(leaves, (0, 0, 0, 0, 0, 1, 0, 2**rounds - steps))]
        for level in range(rounds - 1):
            below = self.blocks[-1]
            self.blocks.append(self.polynomials.product(below[::2], below[1::2], 2**level))
        row = pad(self.constant, (0, 1))[None, :, None, None].expand(1, -1, 1, width)
        self.rows = [row]
        for level in range(rounds - 1, -1, -1):
            row = self.rows[-1]
            after = self.polynomials.product(row, self.blocks[level][::2], 2**level)
            self.rows.append(torch.stack([row, after], 1).flatten(0, 1))
        self.row = self.rows[-1][:steps]
        self.last = self.blocks[0][:steps, :, :, :1]
        self.before = self.row[:, :-1, 0, 0]
        self.levels = self.polynomials.product(self.row, self.last, 1)[:, :-1, 0, 0]

    def backward(self, of_levels: Tensor, of_before: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradients of ``beta`` and ``alive``, from those of N_e and N_{e-1} (T, S)."""
        steps, _, width = self.beta.shape
        pad = torch.nn.functional.pad
        rounds = len(self.rows) - 1
        given = pad(of_levels[..., None, None], (0, 0, 0, 0, 0, 1))
        of_row, of_last = self.polynomials.adjoint(given, self.row, self.last, 1)
        of_row = of_row + pad(of_before[..., None, None], (0, width - 1, 0, 0, 0, 1))
        of_row = pad(of_row, (0, 0, 0, 0, 0, 0, 0, 2**rounds - steps))
        of_lefts = []
        for level in range(rounds):
            own, after = of_row[::2], of_row[1::2]
            row, block = self.rows[rounds - 1 - level], self.blocks[level][::2]
            of_own, of_left = self.polynomials.adjoint(after, row, block, 2**level)
            of_row = own + of_own
            of_lefts.append(of_left)
        of_block = None
        for level in range(rounds - 1, -1, -1):
            of_left, of_right = of_lefts[level], torch.zeros_like(of_lefts[level])
            if of_block is not None:
                below = self.blocks[level]
                more, of_right = self.polynomials.adjoint(of_block, below[::2], below[1::2], 2**level)
                of_left = of_left + more
            of_block = torch.stack([of_left, of_right], 1).flatten(0, 1)
        assert of_block is not None
        of_column = (of_block[:steps, :-1, :, :1] + of_last[:, :-1]).squeeze(3)
        of_beta = of_column * (self.linear - self.constant)[:, None]
        return of_beta, None if self.alive is None else of_column[..., 0] * self.constant
