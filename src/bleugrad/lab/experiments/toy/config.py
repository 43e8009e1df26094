"""Settings of the toy study; the defaults are the paper's where it states them."""

from dataclasses import dataclass
from typing import Literal

from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.config import Config, RunConfig, inner, option

MOST_SEQUENCES = 1_000_000


@dataclass(frozen=True)
class RepeatsConfig(Config):
    """Small cases whose truth comes from enumerating every token sequence."""

    cases: int = option(200, "cases per kind (distinct and repeated words); 0: no such study", minimum=0)
    vocabulary: int = option(5, "size of the vocabulary, at least the length", minimum=2)
    length: int = option(5, "positions of hypothesis and reference", minimum=2)
    max_order: int = option(2, "highest n-gram order", minimum=1, maximum=100)
    smoothing: float = option(
        1.0, "added to matches and totals of every order; 1 as in the paper's training", minimum=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocabulary < self.length:
            raise UsageError(f"vocabulary is {self.vocabulary}; expected at least length = {self.length}")
        if self.max_order > self.length:
            raise UsageError(f"max_order is {self.max_order}; expected at most length = {self.length}")
        if self.vocabulary**self.length > MOST_SEQUENCES:
            raise UsageError(
                f"vocabulary is {self.vocabulary} and length {self.length}, which makes {self.vocabulary**self.length} "
                f"sequences to enumerate; expected at most {MOST_SEQUENCES}"
            )


@dataclass(frozen=True)
class ToyConfig(RunConfig):
    """Learning curves of BLEU-N for each order N."""

    orders: tuple[int, ...] = option((1, 2, 4), "orders N of BLEU-N", minimum=1, maximum=100)
    vocabulary: int = option(10000, "size of the vocabulary", minimum=2)
    length: int = option(10, "positions of hypothesis and reference", minimum=1)
    seeds: int = option(5, "runs per order, each with its own logits and reference", minimum=1)
    steps: int = option(250, "steps of gradient ascent", minimum=1)
    method: Literal["bound", "exact"] = option("bound", "objective: the paper's bound or the exact expectation")
    optimizer: Literal["adam", "ascent"] = option("adam", "Adam, or plain gradient ascent")
    learning_rate: float = option(
        0.05, "learning rate; plain ascent starts with gradients near 1e-5 and needs about 1000", above=0
    )
    smoothing: float = option(0.0, "added to matches and totals of every order", minimum=0)
    samples: int = option(1000, "sampled hypotheses to measure E[BLEU]", minimum=2)
    every: int = option(5, "steps between measurements", minimum=1)
    repeats: RepeatsConfig = inner(RepeatsConfig, "repeated words: small cases with the truth by enumeration")

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.orders) > self.length:
            raise UsageError(f"orders is {self.orders}; expected at most length = {self.length}, the longest n-gram")
        if len(set(self.orders)) < len(self.orders):
            raise UsageError(f"orders is {self.orders}; expected each order once")
