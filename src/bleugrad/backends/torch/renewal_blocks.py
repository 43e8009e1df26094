"""The recursion over words in few operations, for devices that are not waited for.

The recursion of ``renewal.py`` is linear in v, so that inside a block of positions it is a system of equations. With
the sources r^k_e, what u^k_e gets from before the block, and C the effect of a block's v on its u, ::

    u^k = r^k + C v^k,        v^k = u^k - u^{k-1},        u^k = G r^k + P u^{k-1},   G = (I - C)^-1,   P = I - G

C only looks back, so G is one triangular solve, and P^s = 0 for s positions. P[e, x] is the probability of the next
occurrence at e after one at x: no powers of it can grow. Hence v^k = sum_{i < s} (P^i - P^{i-1}) G r^{k-i}, with
P^{-1} = 0: a product with one matrix for each block and slot, whatever the number of occurrences. Blocks are walked.
The adjoint walks them backwards with the same matrices.

A block's numbers stand side by side: R at its first position, -v, and N, and then the next block's R, since N and that
R are a product of the first two with a matrix that all n-grams of a sentence share. What was before the start is a
block, too. O(T s^2) memory for each slot.
"""

import torch
from torch import Tensor

BLOCK = 16
"""Positions of a block, ..."""

BLOCK_ELEMENTS = 2**28
"""... or half of them where the matrices of all blocks would have more numbers than this."""


