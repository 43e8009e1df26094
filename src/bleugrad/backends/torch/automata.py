"""The automata that count n-grams: Knuth-Morris-Pratt over prefixes, with a level for each number of occurrences.

The automaton of an n-gram g = g_1..g_n is in state s where the longest prefix of g that the output ends in has s
tokens. A token g_j leads from s to j if the longest such prefix then has j tokens. Where j = n, g has occurred: the
automaton goes to the next level, and its state is the length of the longest shorter prefix that g ends in.

A level holds A, the probability that the automaton is in it, and x_s, s = 1..n-1, that it is in state s. State 0 has
the rest of A, so that tokens outside g need no probability. For CTC, x_s is split: z_s where the last frame was
blank, and x_s where it was g_s, so that g_s again changes nothing.

Each level is an automaton of its own, in a slot of ``slots.py``, and an occurrence leads to the next slot.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends.torch.slots import Slots


@dataclass(frozen=True)
class Automata:
    """The automata of the slots (B, L) of one order, whose states are W numbers A, x_1.., z_1.. each.

    ``order`` starts at 0. ``columns`` (B, L, J): the column of the token that leads to target j; the last target is the
    occurrence. ``table`` (B, L, W, J): how the numbers add up to the probability of being where the token leads to the
    target. ``landing`` (B, L, J - 1): 1 at the state that follows an occurrence. ``used`` (B, L): 1 for the slots that
    count. ``linked`` (B, L): 1 for the next level of the slot before it.
    """

    order: int
    columns: Tensor
    table: Tensor
    landing: Tensor
    used: Tensor
    linked: Tensor

    def start(self) -> Tensor:
        """(B, L, W): the first level, state 0."""
        return torch.nn.functional.pad((1 - self.linked).unsqueeze(2), (0, self.table.shape[2] - 1))

    def gathered(self, token_probs: Tensor) -> Tensor:
        """The probabilities of the tokens of the targets, (T, B, L, J), from those of the columns (T, B, L)."""
        steps = token_probs.shape[0]
        columns = self.columns.flatten(1).expand(steps, -1, -1)
        return token_probs.gather(2, columns).view(steps, *self.columns.shape)

    def emit(self, token_probs: Tensor, state: Tensor, blank: Tensor | None) -> tuple[Tensor, Tensor]:
        """The state after a token, and the probabilities of an occurrence, (B, L).

        Args:
            token_probs: (B, L, J), of the token of each target.
            state: (B, L, W), before it.
            blank: (B, 1, 1), the probability of a blank for CTC; None where there is none.
        """
        flow = token_probs * self._inflow(state)
        new, targets = flow[..., -1], flow.shape[-1] - 1
        risen = self.linked * new.roll(1, 1)
        states = flow[..., :-1] + risen.unsqueeze(2) * self.landing
        parts = [(state[..., 0] - new + risen).unsqueeze(2), states]
        if blank is not None:
            parts.append(blank * (state[..., 1 : 1 + targets] + state[..., 1 + targets :]))
        return torch.cat(parts, 2), new

    def pull(
        self, of_state: Tensor, of_new: Tensor, token_probs: Tensor, state: Tensor, blank: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Adjoint of :meth:`emit`: gradients of the state before, of token probabilities and of blank, (B,).

        ``of_new`` (B, 1) is the same for all slots that count.
        """
        targets = self.columns.shape[2] - 1
        of_level, of_states = of_state[..., 0], of_state[..., 1 : 1 + targets]
        higher = (self.linked * (of_level + (of_states * self.landing).sum(2))).roll(-1, 1)
        of_flow = torch.cat([of_states, (of_new * self.used - of_level + higher).unsqueeze(2)], 2)
        of_probs = of_flow * self._inflow(state)
        before = (self.table @ (of_flow * token_probs).unsqueeze(3)).squeeze(3)
        before[..., 0] += of_level
        if blank is None:
            return before, of_probs, None
        of_blanks = of_state[..., 1 + targets :]
        held = state[..., 1 : 1 + targets] + state[..., 1 + targets :]
        before[..., 1:] += (blank * of_blanks).repeat(1, 1, 2)
        return before, of_probs, (of_blanks * held).sum((1, 2))

    def _inflow(self, state: Tensor) -> Tensor:
        """The probability of being where the token of each target leads to it, (B, L, J)."""
        return (state.unsqueeze(2) @ self.table).squeeze(2)


def automata(clips: Tensor, ids: Tensor, dtype: torch.dtype, steps: int, merging: bool) -> list[Automata]:
    """The automata of all n-grams with a clip, (B, N, L), by order; ``ids`` (B, L) are the tokens of the columns.

    ``steps`` is the longest possible output: no higher level is ever reached. With ``merging`` they are those of CTC.
    """
    slots, found = Slots.of(clips, steps), []
    for order in range(clips.shape[1]):
        used, linked = (part[:, order].to(dtype) for part in (slots.used, slots.linked))
        columns = (slots.column[:, order, :, None] + torch.arange(order + 1, device=ids.device)).clamp(
            max=ids.shape[1] - 1
        )
        tokens = ids.gather(1, columns.flatten(1)).view_as(columns)
        if merging and order == 0:
            columns, table = columns.expand(-1, -1, 2), used.new_zeros(*used.shape, 3, 2)
            table[:, :, 0, 1], table[:, :, 1, 0], table[:, :, 1, 1] = 1, 1, -1
            landing = used.new_ones(*used.shape, 1)
        else:
            table, landing = (part.to(dtype) for part in _tables(tokens.unsqueeze(3) == tokens.unsqueeze(2), merging))
        found.append(Automata(order, columns, table, landing, used, linked))
    return found


def _tables(equal: Tensor, merging: bool) -> tuple[Tensor, Tensor]:
    """Table (B, L, W, n) and landing (B, L, n - 1) of n-grams whose tokens i and j are ``equal`` (B, L, n, n)."""
    size = equal.shape[2]
    ends_in = equal.new_zeros(*equal.shape[:2], size + 1)  # whether the prefix of s tokens ends in that of k
    ends_in[..., 0] = True
    later = torch.ones(size, size, dtype=torch.bool, device=equal.device).tril(-1)
    first = torch.arange(size, device=equal.device) == 0
    of_symbols, of_blanks = [first.expand(*equal.shape[:2], size).long()], []
    for s in range(1, size + 1):
        shifted = ends_in[..., :-1] & equal[:, :, s - 1]
        ends_in = torch.cat([torch.ones_like(shifted[..., :1]), shifted], -1)
        if s == size:
            break
        possible = ends_in[..., :-1].clone()
        longer = (possible.unsqueeze(3) & equal & later).any(2)
        leads = possible & ~longer
        of_blanks.append(leads.long() - first.long())
        if merging:
            leads = leads & ~equal[:, :, s - 1]
            stays = torch.arange(size, device=equal.device) == s - 1
            of_symbols.append(leads.long() + stays.long() - first.long())
    rows = of_symbols + of_blanks
    borders = ends_in[..., 1:size]
    landing = borders & (borders.flip(-1).long().cumsum(-1).flip(-1) == 1)
    return torch.stack(rows, 2), landing
