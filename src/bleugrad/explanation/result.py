"""The explanation of one sentence, as plain values and small tensors, and its size limits."""

from dataclasses import dataclass
from html import escape

from torch import Tensor

ABOVE = 1e-12
"""Tolerance for rounding when a bound is compared with the exact value, in float64."""

MOST_PAGE_CELLS = 2**19
"""Maximum cells of a page over all checkpoints, about 12 MB."""


def check_cells(what: str, positions: int, tokens: int, orders: int, most: int, times: int = 1) -> None:
    """Raise if ``times`` explanations have more than ``most`` cells: positions x reference tokens x orders."""
    if (cells := positions * tokens * orders * times) > most:
        raise ValueError(
            f"{what} has {positions} positions x {tokens} reference tokens x {orders} orders x {times} checkpoints = "
            f"{cells} cells; expected at most {most}: use a part of the sentence, a lower max_order or fewer "
            "checkpoints"
        )


@dataclass(frozen=True)
class NGram:
    """A distinct n-gram of the references."""

    text: tuple[str, ...]  #: its units (tokens or words).
    columns: tuple[int, ...]  #: start indices among the units of the references.
    clip: int  #: c_g, maximum number of matches.
    exact: float  #: E[min(count, c_g)], its contribution to E[O_n].
    bound: float  #: the paper's bound, its contribution to LB_n.
    completed: tuple[float, ...]  #: (T,), expected new matches completed at each position; they sum to ``exact``.

    @property
    def above(self) -> bool:
        """Whether the paper's bound exceeds the exact value, so that it is not a bound."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class Order:
    """All n-grams of one order."""

    number: int  #: n.
    #: (T, U), probability that the n units from unit j occur from position t, given that the hypothesis reaches t; NaN
    #: if they do not fit into the hypothesis or the reference.
    windows: Tensor
    ngrams: tuple[NGram, ...]  #: the distinct n-grams, in the order of the references.
    exact: float  #: E[O_n], exact.
    bound: float  #: the paper's LB_n.
    total: float  #: E[M_n], expected number of n-grams of the hypothesis.
    precision: float  #: (E[O_n] + s) / (E[M_n] + s).

    @property
    def above(self) -> bool:
        """Whether the paper's bound of the order exceeds the exact value."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class TokenGradient:
    """Gradient of the loss, 1 - BLEU of the expected statistics, with respect to the logits.

    Gradient descent raises a logit with a negative gradient.
    """

    reference: Tensor  #: (T, L), at the tokens of the references.
    argmax: Tensor  #: (T,), at the likeliest token of each position.
    eos: Tensor | None  #: (T,), at the EOS token; None if the length is fixed.
    norm: Tensor  #: (T,), Euclidean norm over the whole vocabulary.


@dataclass(frozen=True)
class SampledBLEU:
    """Mean BLEU of sampled hypotheses with its standard error, an estimate of the true E[BLEU].

    A standard error of 0 only means that all drawn samples have the same score.
    """

    mean: float
    standard_error: float
    samples: int


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one sentence, made by :func:`bleugrad.explain`. BLEU lies in 0..1.

    T positions; L tokens and U units of all references. Units are tokens, or words if words are counted.
    """

    positions: tuple[str, ...]  #: (T,) labels of the hypothesis' positions.
    argmax: tuple[str, ...]  #: (T,) likeliest token of each position.
    argmax_probs: Tensor  #: (T,), its probability.
    references: tuple[tuple[str, ...], ...]  #: the tokens of each reference.
    units: tuple[tuple[str, ...], ...]  #: the units of each reference.
    match_probs: Tensor  #: (T, L), G[t, j], probability of reference token j at position t.
    eos_probs: Tensor | None  #: (T,), probability of EOS at t; None if the length is fixed.
    reach: Tensor  #: (T,), probability that the hypothesis has not ended before t; 1 if the length is fixed.
    orders: tuple[Order, ...]  #: expected matches of orders 1 to N.
    gradient: TokenGradient  #: gradient of the loss with respect to the logits.
    value: float  #: BLEU of the exact expected statistics, the training objective.
    bound_value: float  #: the same with the paper's bound instead of the exact matches.
    lower: float | None  #: certified lower bound of the true E[BLEU]; None if unknown.
    upper: float  #: certified upper bound of the true E[BLEU].
    sampled: SampledBLEU | None  #: the sampled check; None without samples.
    argmax_bleu: float  #: BLEU of the row-wise argmax.
    brevity_penalty: float  #: E[BP], exact.
    expected_length: float  #: E[length] in units, exact.
    reference_length: float  #: (expected) length of the closest reference in units.
    smoothing: float  #: s.
    weights: tuple[float, ...]  #: weights of the orders.
    method: str  #: method of the loss whose gradient this is, "exact" or "bound".
    in_words: bool  #: whether words are counted.

    def text(self, width: int = 80, *, ngrams: int = 8) -> str:
        """Tables for a terminal.

        Args:
            width: columns of the terminal.
            ngrams: maximum n-grams listed per order.
        """
        from bleugrad.explanation.text import render_text

        return render_text(self, width, ngrams=ngrams)

    def html(self, title: str = "What the loss sees") -> str:
        """A self-contained interactive page."""
        from bleugrad.explanation.page import explanation_page

        return explanation_page([self], title=title)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        low = "?" if self.lower is None else f"{self.lower:.4f}"
        return (
            f"Explanation({len(self.positions)} positions, {sum(map(len, self.units))} reference "
            f"{'words' if self.in_words else 'tokens'}, E[BLEU] in [{low}, {self.upper:.4f}])"
        )

    def _repr_html_(self) -> str | None:
        """The page in a sandboxed frame, for notebooks; None (they show the text) if the sentence is too long."""
        height = min(1000, 640 + 28 * len(self.positions))
        try:
            page = escape(self.html())
        except ValueError:
            return None
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" '
            f'title="What the loss sees" srcdoc="{page}"></iframe>'
        )
