"""The recursion over tokens in logarithmically many operations, for devices that are not waited for.

With v^k_e = a_e N^k_{e-1} - N^k_e the recursion of ``renewal.py`` is one of N alone. With the generating function
N_e(z) = sum_k N^k_e z^(k-1) it is ::

    N_e(z) = a_e N_{e-1}(z) - (1 - z) sum_{i = 1..n} beta_i(e) N_{e-i}(z)

where beta holds q_e at i = n and, for each shift d at which the n-gram overlaps itself, tail(e, d) at i = d and
-a_{e-d} tail(e, d) at i = d + 1. A step multiplies the row (N_{e-1}, .., N_{e-W}) by a W x W matrix of polynomials in
z, W = N. Steps are multiplied in pairs: up to the products of blocks of positions, then down to the rows at each
position. The gradient of the rows follows from the same blocks, transposed, and that of a step is the product of the
row before it and the gradient of the row after it. Polynomials are cut off at the clip c, and a block of 2^l positions
has degree 2^l at most. So the coefficients of an n-gram fill its c slots (see ``slots.py``), and a product of two
levels has T L terms whatever the clips are.

About 6 N^2 times the memory of the window probabilities. A few operations for each of log2 T levels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Polynomials:
    """Products of matrices of polynomials (blocks, S + 1, rows, columns) whose coefficients are laid out in slots.

    The right factor has degree D - 1 at most. The first slot is not used and stays 0. ``lower`` and ``other``
    ((S + 1) D,): the slots whose coefficients of degree k - d and d are multiplied for slot (n-gram, k); ``upper``: the
    slot of degree k + d, the first where there is none.
    """

    lower: Tensor
    other: Tensor
    upper: Tensor
    other_of_upper: Tensor

    @classmethod
    def of(cls, earlier: Tensor, weight: Tensor, rounds: int) -> "list[Polynomials]":
        """From the slots (S,) of the same n-gram before each slot, and their number from it on; for degrees 2^level."""
        earlier, weight = (torch.nn.functional.pad(one, (1, 0))[:, None] for one in (earlier, weight))
        slot = torch.arange(len(earlier), device=earlier.device)[:, None]
        degree = torch.arange(2 ** (rounds - 1) + 1, device=earlier.device)
        inside, follows, other = degree <= earlier, degree < weight, slot - earlier + degree
        found = [(slot - degree) * inside, other * inside, (slot + degree) * follows, other * follows]
        slots = torch.stack(found)
        return [cls(*slots[:, :, : 2**level + 1].flatten(1)) for level in range(rounds)]

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """left * right; ``left`` is transposed."""
        return self._take(left, self.lower).mT @ self._take(right, self.other)

    def pull(self, grad: Tensor, right: Tensor) -> Tensor:
        """The gradient of a row that was multiplied by the right factor; all of them are transposed."""
        return (self._take(grad, self.upper).mT @ self._take(right, self.other_of_upper)).mT

    def share(self, grad: Tensor, left: Tensor) -> Tensor:
        """The gradient of one column of the right factor; ``left`` is a row, transposed."""
        shares = self._take(left, self.lower) @ grad
        return torch.zeros_like(left).index_add_(1, self.other, shares.view(len(left), -1, *left.shape[2:]))

    @staticmethod
    def _take(values: Tensor, slots: Tensor) -> Tensor:
        """(blocks, S + 1, rows, columns) to (blocks, S + 1, D rows, columns): the degrees below each other."""
        taken: Tensor = values.index_select(1, slots)
        return taken.view(*values.shape[:2], -1, values.shape[3])


class TransferTree:
    """The recursion, run forward: ``moves`` (T, B, N, L) is v.

    ``probs`` (T, B, N, L, N) and ``own`` as in :class:`bleugrad.backends.torch.slots.SlotRun`, ``alive`` (T, B) or
    None, ``earlier`` and ``weight`` (B, N, L) of :class:`bleugrad.backends.torch.slots.Slots`.
    """

    def __init__(self, probs: Tensor, own: Tensor, alive: Tensor | None, earlier: Tensor, weight: Tensor) -> None:
        (steps, *_, width) = probs.shape
        pad, self.own, self.shape = torch.nn.functional.pad, own, probs.shape
        self.lives = None if alive is None else alive[:, :, None, None]
        self.tails = self.shifted = probs.masked_fill(own, 0)[..., :-1]
        if alive is not None:  # a_{e-d}, 1 before the start
            windows = pad(alive, (0, 0, width - 1, 0), value=1.0).unfold(0, width, 1)
            self.earlier = windows[..., None, None, :-1].flip(4)
            self.shifted = self.tails * self.earlier
        beta = (probs - pad(self.shifted, (1, 0))).flatten(1, 3)
        weights, earlier, weight = weight.shape, earlier.flatten(), weight.flatten()
        self.constant = (earlier == 0).to(probs.dtype)
        self.change = (earlier == 1).add(self.constant, alpha=-1)
        self.rounds = max(steps - 1, 1).bit_length()
        self.polynomials = Polynomials.of(earlier, weight, self.rounds)
        leaves = probs.new_zeros(2**self.rounds, len(earlier) + 1, width, width)
        column, moved = leaves[:steps, 1:, :, 0], leaves[:steps, 1:, :, 1:]
        torch.mul(self.change[:, None], beta, out=column)
        lives = self.constant.view(weights)
        if self.lives is not None:
            lives = torch.mul(self.lives, lives, out=probs.new_empty(steps, *weights))
        column[..., 0].add_(lives.flatten(-3))
        identity = torch.eye(width, device=beta.device, dtype=beta.dtype)[:, :-1]
        torch.mul(identity.expand(steps, 1, -1, -1), self.constant[:, None, None], out=moved)
        self.blocks = [leaves]
        self.transposed = [self.blocks[0].mT.contiguous()]  # what is contracted must be contiguous
        for level in range(self.rounds - 1):
            left, right = self.transposed[-1][::2], self.blocks[-1][1::2]
            self.blocks.append(self.polynomials[level].product(left, right))
            self.transposed.append(self.blocks[-1].mT.contiguous())
        self.row = pad(self.constant, (1, 0))[None, :, None, None].expand(1, -1, width, 1)
        after = self.blocks[-1][:1].sum(2).unsqueeze(3)  # all numbers of the first row are 1
        for level in range(self.rounds - 1, -1, -1):
            if level < self.rounds - 1:
                after = self.polynomials[level].product(self.row, self.blocks[level][::2]).mT
            self.row = torch.stack([self.row, after], 1).flatten(0, 1)
        self.row = self.row[:steps]
        levels = self.polynomials[0].product(self.row, self.blocks[0][:steps, :, :, :1])
        self.before = self.row[:, 1:, 0, 0].view(probs.shape[:-1])
        moves = self.before if self.lives is None else self.lives * self.before
        self.moves = moves - levels[:, 1:, 0, 0].view(probs.shape[:-1])

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """The gradients of ``probs`` and ``alive``, from that of v.

        The gradient of the row before a step is that of the row after it times the step's matrix, plus what v gives.
        Blocks of steps are combined as in the forward run: up to what each block gives, then down to each step.
        """
        pad, polynomials, (steps, *_, width) = torch.nn.functional.pad, self.polynomials, self.shape
        later = grad if self.lives is None else grad * self.lives
        given = (pad(later[1:], (0, 0, 0, 0, 0, 0, 0, 1)) - grad).flatten(1)
        given = pad(given[..., None, None], (0, 0, 0, width - 1, 1, 0, 0, 2**self.rounds - steps))
        blocks = [polynomials[0].pull(given, self.transposed[0])]
        for level in range(self.rounds - 1):
            left, right = blocks[-1][::2], blocks[-1][1::2]
            blocks.append(left + polynomials[level].pull(right, self.transposed[level][::2]))
        after = torch.zeros_like(blocks[-1][:1])
        for level in range(self.rounds - 1, -1, -1):
            middle = blocks[level][1::2]
            if level < self.rounds - 1:
                middle = middle + polynomials[level].pull(after, self.transposed[level][1::2])
            after = torch.stack([middle, after], 1).flatten(0, 1)
        of_column = polynomials[0].share((given + after)[:steps, :, :1], self.row)[:, 1:, :, 0]
        of_beta = (of_column * self.change[:, None]).view(self.shape)
        of_shifted = of_beta[..., 1:]
        of_tails = of_shifted if self.lives is None else of_shifted * self.earlier
        of_probs = of_beta - pad(of_tails, (0, 1)).masked_fill_(self.own, 0)
        if self.lives is None:
            return of_probs, None, None
        of_lives = (of_column[..., 0] * self.constant).view(grad.shape)
        of_alive = torch.addcmul(of_lives, grad, self.before).sum((2, 3))
        of_earlier = (of_shifted * self.tails).sum((2, 3))
        for shift in range(1, min(width, steps)):
            of_alive[:-shift].sub_(of_earlier[shift:, :, shift - 1])
        return of_probs, of_alive, None
