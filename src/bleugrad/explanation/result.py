"""The explanation of one sentence: every number that is shown, as plain values and small tensors."""

from dataclasses import dataclass
from html import escape

from torch import Tensor

ABOVE = 1e-12
"""How far, in float64, a bound has to lie above the exact value to be more than rounding."""


@dataclass(frozen=True)
class NGram:
    """A distinct n-gram of the references.

    Attributes:
        text: its units, tokens or words.
        columns: where it starts among the units of the references.
        clip: c_g, how often its matches count.
        exact: E[min(count, c_g)], its part of the order's expected matches.
        bound: the paper's bound of that, its part of LB_n.
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
        """Whether the "bound" lies above the exact value, so that it bounds nothing."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class Order:
    """All n-grams of one order.

    Attributes:
        number: n.
        windows: (T, U), probability that the units from unit j on stand from position t on, given that the hypothesis
            reaches t; NaN where they run over the end of the hypothesis or of their reference.
        ngrams: the distinct n-grams, in the order of the references.
        exact: E[O_n], exact.
        bound: the paper's LB_n.
        total: E[M_n], n-grams of the hypothesis.
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
        """Whether the "bound" of the order lies above the exact value."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class TokenGradient:
    """Gradient of the loss, 1 - BLEU of the expected statistics, with respect to the logits.

    A negative number is a logit that a step of descent raises.

    Attributes:
        reference: (T, L), at the tokens of the references.
        argmax: (T,), at the likeliest token of each position.
        eos: (T,), at the EOS token; None where the length is fixed.
        norm: (T,), Euclidean norm over the whole vocabulary.
    """

    reference: Tensor
    argmax: Tensor
    eos: Tensor | None
    norm: Tensor


@dataclass(frozen=True)
class SampledBLEU:
    """Mean BLEU of sampled hypotheses with its standard error, an estimate of the true E[BLEU].

    A mean with a standard error of 0 says that all samples scored the same, not that nothing else can be drawn.
    """

    mean: float
    standard_error: float
    samples: int


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the loss sees of one sentence; made by :func:`bleugrad.explain`. BLEU lies in 0..1.

    T positions, L tokens and U units of all references; units are tokens, or words where words are counted.

    Attributes:
        positions: (T,) labels of the hypothesis' positions.
        argmax: (T,) likeliest token of each position.
        argmax_probs: (T,), its probability.
        references: the tokens of each reference.
        units: the units of each reference.
        match_probs: (T, L), G[t, j], probability of reference token j at position t.
        eos_probs: (T,), probability that the hypothesis ends at t; None where the length is fixed.
        reach: (T,), probability that it has not ended before t, 1 where the length is fixed.
        orders: expected matches of orders 1 to N.
        gradient: of the loss with respect to the logits.
        value: BLEU of the exact expected statistics, the surrogate that is trained on.
        bound_value: the same with the paper's bound in the place of the exact matches.
        lower: certified lower bound of the true E[BLEU]; None where none is known.
        upper: certified upper bound of the true E[BLEU].
        sampled: the sampled check; None if no samples were asked for.
        argmax_bleu: BLEU of the row-wise argmax.
        brevity_penalty: E[BP], exact.
        expected_length: E[length] in units, exact.
        reference_length: in units, of the reference closest in length (its expectation where that is random).
        smoothing: s.
        weights: of the orders.
        method: of the loss whose gradient this is, "exact" or "bound".
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

    def text(self, width: int = 80, *, ngrams: int = 8, ascii_only: bool = False) -> str:
        """Tables for a terminal.

        Args:
            width: columns of the terminal.
            ngrams: how many n-grams of an order are listed at most.
            ascii_only: shade with characters that every terminal has.
        """
        from bleugrad.explanation.text import render_text

        return render_text(self, width, ngrams=ngrams, ascii_only=ascii_only)

    def html(self, title: str = "What the loss sees") -> str:
        """An interactive page that stands alone."""
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
        """For notebooks: the page in a frame of its own, so that neither sees the other's style or script.

        None, and so the text above, where the sentence is too long for a page.
        """
        height = min(1000, 640 + 28 * len(self.positions))
        try:
            page = escape(self.html())
        except ValueError:
            return None
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" '
            f'title="What the loss sees" srcdoc="{page}"></iframe>'
        )
