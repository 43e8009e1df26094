"""The recursion over words in few operations, for devices that are not waited for.

The recursion of ``renewal.py`` is linear in w = -v, so that inside a block of positions it is a system of equations.
With the sources r^k_e, what u^k_e gets from before the block, and E the effect of a block's w on its u, ::

    u^k = r^k + E w^k,        w^k = u^{k-1} - u^k,        u^k = G r^k + P u^{k-1},   G = (I + E)^-1,   P = I - G

E only looks back, so G is one triangular solve, and P^s = 0 for s positions. P[e, x] is the probability of the next
occurrence at e after one at x: no powers of it can grow. Hence w^k = sum_{i <= s} (P^{i-1} - P^i) G r^{k-i}, where
P^{-1} is to be 0. Slot k of an n-gram (see ``slots.py``) holds the matrix of one i = (k - 1) mod (s + 1), by which it
multiplies the sources of the s + 1 slots from k - i on. So one product for each block does all numbers of occurrences,
and there are as many matrices as slots. Blocks are walked. The adjoint walks them backwards with the same matrices.

N is the sum of what all w so far give it. Each block adds its own share by a product with a matrix that all n-grams of
a sentence share. O(T s) memory for each slot: up to four matrices of s x s numbers for each block, one is kept.
"""

import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**28
"""Size of the matrices of all blocks, in numbers, up to which blocks are made longer."""

MOST_BLOCKS = 4
"""Number of blocks that may exceed ``BLOCK_ELEMENTS``, to save operations, while staying below ``MOST_ELEMENTS``."""

MOST_ELEMENTS = 2**31
"""Largest size of the matrices of all blocks, in numbers."""


