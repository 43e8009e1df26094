"""The operations of the core: the inputs and outputs of each. The files of that name implement them.

Dimensions are those of the package's docstring. ``J`` counts tokens per position, ``W`` words per sentence.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import IdShapes, Operation, Outputs


def _gathered(like: Tensor, ids: Tensor, targets: Tensor | None, word_start: Tensor | None, *_: Any) -> Outputs:
    """Empty outputs of the two operations that read the vocabulary; ``like`` is (B, T, ...)."""
    rows = like.shape[:2]
    matched = like.new_empty(*rows, ids.shape[1], dtype=torch.promote_types(like.dtype, torch.float32))
    log_probs = matched.new_empty(0 if targets is None else targets.shape)
    opening = matched.new_empty(0 if word_start is None else rows)
    return matched, log_probs, opening, matched.new_empty(0 if targets is None else rows), matched.new_empty(*rows, 3)


row_probabilities = Operation(
    "row_probabilities",
    "Tensor logits, Tensor ids, Tensor? targets, Tensor? word_start, float sharpness, bool inplace",
    outputs=5,
    shapes=_gathered,
    gradients=("logits",),
    backends=("c", "triton"),
)
"""What a loss needs of ``logits`` (B, T, V), in one read of them; their gradient in one write. Exact.

With p = softmax(logits) and q = softmax(sharpness * logits):

1. q of the tokens ``ids`` (B, L) at each position: (B, T, L).
2. log p of ``targets`` (B, T, J), or an empty tensor.
3. The sum of q over the tokens of ``word_start`` (V,) bool: (B, T), or an empty tensor.
4. The mean of log p over the vocabulary: (B, T), or an empty tensor if there are no ``targets``.
5. For the backward pass, (B, T, 3): the largest logit m, and the logarithms of the sums of exp(logits - m) and of
   exp(sharpness * (logits - m)). A row that is not finite has no softmax, and its gradient is 0.

With ``inplace`` the gradient is written over the logits.
"""


def _framed(logits: Tensor, ids: Tensor, *_: Any) -> Outputs:
    matched = _gathered(logits, ids, None, None)[0]
    return matched, matched.new_empty(matched.shape[:2]), matched.new_empty(*matched.shape[:2], 2)


frame_probabilities = Operation(
    "frame_probabilities",
    "Tensor logits, Tensor ids, Tensor? counted, int blank, float sharpness, bool inplace",
    outputs=3,
    shapes=_framed,
    gradients=("logits",),
    backends=("c",),
)
"""Probabilities of the tokens ``ids`` (B, L) at each frame of ``logits`` (B, T, V), and of repetitions: (B, T). Exact.

The distribution of a frame is softmax(sharpness * logits). A frame is a repetition if it holds the symbol of the frame
before it, and not blank. Its probability is the sum of the products of the two rows. Frames that are not ``counted``
(B, T) are passed over; None counts all. The third output, (B, T, 2), is for the backward pass: the largest logit m and
the logarithm of the sum of exp(sharpness * (logits - m)). With ``inplace`` the gradient is written over the logits.
"""


def _projected(hidden: Tensor, weight: Tensor, bias: Tensor | None, *asked: Any) -> Outputs:
    ids, targets, word_start, _, frozen = asked
    outputs = _gathered(hidden, ids, targets, word_start)
    return *outputs, outputs[0].new_empty(hidden.shape if frozen else 0)


projected_probabilities = Operation(
    "projected_probabilities",
    "Tensor hidden, Tensor weight, Tensor? bias, Tensor ids, Tensor? targets, Tensor? word_start, float sharpness, "
    "bool frozen",
    outputs=6,
    shapes=_projected,
    gradients=("hidden", "weight", "bias"),
)
"""The outputs of :data:`row_probabilities` for ``logits = hidden @ weight.T + bias``, in chunks of rows. Exact.