class RenewalBlocks:
    """The recursion, run forward: ``moves`` (T, B, N, L) is v.

    ``probs`` (T, B, N, L, N) as in :class:`bleugrad.backends.torch.slots.SlotRun`; ``lags`` (B, N, L, N) the tokens of
    the last j units; ``alive`` and ``opening`` (T, B) or None; ``earlier`` and ``weight`` (B, N, L) of
    :class:`bleugrad.backends.torch.slots.Slots`.
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
        size = min(BLOCK, 2 ** max(steps - 1, 1).bit_length())
        self.size = size // 2 if many * steps * size**2 > BLOCK_ELEMENTS else size
        self.number, self.stride = -(-steps // self.size), 2 * self.size + 1
        self.more = self.number * self.size - steps
        if self.more:
            probs = torch.nn.functional.pad(probs, (0, 0, 0, 0, 0, 0, 0, 0, 0, self.more))
        weights = probs.permute(1, 2, 3, 0, 4).reshape(batch, self.lanes, self.number, self.size, width)
        own = torch.arange(self.lanes, device=lags.device).div_(columns, rounding_mode="floor")
        own = own.view(-1, 1, 1, 1).expand(batch, -1, 1, self.size, 1)
        after = torch.arange(1, self.size + 1, device=lags.device)[:, None] - lags.view(batch, self.lanes, 1, 1, width)
        self.first = (earlier.view(-1) == 0).to(probs.dtype)
        self._fill_carries(probs)
        effect = self._effect(weights, own, after)
        self.cells, self.weights = self._sources(weights, effect, own, after)
        self._fill_responses(effect[..., 1:], earlier, weight)
        self._run()

    def _fill_carries(self, like: Tensor) -> None:
        """The matrices that all n-grams of a sentence share, (B, K, s + 1, s + 1).

        ``products``: the chance to live from after x to y, 0 for y < x; the last position is the next block's first.
        ``carry``: from the rows R and -v to the columns N and the next R.
        """
        batch, size = self.shape[1], self.size + 1
        square = torch.ones(size, size, device=like.device, dtype=torch.bool)
        if self.alive is None:
            self.products = square.to(like.dtype).triu_().expand(batch, self.number, -1, -1)
        else:
            lives = self._unfolded(self.alive)[:, :, None].expand(-1, -1, size, -1)
            self.products = lives.masked_fill(square.tril_(), 1).cumprod_(3).triu_()
        moved = self.products[:, :, 1:]
        opens = self.alive if self.opening is None else self.opening
        if opens is not None:
            moved = moved * self._unfolded(opens)[:, :, 1:, None]
        stays = torch.eye(self.size, size, device=like.device, dtype=like.dtype)
        self.carry = torch.cat([self.products[:, :, :1], moved + stays], 2)

    def _unfolded(self, values: Tensor) -> Tensor:
        """(T, B) to the positions of each block and the next one, (B, K, s + 1); 1 after the end."""
        padded = torch.nn.functional.pad(values, (0, 0, 0, self.more + 1), value=1.0)
        return padded.t().unfold(1, self.size + 1, self.size)

    def _effect(self, weights: Tensor, own: Tensor, after: Tensor) -> Tensor:
        """(B, S, K, s, s + 1): what u gets from R and -v of its own block."""
        within, column = weights.masked_fill(after <= 0, 0), after.clamp(min=0)
        rows = column.gather(4, own).expand(-1, -1, self.number, -1, self.size + 1)
        N = torch.nn.functional.pad(self.carry, (1, 0)).mT[:, None].expand(-1, self.lanes, -1, -1, -1).gather(3, rows)
        own = own.expand(-1, -1, self.number, -1, -1)
        effect = N * within.gather(4, own)
        return effect.scatter_add_(4, column.expand_as(within), within.scatter(4, own, 0))

    def _sources(self, weights: Tensor, effect: Tensor, own: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The cells that u gets its sources from, and their weights: (B S, K, s (N + 1)) each.

        Cells of the block itself are 0 while it is computed, but for R.
        """
        size, device = self.size, after.device
        begins = torch.arange(size - 1, (self.number + 1) * size - 1, size, device=device)[:, None, None]
        source = (after + begins).clamp_(min=0)
        kept = (torch.arange(self.shape[4], device=device) == own[..., :1, :]) * size
        cells = source.add(source.div(size, rounding_mode="floor"), alpha=size + 1) + (kept + 1)
        ends = (self.number + 1) * self.stride
        carried = torch.arange(self.stride, ends, self.stride, device=device)[:, None, None]
        flat = (weights.shape[0] * self.lanes, self.number, -1)
        cells = torch.cat([cells, carried.expand(*cells.shape[:4], 1)], 4)
        return cells.view(flat), torch.cat([weights, effect[..., :1]], 4).view(flat)

    def _fill_responses(self, effect: Tensor, earlier: Tensor, weight: Tensor) -> None:
        """``responses`` (B S, K, s, i s): -v from the sources of k - i.

        ``down`` and ``up``: where the slots of k - i and k + i are.
        """
        size, lanes = self.size, len(self.first)
        identity = torch.eye(size, device=effect.device, dtype=effect.dtype)
        solved = torch.linalg.solve_triangular(
            effect, identity.expand(effect.shape), upper=False, unitriangular=True
        ).view(-1, size, size)
        powers, power = solved, identity - solved
        while powers.shape[2] < size**2:
            powers = torch.cat([powers, torch.bmm(power, powers)], 2)
            power = torch.bmm(power, power) if powers.shape[2] < size**2 else power
        responses = torch.nn.functional.pad(powers[..., :-size], (size, 0)) - powers
        self.responses = responses.view(lanes, self.number, size, size**2)
        slot = torch.arange(1, lanes + 1, device=effect.device)[:, None]  # row 0 of the state holds 0
        number = torch.arange(size, device=effect.device)
        self.down = ((slot - number) * (number <= earlier.view(-1, 1))).view(-1)
        rows = (slot + number) * (number < weight.view(-1, 1))
        width = (self.number + 2) * self.stride
        self.up = (rows[:, None] * width + torch.arange(size, device=effect.device)[:, None]).view(-1)

    def _run(self) -> None:
        """``state`` (B S + 1, cells): a row of zeros first, for what does not exist."""
        size, stride, lanes, batch = self.size, self.stride, len(self.first), self.shape[1]
        self.state = self.carry.new_zeros(lanes + 1, (self.number + 2) * stride)
        own, sources = self.state[1:], self.state.new_zeros(lanes + 1, size)
        sentences = own.view(batch, self.lanes, -1)
        own[:, stride - 1] = self.first
        sentences[..., stride] = self.first.view(batch, -1) * (1 if self.alive is None else self.alive[0][:, None])
        for block in range(self.number):
            at = (block + 1) * stride
            taken = own.gather(1, self.cells[:, block]) * self.weights[:, block]
            torch.sum(taken.view(lanes, size, -1), 2, out=sources[1:])
            near = sources.index_select(0, self.down).view(lanes, -1, 1)
            torch.bmm(self.responses[:, block], near, out=own[:, at + 1 : at + 1 + size, None])
            known, found = sentences[..., at : at + 1 + size], sentences[..., at + 1 + size : at + stride + 1]
            torch.bmm(known, self.carry[:, block], out=found)
        self.moves = -self._blocks(self.state)[..., 1 : 1 + size].flatten(1).view(batch, *self.shape[2:4], -1)
        self.moves = self.moves[..., : self.shape[0]].permute(3, 0, 1, 2)

    def _blocks(self, state: Tensor, first: int = 0) -> Tensor:
        """The cells of the blocks (B S, K, 2 s + 1) from the given one on."""
        first += self.stride
        return state[1:, first : first + self.number * self.stride].view(-1, self.number, self.stride)

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of ``probs``, ``alive`` and ``opening``, from that of v."""
        size, stride, lanes, batch = self.size, self.stride, len(self.first), self.shape[1]
        of_state = torch.zeros_like(self.state)
        own, of_sources = of_state[1:], self.state.new_empty(lanes, self.number, size)
        sentences, flat = own.view(batch, self.lanes, -1), of_state.view(-1)
        if self.more:
            grad = torch.nn.functional.pad(grad, (0, 0, 0, 0, 0, 0, 0, self.more))
        torch.neg(
            grad.permute(1, 2, 3, 0).view(lanes, self.number, size), out=self._blocks(of_state)[..., 1 : 1 + size]
        )
        for block in range(self.number - 1, -1, -1):
            at = (block + 1) * stride
            of_known, of_next = sentences[..., at : at + 1 + size], sentences[..., at + 1 + size : at + stride + 1]
            of_known.baddbmm_(of_next, self.carry[:, block].mT)
            near = flat[at + 1 :].index_select(0, self.up).view(lanes, 1, -1)
            responses = self.responses[:, block].view(lanes, size**2, size)
            torch.bmm(near, responses, out=of_sources[:, block, None])
            shares = of_sources[:, block, :, None] * self.weights[:, block].view(lanes, size, -1)
            own.scatter_add_(1, self.cells[:, block], shares.view(lanes, -1))
        taken = self.state[1:].gather(1, self.cells.flatten(1)).view(lanes, self.number, size, -1)[..., :-1]
        of_probs = (taken * of_sources.unsqueeze(3)).view(*self.shape[1:4], -1, self.shape[4])
        of_probs = of_probs[..., : self.shape[0], :].permute(3, 0, 1, 2, 4)
        return of_probs, *self._of_stops(of_state)

    def _of_stops(self, of_state: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of ``alive`` and ``opening``: those of R times what R is made of, summed over the n-grams."""
        if self.alive is None and self.opening is None:
            return None, None
        size, batch = self.size, self.shape[1]
        of_next = self._blocks(of_state, 1 + size)[..., : size + 1].view(batch, self.lanes, self.number, -1)
        of_R = (of_next.transpose(1, 2) @ self.products.mT)[..., :size].transpose(1, 2).flatten(2)
        blocks = self._blocks(self.state)
        moved, N = blocks[..., 1 : 1 + size].flatten(1), blocks[..., 1 + size :].flatten(1)
        moved = torch.nn.functional.pad(moved[:, :-1], (1, 0))
        N = torch.cat([self.first[:, None], N[:, :-1]], 1)
        parts = torch.stack([N if self.opening is None else N - moved, moved])
        of_alive, of_opening = torch.einsum("pbst,bst->ptb", parts.view(2, batch, self.lanes, -1), of_R)
        alive, opening = (one[: self.shape[0]] for one in (of_alive, of_opening))
        return None if self.alive is None else alive, None if self.opening is None else opening
