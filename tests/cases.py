"""Random small cases of expected BLEU, drawn in families, with their oracles."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tests.oracles.counting import cut
from tests.oracles.enumeration import enumerate_statistics

FAMILIES = ("random", "self-overlapping", "distinct", "several", "holes", "short")
PERIODS = ((0,), (0, 1), (0, 0, 1), (0, 1, 1), (0, 1, 0))  # aaa, abab, aabaab, abbabb, abaaba


@dataclass(frozen=True)
class Case:
    """A batch for expected_bleu: float64 logits (B, T, V), nested references, mask (B, T) or None."""

    logits: torch.Tensor
    references: list
    mask: torch.Tensor | None = None
    eos_id: int | None = None

    @property
    def batch(self):
        return len(self.references)

    @property
    def keywords(self):
        return {"mask": self.mask, "eos_id": self.eos_id}

    def rows(self, b):
        """The counted rows of sentence b as probabilities (numpy)."""
        logits = self.logits[b].numpy()
        if self.mask is not None:
            logits = logits[self.mask[b].numpy()]
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def cut_references(self, b):
        return [cut(reference, self.eos_id) for reference in self.references[b]]

    @cached_property
    def single(self):
        """Whether every sentence has just one reference."""
        return all(len(references) == 1 for references in self.references)

    def tables(self, max_order):
        """Full enumeration, one result per sentence."""
        return [
            enumerate_statistics(self.rows(b), self.references[b], max_order, self.eos_id) for b in range(self.batch)
        ]


def draw_reference(rng, words, family, longest=7):
    """One reference over `words` (a list of ids)."""
    length = int(rng.integers(1, longest + 1))
    if family == "distinct":
        return rng.permutation(words)[:length].tolist()
    if family == "self-overlapping":
        period = PERIODS[rng.integers(len(PERIODS))]
        order = rng.permutation(words)
        return [int(order[period[i % len(period)] % len(words)]) for i in range(length)]
    return rng.choice(words, size=length).tolist()


def draw_references(rng, words, family, eos_id=None):
    """The references of one sentence; with an EOS some of them end with it, and padding words follow it."""
    if family == "short":
        references = [rng.choice(words, size=rng.integers(0, 4)).tolist()]
    elif family in ("several", "holes"):
        kinds = rng.choice(["random", "self-overlapping", "distinct"], size=rng.integers(1, 4))
        references = [draw_reference(rng, words, kind) for kind in kinds]
        if len(references) > 1 and rng.random() < 0.2:
            references[0] = []
    else:
        references = [draw_reference(rng, words, family)]
    if eos_id is not None:
        for reference in references:
            if rng.random() < 0.5:
                reference.extend([eos_id, *rng.choice(words, size=rng.integers(0, 3)).tolist()])
    return references


def draw_mask(rng, batch, steps):
    """A mask with holes anywhere; sometimes no position of a sentence counts."""
    mask = rng.random((batch, steps)) < 0.7
    mask[rng.random(batch) < 0.1] = False
    return torch.from_numpy(mask)


def draw_case(rng, family, *, eos=False, batch=3):
    vocabulary = int(rng.integers(2, 5))
    steps = int(rng.integers(1, 4 if family == "short" else 7))
    eos_id = int(rng.integers(vocabulary)) if eos else None
    words = [v for v in range(vocabulary) if v != eos_id]
    logits = rng.normal(size=(batch, steps, vocabulary)) * rng.choice([0.3, 1.0, 3.0])
    return Case(
        torch.from_numpy(logits),
        [draw_references(rng, words, family, eos_id) for _ in range(batch)],
        draw_mask(rng, batch, steps) if family == "holes" else None,
        eos_id,
    )


def draw_cases(seed, family, number, **options):
    rng = np.random.default_rng(seed)
    return [draw_case(rng, family, **options) for _ in range(number)]


def assert_near(actual, expected, atol=1e-10, label=""):
    """`actual` (tensor) has the shape and the values of `expected` (array, list or number)."""
    expected = np.asarray(expected, dtype=np.float64)
    actual = actual.detach().double().numpy()
    assert actual.shape == expected.shape, f"{label}: shape {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=label)


def one_hot_logits(tokens, vocabulary, dtype=torch.float64, scale=1e4):
    """Logits whose softmax is exactly one-hot at `tokens` (B, T)."""
    tokens = torch.as_tensor(tokens)
    return (torch.nn.functional.one_hot(tokens, vocabulary).to(dtype) * 2 - 1) * scale


STATISTICS = (
    "value",
    "matches",
    "totals",
    "precisions",
    "brevity_penalty",
    "hypothesis_lengths",
    "reference_lengths",
)
FIELDS = (*STATISTICS, "lower", "upper")


def assert_same(first, second, atol=1e-12, fields=FIELDS):
    """Two results agree in every field they have."""
    for field in fields:
        a, b = getattr(first, field, None), getattr(second, field, None)
        assert (a is None) == (b is None), f"{field}: {a} against {b}"
        if a is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=atol, msg=lambda m, field=field: f"{field}: {m}")
