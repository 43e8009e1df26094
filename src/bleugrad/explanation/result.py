"""The explanation of one sentence, as plain values and small tensors, and its size limits."""

from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from torch import Tensor

ABOVE = 1e-12
"""Tolerance for rounding when a bound is compared with the exact value, in float64."""


def check_cells(what: str, positions: int, tokens: int, orders: int, most: int, times: int = 1) -> None:
    """Raise if ``times`` explanations have more than ``most`` cells: positions x reference tokens x orders."""
    if (cells := positions * tokens * orders * times) > most:
        found = f"{positions} positions x {tokens} reference tokens x {orders} orders x {times} checkpoints = {cells}"
        raise ValueError(f"{what} has {found} cells; expected at most {most}: use fewer of them")


@dataclass(frozen=True)
class Matches:
    """Expected matches of an n-gram or of an order."""

    exact: float  #: E[min(count, c_g)] of an n-gram; their sum E[O_n] of an order.
    bound: float  #: the paper's bound of it, LB_n of an order.

    @property
    def above(self) -> bool:
        """Whether the paper's bound exceeds the exact value, so that it is not a bound."""
        return self.bound > self.exact + ABOVE


@dataclass(frozen=True)
class NGram(Matches):
    """A distinct n-gram of the references."""

    clip: int  #: c_g, maximum number of matches.
    text: tuple[str, ...]  #: its units (tokens or words).
    columns: tuple[int, ...]  #: start indices among the units of the references.


@dataclass(frozen=True)
class Order(Matches):
    """All n-grams of one order.

    ``windows`` (T, U) are the probabilities that the n units from unit j occur from position t, given that the
    hypothesis reaches t; NaN if they do not fit into the hypothesis or the reference.
    """

    total: float  #: E[M_n], expected number of n-grams of the hypothesis.
    precision: float  #: (E[O_n] + s) / (E[M_n] + s).
    number: int  #: the order n.
    windows: Tensor  #: (T, U), see above.
    ngrams: tuple[NGram, ...]  #: the distinct n-grams, in the order of the references.


class SampledScore(NamedTuple):
    """Mean score of sampled hypotheses and its standard error, which is 0 if all samples have the same score."""

    mean: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one sentence, made by :func:`bleugrad.explain`. BLEU lies in 0..1.

    T positions; L tokens and U units of all references. Units are tokens, or words if words are counted. Gradients are
    those of the loss, 1 - ``value``, with respect to the logits; descent raises a logit with a negative gradient.
    """

    score: str  #: the name of the score.
    in_words: bool  #: whether words are counted.
    argmax: tuple[str, ...]  #: (T,), likeliest token of each position.
    argmax_probs: Tensor  #: (T,), its probability.
    references: tuple[tuple[str, ...], ...]  #: the tokens of each reference.
    units: tuple[tuple[str, ...], ...]  #: the units of each reference.
    match_probs: Tensor  #: (T, L), G[t, j], probability of reference token j at position t.
    eos_probs: Tensor | None  #: (T,), probability of EOS at t; None if the length is fixed.
    reach: Tensor  #: (T,), probability that the hypothesis has not ended before t; 1 if the length is fixed.
    orders: tuple[Order, ...]  #: expected matches of orders 1 to N.
    gradient: Tensor  #: (T, L), at the tokens of the references.
    eos_gradient: Tensor | None  #: (T,), at the EOS token; None if the length is fixed.
    gradient_norm: Tensor  #: (T,), Euclidean norm over the whole vocabulary.
    value: float  #: the score of the exact expected statistics, the training objective.
    bound_value: float  #: the same with the paper's bound instead of the exact matches.
    lower: float | None  #: certified lower bound of the true E[BLEU]; None if unknown, and for other scores.
    upper: float | None  #: certified upper bound of the true E[BLEU]; None for other scores.
    sampled: SampledScore | None  #: an estimate of the true expected score from samples; None without samples.
    argmax_value: float  #: the score of the row-wise argmax.
    brevity_penalty: float  #: E[BP], exact.
    expected_length: float  #: E[length] in units, exact.
    reference_length: float  #: (expected) length of the closest reference in units.

    def summary(self) -> dict[str, str]:
        """The scores, times 100, and lengths as texts, for the text and the page."""
        found = {}
        if self.upper is not None:
            low = "at most" if self.lower is None else f"{100 * self.lower:.2f} to"
            found["certified"] = f"{low} {100 * self.upper:.2f}"
        if self.sampled is not None:
            found["sampled"] = f"{100 * self.sampled.mean:.2f}, standard error {100 * self.sampled.standard_error:.2f}"
        return found | {
            "exact matches": f"{100 * self.value:.2f}",
            "paper's bound": f"{100 * self.bound_value:.2f}",
            "argmax": f"{100 * self.argmax_value:.2f}",
            "length": f"{self.expected_length:.2f} expected, {self.reference_length:.2f} in the reference",
            "brevity penalty": f"{self.brevity_penalty:.4f}",
        }

    def text(self, width: int = 80) -> str:
        """Tables for a terminal of ``width`` columns, with the 8 largest n-grams of each order."""
        from bleugrad.explanation.text import render_text

        return render_text(self, width)

    def html(self) -> str:
        """A self-contained interactive page."""
        from bleugrad.explanation.page import explanation_page

        return explanation_page([self])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Explanation({len(self.argmax)} positions, {self.score} = {self.value:.4f})"

    def _repr_html_(self) -> str | None:
        """The page in a sandboxed frame, for notebooks; None (they show the text) if the sentence is too long."""
        try:
            page = escape(self.html())
        except ValueError:
            return None
        height = min(1000, 640 + 28 * len(self.argmax))
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" '
            f'title="What the loss sees" srcdoc="{page}"></iframe>'
        )
