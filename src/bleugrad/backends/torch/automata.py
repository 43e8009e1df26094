"""The automata that count n-grams: Knuth-Morris-Pratt over prefixes, with a level for each number of occurrences.

The automaton of an n-gram g = g_1..g_n is in state s where the longest prefix of g that the output ends in has s
tokens. A token g_j leads from s to j if the longest such prefix then has j tokens. Where j = n, g has occurred: the
automaton goes to the next level, and its state is the length of the longest shorter prefix that g ends in.

A level holds A, the probability that the automaton is in it, and x_s, s = 1..n-1, that it is in state s. State 0 has
the rest of A, so that tokens outside g need no probability. For CTC, x_s is split: z_s where the last frame was
blank, and x_s where it was g_s, so that g_s again changes nothing.

On devices that are not waited for, shapes must not depend on the data: each level is an automaton of its own there, one
for each slot of ``slots.py``, and an occurrence leads to the next one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.torch.slots import Slots


@dataclass(frozen=True)
class Automata:
    """M n-grams of one order per sentence, with C levels of W numbers A, x_1.., z_1.. each.

    ``columns`` (B, M, J): the column of the token that leads to target j; the last target is the occurrence. ``table``
    (B, M, W, J): how the numbers of a level add up to the probability of being where the token leads to the target.
    ``landing`` (B, M, J - 1): 1 at the state that follows an occurrence. ``weights`` (B, M, C): 1 for the levels that
    count. ``order`` starts at 0. ``linked`` (B, M, 1) is 1 where an automaton is the next level of the one before it,
    or None.
    """

    order: int
    columns: Tensor
    table: Tensor
    landing: Tensor
    weights: Tensor
    linked: Tensor | None = None

    def start(self) -> Tensor:
        """(B, M, C, W): level 0, state 0."""
        state = self.weights.new_zeros(*self.weights.shape, self.table.shape[2])
        state[:, :, 0, 0] = 1 if self.linked is None else 1 - self.linked[..., 0]
        return state

    def _from_below(self, values: Tensor) -> Tensor:
        """Those of the level below, (B, M, C)."""
        if self.linked is None:
            return torch.nn.functional.pad(values[..., :-1], (1, 0))
        return torch.nn.functional.pad(values[:, :-1], (0, 0, 1, 0)) * self.linked

    def _from_above(self, values: Tensor) -> Tensor:
        """Those of the level above, (B, M, C)."""
        if self.linked is None:
            return torch.nn.functional.pad(values[..., 1:], (0, 1))
        return torch.nn.functional.pad((values * self.linked)[:, 1:], (0, 0, 0, 1))

    def emit(self, token_probs: Tensor, state: Tensor, blank: Tensor | None) -> tuple[Tensor, Tensor]:
        """The state after a token, and the probabilities of an occurrence, (B, M, C).

        Args:
            token_probs: (B, M, J), of the token of each target.
            state: (B, M, C, W), before it.
            blank: (B, 1, 1, 1), the probability of a blank for CTC; None where there is none.
        """
        flow = token_probs.unsqueeze(2) * (state @ self.table)
        new, targets = flow[..., -1], flow.shape[-1] - 1
        risen = self._from_below(new)
        states = flow[..., :-1] + risen.unsqueeze(-1) * self.landing.unsqueeze(2)
        parts = [(state[..., 0] - new + risen).unsqueeze(-1), states]
        if blank is not None:
            parts.append(blank * (state[..., 1 : 1 + targets] + state[..., 1 + targets :]))
        return torch.cat(parts, -1), new

    def pull(
        self, of_state: Tensor, of_new: Tensor, token_probs: Tensor, state: Tensor, blank: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Adjoint of :meth:`emit`: gradients of the state before, of token probabilities and of blank, (B,).

        ``of_new`` (B, 1, 1) is the same for all n-grams; their weights are applied here.
        """
        targets = self.columns.shape[2] - 1
        of_level, of_states = of_state[..., 0], of_state[..., 1 : 1 + targets]
        higher = self._from_above(of_level + (of_states * self.landing.unsqueeze(2)).sum(-1))
        of_flow = torch.cat([of_states, (of_new * self.weights - of_level + higher).unsqueeze(-1)], -1)
        of_probs = (of_flow * (state @ self.table)).sum(2)
        before = (of_flow * token_probs.unsqueeze(2)) @ self.table.mT
        before[..., 0] += of_level
        if blank is None:
            return before, of_probs, None
        of_blanks = of_state[..., 1 + targets :]
        held = state[..., 1 : 1 + targets] + state[..., 1 + targets :]
        before[..., 1:] += (blank * of_blanks).repeat(1, 1, 1, 2)
        return before, of_probs, (of_blanks * held).sum((1, 2, 3))


def automata(clips: Tensor, ids: Tensor, dtype: torch.dtype, steps: int, merging: bool) -> list[Automata]:
    """The automata of all n-grams with a clip, (B, N, L); ``ids`` (B, L) are the tokens of the columns.

    N-grams that count once and those that count several times are apart, so that most have one level. ``steps`` is the
    longest possible output: no higher level is ever reached. With ``merging`` they are those of CTC.
    """
    if clips.device.type not in SYNCHRONOUS:
        slots = Slots.of(clips, steps)
        used, linked = (one.unsqueeze(3).to(dtype) for one in (slots.used, slots.earlier > 0))
        return [
            _automata(order, slots.pattern[:, order], ids, used[:, order], linked[:, order], merging)
            for order in range(clips.shape[1])
        ]
    found = []
    for order in range(clips.shape[1]):
        clip = clips[:, order].clamp(max=steps)
        for chosen in (clip == 1, clip > 1):
            if not chosen.any():
                continue
            columns = chosen.int().argsort(dim=1, descending=True, stable=True)[:, : int(chosen.sum(1).max())]
            most = (clip * chosen).gather(1, columns)
            weights = (torch.arange(int(most.max()), device=ids.device) < most.unsqueeze(2)).to(dtype)
            found.append(_automata(order, columns, ids, weights, None, merging))
    return found


def _automata(
    order: int, columns: Tensor, ids: Tensor, weights: Tensor, linked: Tensor | None, merging: bool
) -> Automata:
    """The automata of the n-grams of one order that start at ``columns`` (B, M)."""
    columns = (columns.unsqueeze(2) + torch.arange(order + 1, device=ids.device)).clamp(max=ids.shape[1] - 1)
    tokens = ids.gather(1, columns.flatten(1)).view_as(columns)
    equal = tokens.unsqueeze(3) == tokens.unsqueeze(2)
    if merging and order == 0:
        columns, table = columns.expand(-1, -1, 2), weights.new_zeros(*columns.shape[:2], 3, 2)
        table[:, :, 0, 1], table[:, :, 1, 0], table[:, :, 1, 1] = 1, 1, -1
        landing = weights.new_ones(*columns.shape[:2], 1)
    else:
        table, landing = (part.to(weights.dtype) for part in _tables(equal, merging))
    return Automata(order, columns, table, landing, weights, linked)


def _tables(equal: Tensor, merging: bool) -> tuple[Tensor, Tensor]:
    """Table (B, M, W, n) and landing (B, M, n - 1) of n-grams whose tokens i and j are ``equal`` (B, M, n, n)."""
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
