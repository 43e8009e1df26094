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
    """A distinct n-gram of the references.

    Attributes:
        text: its units (tokens or words).
        columns: start indices among the units of the references.
        clip: c_g, maximum number of matches.
        exact: E[min(count, c_g)], its contribution to E[O_n].
        bound: the paper's bound, its contribution to LB_n.
        completed: (T,), expected new matches completed at each position; they sum to ``exact``.
    """

    text: tuple[str, ...]
    columns: tuple[int, ...]
    clip: int
    exact: float
    bound: float
    completed: tuple[float, ...]

    @property
    def above(self) -> bool:
        """Whether the paper's bound exceeds the exact value, so that it is not a bound."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class Order:
    """All n-grams of one order.

    Attributes:
        number: n.
        windows: (T, U), probability that the n units from unit j occur from position t, given that the hypothesis
            reaches t; NaN if they do not fit into the hypothesis or the reference.
        ngrams: the distinct n-grams, in the order of the references.
        exact: E[O_n], exact.
        bound: the paper's LB_n.
        total: E[M_n], expected number of n-grams of the hypothesis.
        precision: (E[O_n] + s) / (E[M_n] + s).
    """

    number: int
    windows: Tensor
    ngrams: tuple[NGram, ...]
    exact: float
    bound: float
    total: float
    precision: float

    @property
    def above(self) -> bool:
        """Whether the paper's bound of the order exceeds the exact value."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class TokenGradient:
    """Gradient of the loss, 1 - BLEU of the expected statistics, with respect to the logits.

    Gradient descent raises a logit with a negative gradient.

    Attributes:
        reference: (T, L), at the tokens of the references.
        argmax: (T,), at the likeliest token of each position.
        eos: (T,), at the EOS token; None if the length is fixed.
        norm: (T,), Euclidean norm over the whole vocabulary.
    """

    reference: Tensor
    argmax: Tensor
    eos: Tensor | None
    norm: Tensor


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

    Attributes:
        positions: (T,) labels of the hypothesis' positions.
        argmax: (T,) likeliest token of each position.
        argmax_probs: (T,), its probability.
        references: the tokens of each reference.
        units: the units of each reference.
        match_probs: (T, L), G[t, j], probability of reference token j at position t.
        eos_probs: (T,), probability of EOS at t; None if the length is fixed.
        reach: (T,), probability that the hypothesis has not ended before t; 1 if the length is fixed.
        orders: expected matches of orders 1 to N.
        gradient: gradient of the loss with respect to the logits.
        value: BLEU of the exact expected statistics, the training objective.
        bound_value: the same with the paper's bound instead of the exact matches.
        lower: certified lower bound of the true E[BLEU]; None if unknown.
        upper: certified upper bound of the true E[BLEU]; inf for other scores.
        sampled: the sampled check; None without samples.
        argmax_bleu: BLEU of the row-wise argmax.
        brevity_penalty: E[BP], exact.
        expected_length: E[length] in units, exact.
        reference_length: (expected) length of the closest reference in units.
        score: the score that ``value``, ``bound_value``, ``sampled``, ``argmax_bleu`` and ``gradient`` are of, if it is
            not BLEU; precisions, brevity penalty, smoothing and weights remain those of BLEU.
        smoothing: s.
        weights: weights of the orders.
        method: method of the loss whose gradient this is, "exact" or "bound".
        in_words: whether words are counted.
    """

    positions: tuple[str, ...]
    argmax: tuple[str, ...]
    argmax_probs: Tensor
    references: tuple[tuple[str, ...], ...]
    units: tuple[tuple[str, ...], ...]
    match_probs: Tensor
    eos_probs: Tensor | None
    reach: Tensor
    orders: tuple[Order, ...]
    gradient: TokenGradient
    value: float
    bound_value: float
    lower: float | None
    upper: float
    sampled: SampledBLEU | None
    argmax_bleu: float
    brevity_penalty: float
    expected_length: float
    reference_length: float
    smoothing: float
    weights: tuple[float, ...]
    method: str
    in_words: bool
    score: str | None = None

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
        found = f"{self.score} = {self.value:.4f}" if self.score else f"E[BLEU] in [{low}, {self.upper:.4f}]"
        return (
            f"Explanation({len(self.positions)} positions, {sum(map(len, self.units))} reference "
            f"{'words' if self.in_words else 'tokens'}, {found})"
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
