"""What the compared losses read, by family of models: the timed inputs, the enumerated cases and the truth."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peers_adapters import BLANK, ORDERS, PAD, Loss, transition_probs
from torch import Tensor

import bleugrad

sys.path.append(str(Path(__file__).parents[1]))
from tests.oracles.enumeration import Enumeration, enumerate_statistics
from tests.oracles.one_pass import frame_outputs, path_outputs, tabulate

STEPS, VOCABULARY = 5, 6
SPECIAL = 1 + max(BLANK, PAD)
"""Ids from here on are words for every public implementation."""

Inputs = tuple[Tensor, ...]
"""What the model emits, then the labels."""


@dataclass(frozen=True)
class Family:
    """``draw(B, T, V, generator)`` are the timed inputs, ``case(kind, bonus, generator)`` those of an enumerated case.

    ``truth(*inputs)`` enumerates a case, ``orders`` are those whose matches are compared, and ``losses`` those of
    bleugrad, the first of which is the unit of cost.
    """

    title: str
    draw: Callable[[int, int, int, torch.Generator], Inputs]
    case: Callable[[str, float, torch.Generator], Inputs]
    truth: Callable[..., Enumeration]
    losses: dict[str, Loss]
    shapes: list[list[int]] = field(default_factory=lambda: [[16, 60, 8000], [16, 60, 32000]])
    orders: Iterable[int] = (2,)


def ours(method: str, output: Callable[..., Any], orders: Iterable[int] = ORDERS, **options: object) -> Loss:
    """A loss of bleugrad on ``output(*emitted)``, and its matches of the orders."""
    loss = bleugrad.ExpectedBLEULoss(method=method, **options)
    columns = [n - 1 for n in orders]

    def step(*inputs: Tensor) -> Tensor:
        return loss(output(*inputs[:-1]), inputs[-1])

    def matches(*inputs: Tensor) -> Tensor:
        found = bleugrad.expected_bleu(output(*inputs[:-1]), inputs[-1], method=method, interval=False).matches
        return found.sum(0)[columns]

    return Loss(step, matches)


def one_pass(output: Callable[..., Any]) -> dict[str, Loss]:
    """BLEU of exact matches, and min(E[count], c) of bigrams alone, which published losses use."""
    return {
        "bleugrad, exact": ours("exact", output, (2,)),
        "bleugrad, clipped mean of bigrams": ours("clipped_mean", output, (2,), max_order=2, weights=(0, 1)),
    }


def words(kind: str, number: int, ids: Tensor, generator: torch.Generator) -> Tensor:
    """Words that all differ, or two words that repeat."""
    distinct = ids[torch.randperm(len(ids), generator=generator)[:number]]
    return distinct if kind == "distinct" else distinct[torch.randint(2, (number,), generator=generator)]


def prefer(symbols: Tensor, bonus: float, generator: torch.Generator) -> Tensor:
    """Logits (1, T, V) in float64, with a bonus on one symbol of each position."""
    logits = torch.randn(STEPS, VOCABULARY, dtype=torch.float64, generator=generator)
    logits[torch.arange(STEPS), symbols] += bonus
    return logits[None]


def ids_without(*special: int) -> Tensor:
    return torch.tensor([v for v in range(VOCABULARY) if v not in special])


def draw_rows(batch: int, steps: int, vocabulary: int, generator: torch.Generator) -> Inputs:
    logits = torch.randn(batch, steps, vocabulary, generator=generator)
    return logits, torch.randint(vocabulary, (batch, steps), generator=generator)


def row_case(kind: str, bonus: float, generator: torch.Generator) -> Inputs:
    labels = words(kind, STEPS, ids_without(), generator)
    return prefer(labels, bonus, generator), labels[None]


def row_truth(logits: Tensor, labels: Tensor) -> Enumeration:
    return enumerate_statistics(logits[0].softmax(1).numpy(), [labels[0].tolist()], max_order=len(ORDERS))


def draw_frames(batch: int, steps: int, vocabulary: int, generator: torch.Generator) -> Inputs:
    """The reference has half as many tokens as there are frames."""
    logits = torch.randn(batch, steps, vocabulary, generator=generator)
    return logits, torch.randint(SPECIAL, vocabulary, (batch, steps // 2), generator=generator)


def frame_case(kind: str, bonus: float, generator: torch.Generator) -> Inputs:
    """A model that tends to the words of the reference, with a blank between them."""
    labels = words(kind, (STEPS + 1) // 2, ids_without(BLANK), generator)
    symbols = torch.full((STEPS,), BLANK)
    symbols[::2] = labels
    return prefer(symbols, bonus, generator), labels[None]


def frame_truth(logits: Tensor, labels: Tensor) -> Enumeration:
    return tabulate(frame_outputs(logits[0].softmax(1).numpy(), BLANK), [labels[0].tolist()], len(ORDERS))


def draw_graph(batch: int, steps: int, vocabulary: int, generator: torch.Generator) -> Inputs:
    """As frames, with logits of the transitions (B, T, T)."""
    logits, labels = draw_frames(batch, steps, vocabulary, generator)
    return logits, torch.randn(batch, steps, steps, generator=generator), labels


def graph_case(kind: str, bonus: float, generator: torch.Generator) -> Inputs:
    """A model that tends to visit all vertices, each of which tends to its word of the reference."""
    labels = words(kind, STEPS, ids_without(PAD), generator)
    transitions = torch.randn(STEPS, STEPS, dtype=torch.float64, generator=generator)
    transitions += bonus * torch.ones(STEPS - 1).diag(1)
    return prefer(labels, bonus, generator), transitions[None], labels[None]


def graph_truth(logits: Tensor, transitions: Tensor, labels: Tensor) -> Enumeration:
    outputs = path_outputs(logits[0].softmax(1).numpy(), transition_probs(transitions)[0].numpy())
    return tabulate(outputs, [labels[0].tolist()], len(ORDERS))


FAMILIES = {
    "rows": Family(
        "independent rows",
        draw_rows,
        row_case,
        row_truth,
        {f"bleugrad, {method}": ours(method, lambda logits: logits) for method in ("exact", "bound")},
        shapes=[[16, 30, 8000], [16, 30, 32000]],
        orders=ORDERS,
    ),
    "ctc": Family(
        "CTC frames",
        draw_frames,
        frame_case,
        frame_truth,
        one_pass(lambda logits: bleugrad.CTC(logits, blank_id=BLANK)),
    ),
    "graph": Family(
        "graphs",
        draw_graph,
        graph_case,
        graph_truth,
        one_pass(bleugrad.Graph),
        shapes=[[4, 60, 8000], [4, 60, 32000]],  # FA-DAT's gradient holds B R T V numbers
    ),
}