def block_number(lanes: int, steps: int) -> int:
    """The number of blocks that T positions are cut into; ``lanes`` is the number of slots of the batch.

    >>> block_number(32 * 4 * 128, 128), block_number(3 * 4 * 1024, 1024), block_number(64 * 4 * 1024, 1024)
    (1, 6, 128)
    """
    square = lanes * steps**2
    return min(steps, max(min(-(-square // BLOCK_ELEMENTS), MOST_BLOCKS), -(-square // MOST_ELEMENTS)))


class RenewalBlocks:
    """The recursion, run forward: ``moves`` (T, B, N, L) is v.

    ``probs`` (T, B, N, L, N) as in :class:`bleugrad.backends.torch.slots.SlotRun`; ``lags`` (B, N, L, N) the tokens of
    the last j units; ``alive`` and ``opening`` (T, B) or None; ``earlier`` and ``weight`` (B, N, L) of
    :class:`bleugrad.backends.torch.slots.Slots`. S are the slots of a sentence, K the blocks, s their positions.
    """

    def __init__(
        self,
        probs: Tensor,
        lags: Tensor,
        alive: Tensor | None,
        opening: Tensor | None,
        earlier: Tensor,
        weight: Tensor,
    ) -> None:
        self.shape, self.alive, self.opening = probs.shape, alive, opening
        steps, batch, orders, columns, width = probs.shape
        self.lanes, many = orders * columns, batch * orders * columns
        self.number = block_number(many, steps)
        self.size = -(-steps // self.number)
        self.number = -(-steps // self.size)
        self.steps = self.number * self.size
        if self.steps > steps:
            probs = torch.nn.functional.pad(probs, (0, 0, 0, 0, 0, 0, 0, 0, 0, self.steps - steps))
        self.weights = probs.reshape(self.number, self.size, many, width)
        own = torch.arange(orders, device=lags.device)[:, None].expand(batch, -1, columns).reshape(1, many)
        self._fill_carry(probs)
        self._fill_cells(lags.view(many, width).t().contiguous(), own)
        self._fill_responses(self._effect(own), earlier.view(-1))
        self._fill_rows(weight.view(-1, 1))
        self._run(earlier)

    def _fill_carry(self, like: Tensor) -> None:
        """The matrices that all n-grams of a sentence share, from T positions to all.

        ``products`` (B, T + 2, T + 2): the chance to live from after x to y, 0 for y < x; both start before the first.
        ``carry`` (B, T, T): what w at x gives N at y.
        """
        batch, size = self.shape[1], self.steps + 2
        square = torch.ones(size, size, device=like.device, dtype=torch.bool)
        if self.alive is None:
            self.products = square.to(like.dtype).triu_().expand(batch, -1, -1)
        else:
            lives = self._extended(self.alive, 1)[:, None].expand(-1, size, -1)
            self.products = lives.masked_fill(square.tril_(), 1).cumprod_(2).triu_()
        self.identity = torch.eye(self.steps, device=like.device, dtype=like.dtype)
        opens = self.alive if self.opening is None else self.opening
        moved = self.products[:, 2:, 1:-1]
        if opens is None:
            self.carry = self.identity + moved
        else:
            self.carry = torch.addcmul(self.identity, self._extended(opens, 0)[:, 1:, None], moved)

    def _extended(self, values: Tensor, before: int) -> Tensor:
        """(T, B) to (B, T and more); 1 before the start and after the end."""
        return torch.nn.functional.pad(values.t(), (before, self.steps + 1 - values.shape[0]), value=1.0)

    def _fill_cells(self, lags: Tensor, own: Tensor) -> None:
        """``cells`` (K, s, N, B S): the rows of the state that u is made of: N at the start of a window, w elsewhere.

        ``near`` (s, N, B S): their positions in the block from 1 on, 0 before it.
        """
        ends = torch.arange(1, self.steps + 1, device=lags.device).view(self.number, self.size, 1, 1)
        cells = (ends - lags).clamp_(min=0)
        self.near = cells[0]
        self.cells = cells + torch.full_like(lags, self.steps + 1).scatter_(0, own, 0)

    def _effect(self, own: Tensor) -> Tensor:
        """E, (K, B S, s, s)."""
        number, size, batch = self.number, self.size, self.shape[1]
        blocks = self.carry.view(batch, number, size, number, size).diagonal(0, 1, 3).permute(3, 0, 2, 1)
        table = torch.nn.functional.pad(blocks, (1, 0, 1, 0))[:, :, None].expand(-1, -1, self.lanes, -1, -1)
        rows = self.near.gather(1, own.expand(size, -1, -1)).view(size, batch, self.lanes, 1).permute(1, 2, 0, 3)
        effect = table.gather(3, rows.expand(number, -1, -1, -1, size + 1)).flatten(1, 2)
        weights = self.weights.transpose(1, 2)  # (K, B S, s, N)
        windows = own.t()[:, None].expand(number, -1, size, -1)
        effect.mul_(weights.gather(3, windows))
        near = self.near.permute(2, 0, 1).expand(number, -1, -1, -1)
        effect.scatter_add_(3, near, weights.scatter(3, windows, 0))
        return effect[..., 1:]

    def _fill_responses(self, effect: Tensor, earlier: Tensor) -> None:
        """``responses`` (K, B S, s, s): w from the sources of k - i; ``after`` (B S,) is the i of each slot."""
        rounds, identity = (self.size - 1).bit_length(), self.identity[: self.size, : self.size]
        self.after = earlier % (self.size + 1)
        bits = (self.after[:, None] >> torch.arange(rounds, device=earlier.device)) & 1 > 0
        found = torch.linalg.solve_triangular(effect, identity.expand(effect.shape), upper=False, unitriangular=True)
        del effect
        power = identity - found
        for bit in range(rounds):
            power = torch.matmul(power, power) if bit else power
            found = torch.matmul(torch.where(bits[:, bit, None, None], power, identity), found)
        found = found * (self.after < self.size)[:, None, None]
        self.responses = found.roll(1, 1).mul_((self.after > 0)[:, None, None]).sub_(found)

    def _fill_rows(self, weight: Tensor) -> None:
        """``taken`` and ``given`` (B S s,): the slots that each slot's matrix takes sources from, and gives to.

        Those that do not exist give to one more slot, which is not read.
        """
        many = weight.shape[0]
        number = torch.arange(min(self.size + 1, self.shape[3]), device=weight.device)
        slot = torch.arange(many, device=weight.device)[:, None] + number
        self.taken = (slot - self.after[:, None]).clamp_(max=many - 1).view(-1)
        self.given = slot.masked_fill(number >= weight, many).view(-1)

    def _parts(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """N and w, (T + 1, B, S) each, from before the start on."""
        N, w = state[:, :-1].view(2, self.steps + 1, self.shape[1], self.lanes)
        return N, w

    def _values(self, cells: Tensor) -> Tensor:
        """The numbers of the state that u is made of, (positions, B S, N)."""
        index = cells.mT
        return self.state[:, :-1, None].expand(-1, -1, index.shape[2]).gather(0, index)

    def _run(self, earlier: Tensor) -> None:
        """``state`` (2 T + 2, B S + 1): N and then w, each from before the start on."""
        size, many, batch = self.size, self.weights.shape[2], self.shape[1]
        self.state = self.carry.new_zeros(2 * self.steps + 2, many + 1)
        N, w = self._parts(self.state)
        torch.mul(self.products[:, 0, :-1].t()[..., None], (earlier == 0).view(batch, self.lanes), out=N)
        N, w = N[1:].transpose(0, 1), w[1:].transpose(0, 1)
        for block, cells in enumerate(self.cells):
            here, later = slice(block * size, (block + 1) * size), slice(block * size, None)
            values = self._values(cells).view(size * many, 1, -1)
            sources = torch.bmm(values, self.weights[block].reshape(size * many, -1, 1)).view(size, many)
            found = self._respond(self.responses[block], sources.index_select(1, self.taken))
            self.state[self.steps + 2 :][here].index_add_(1, self.given, found)
            N[:, later].baddbmm_(self.carry[:, here, later].mT, w[:, here])
        self.moves = -w.transpose(0, 1)[: self.shape[0]].view(self.shape[:-1])

    def _respond(self, responses: Tensor, values: Tensor) -> Tensor:
        """The products of each slot's matrix (B S, s, s) and its columns of the values, (s, B S columns) both."""
        columns = values.view(self.size, responses.shape[0], -1)
        found = torch.empty_like(columns)
        torch.bmm(responses, columns.transpose(0, 1), out=found.transpose(0, 1))
        return found.view(values.shape)

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of ``probs``, ``alive`` and ``opening``, from that of v."""
        size, many = self.size, self.weights.shape[2]
        of_state = torch.zeros_like(self.state)
        of_N, of_w = (part[1:].transpose(0, 1) for part in self._parts(of_state))
        of_sources = self.state.new_zeros(self.number, size, many)
        torch.neg(grad.flatten(2).transpose(0, 1), out=of_w[:, : grad.shape[0]])
        for block in range(self.number - 1, -1, -1):
            here, later = slice(block * size, (block + 1) * size), slice(block * size, None)
            if block < self.number - 1:
                of_w[:, here].baddbmm_(self.carry[:, here, later], of_N[:, later])
            given = of_state[self.steps + 2 :][here].index_select(1, self.given)
            of_sources[block].index_add_(1, self.taken, self._respond(self.responses[block].mT, given))
            shares = torch.empty_like(self.cells[block], dtype=grad.dtype)
            torch.mul(self.weights[block].mT, of_sources[block][:, None], out=shares)
            of_state[:, :-1].scatter_add_(0, self.cells[block].flatten(0, 1), shares.flatten(0, 1))
        values = self._values(self.cells.flatten(0, 1))
        of_probs = (values * of_sources.view(-1, many, 1))[: self.shape[0]].view(self.shape)
        return of_probs, *self._of_stops(of_N)

    def _of_stops(self, of_N: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of ``alive`` and ``opening``: those of R times what R is made of, summed over the n-grams."""
        if self.alive is None and self.opening is None:
            return None, None
        of_R = torch.bmm(self.products[:, 1:-1, 1:-1], of_N).transpose(0, 1)
        N, w = (part[:-1] for part in self._parts(self.state))
        of_alive = of_opening = None
        if self.alive is not None:
            of_alive = (of_R * (N if self.opening is None else N - w)).sum(2)[: self.shape[0]]
        if self.opening is not None:
            of_opening = (of_R * w).sum(2)[: self.shape[0]]
        return of_alive, of_opening