If ``frozen``, only the hidden states get a gradient, and the sixth output serves it: the expected row of the weight
under each position's distribution (B, T, H). It is empty otherwise.
"""


sampled_tokens = Operation(
    "sampled_tokens",
    "Tensor logits, Tensor uniform",
    outputs=2,
    shapes=lambda logits, uniform: (
        torch.empty_like(uniform, dtype=torch.int64),
        uniform.new_empty(uniform.shape[:2], dtype=torch.int64),
    ),
)
"""Tokens drawn from each row of ``logits`` (B, T, V) by inverting its running sum at ``uniform`` (B, T, S) in 0..1.

Returns the tokens (B, T, S), and the most likely token (B, T).
"""


def _counted(
    match_probs: Tensor, opening: Tensor | None, order: Tensor | None, limits: Tensor, ends: Tensor, *sizes: int
) -> Outputs:
    batch, steps, width = match_probs.shape
    columns, extra = sizes
    new, total = match_probs.new_empty, steps + extra
    opened = [new(0 if opening is None else (total, batch)) for _ in range(2)]
    ending = [new(0 if columns == width else shape) for shape in ((total, batch), (batch, total + 1))]
    return new(total, batch, columns), *opened, *ending


counted_rows = Operation(
    "counted_rows",
    "Tensor match_probs, Tensor? opening, Tensor? order, Tensor limits, Tensor ends, int columns, int extra",
    outputs=5,
    shapes=_counted,
    gradients=("match_probs", "opening"),
    backends=("c",),
)
"""The rows of ``match_probs`` (B, T, C) that count, time first: (T', B, L), with ``extra`` rows of zeros after T.

The first ``limits`` (B,) positions count, read in ``order`` (B, T); None is all in order. L is ``columns``. If C is
larger, the last column is EOS. A sequence ends at ``ends`` (B,) at the latest. Further outputs, empty if not asked for:

* from ``opening`` (B, T): the probability that token t opens a word, and that a word can end at t, (T', B) each; tokens
  of extra rows open words;
* from EOS: ``alive`` (T', B) and ``stop`` (B, T' + 1) of :class:`bleugrad.lengths.lengths.Stopping`.
"""

word_probabilities = Operation(
    "word_probabilities",
    "Tensor match_probs, Tensor starts, Tensor spans, Tensor continued",
    outputs=1,
    shapes=lambda match_probs, starts, *_: (match_probs.new_empty(*match_probs.shape[:2], starts.shape[1]),),
    gradients=("match_probs",),
    backends=("c", "triton"),
)
"""Probability that the window ending at t is each word of the references: (T, B, L) to (T, B, W). Exact.

The product of the probabilities of the word's tokens, those of columns ``starts`` to ``starts + spans - 1``, (B, W)
each. A ``continued`` word begins with a token that continues a word, so it can only stand at the start.
"""

exact_matches = Operation(
    "exact_matches",
    "Tensor unit_probs, Tensor? alive, Tensor? opening, Tensor clips, Tensor overlaps, Tensor? spans",
    outputs=1,
    shapes=lambda unit_probs, alive, opening, clips, *_: (unit_probs.new_empty(*unit_probs.shape[:2], clips.shape[1]),),
    gradients=("unit_probs", "alive", "opening"),
    backends=("c", "triton"),
)
"""Expected new clipped matches completed at each position: (T, B, L) to (T, B, N). Exact. See ``matches/exact.py``."""

frame_matches = Operation(
    "frame_matches",
    "Tensor token_probs, Tensor blank, Tensor clips, Tensor overlaps, Tensor ids",
    outputs=1,
    shapes=lambda token_probs, blank, clips, *_: (token_probs.new_empty(clips.shape[:2]),),
    gradients=("token_probs", "blank"),
    backends=("c", "triton"),
)
"""Expected clipped matches of CTC frames: (T, B, L), and (T, B) for blank, to (B, N). Exact. See ``matches/frames.py``.

``ids`` (B, L) say which columns hold the same token.
"""


def _walked(token_probs: Tensor, transitions: Tensor, clips: Tensor, *_: Tensor) -> Outputs:
    steps, batch = token_probs.shape[:2]
    return token_probs.new_empty(clips.shape[:2]), token_probs.new_empty(batch, steps + 1)


path_matches = Operation(
    "path_matches",
    "Tensor token_probs, Tensor transitions, Tensor clips, Tensor overlaps, Tensor ids, Tensor limits",
    outputs=2,
    shapes=_walked,
    gradients=("token_probs", "transitions"),
    backends=("c",),
)
"""Expected clipped matches along a random path, (B, N), and the distribution of its length, (B, T + 1). Exact.

The path starts at vertex 0, goes from w to u > w with probability ``transitions[b, w, u]`` and ends at vertex
``limits - 1``. Other inputs as for :data:`frame_matches`; see ``matches/paths.py``.
"""

bound_matches = Operation(
    "bound_matches",
    "Tensor unit_probs, Tensor? survival, Tensor? boundary, Tensor clips, Tensor? spans",
    outputs=1,
    shapes=lambda unit_probs, survival, boundary, clips, spans: (unit_probs.new_empty(clips.shape[:2]),),
    gradients=("unit_probs", "survival", "boundary"),
    backends=("c",),
)
"""The paper's bound LB_n of the expected clipped matches: (T, B, L) to (B, N). See ``matches/bound.py``."""


def _sum_shape(mass: Tensor) -> Outputs:
    parts, problems, numbers, size = mass.shape
    while numbers > 1:
        numbers, size = (numbers + 1) // 2, 2 * size - 1
    return (mass.new_empty(parts, problems, size),)


sum_distribution = Operation(
    "sum_distribution", "Tensor mass", outputs=1, shapes=_sum_shape, gradients=("mass",), backends=("c",)
)
"""The distribution of the sum of B independent numbers: (1, P, B, S) to (1, P, at least B (S - 1) + 1). Exact.

``mass[0, p, b, k]`` is the probability that number b of problem p is k. With a second part, (2, P, B, S), of r times
the first, r a function of b and k, the result's second part is E[sum of r; sum = .].
"""

word_counts = Operation(
    "word_counts",
    "Tensor opening, Tensor limits, Tensor? alive, Tensor? stop",
    outputs=1,
    shapes=lambda opening, *_: (opening.new_empty(opening.shape[1], opening.shape[0] + 1),),
    gradients=("opening", "alive", "stop"),
    backends=("c", "triton"),
)
"""Probability (B, T + 1) of each number of words of a hypothesis with ``limits`` (B,) tokens. Exact.

Token t opens a word with probability ``opening`` (T, B); the first token always opens one. With ``alive`` (T, B) and
``stop`` (B, T + 1) the length in tokens is random; see :class:`bleugrad.lengths.lengths.Stopping`.
"""


segment_words = Operation(
    "segment_words",
    "Tensor ids, Tensor lengths, Tensor word_start",
    outputs=5,
    shapes=IdShapes("BKR", "BKR", "BKR", "BKR?", "BK"),
    backends=("c", "triton"),
)
"""The words of references ``ids`` (B, K, R) with ``lengths`` (B, K); ``word_start`` (V,) bool opens a word.

Returns (B, K, W) each: the first column of the word among the K R columns, its number of tokens, a number that is equal
within a sentence iff the words are, and whether it begins with a token that continues a word; then the number of words
(B, K).
"""


ngram_clips = Operation(
    "ngram_clips",
    "Tensor ids, Tensor lengths, int max_order",
    outputs=2,
    shapes=IdShapes("BNL", "DBNL?"),
    backends=("c", "triton"),
)
"""The distinct n-grams of references ``ids`` (B, K, R) with ``lengths`` (B, K), on L = K R columns.

Returns ``clips`` (B, N, L), the largest count over references at the first occurrence of an n-gram and 0 elsewhere, and
``overlaps`` (N - 1, B, N, L), True at d - 1 where an n-gram that fits into the columns equals itself shifted by d < n.
"""
