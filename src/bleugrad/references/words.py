"""Words made of several tokens: segmentation, numbering, and the probability that a window is a word.

A set of tokens opens a word, and so does the first token of a sequence; the others continue the word before them. Two
words are equal if their tokens are, so a word that the tokenizer could also segment differently counts only in the
segmentation of the reference.
"""

from dataclasses import dataclass
from typing import cast

from torch import Tensor

from bleugrad.backends import operations
from bleugrad.references.sequences import References, reads_back


@dataclass(frozen=True)
class Words:
    """References as words."""

    references: References  #: a number per word, equal iff the words are, and lengths in words.
    starts: Tensor  #: (B, K W), the column of the word's first token.
    spans: Tensor  #: (B, K W), how many tokens it has.
    continued: Tensor  #: (B, K W), True where it begins with a continuation token, which only a sequence's first can.


def segment(references: References, word_start: Tensor) -> Words:
    """Words of token references; ``word_start`` (V,) bool says which tokens open one."""
    starts, spans, ids, continued, lengths = operations.segment_words(references.ids, references.lengths, word_start)
    most = max(1, int(lengths.max())) if reads_back(lengths) and lengths.numel() else ids.shape[2]
    columns = (values[..., :most].flatten(1).contiguous() for values in (starts, spans, continued))  # once for all uses
    return Words(References(ids[..., :most], lengths), *columns)


def word_probabilities(match_probs: Tensor, words: Words) -> Tensor:
    """Probability that the window ending at t is each word: (T, B, L) to (T, B, K W). Exact, as rows are independent.

    The product of the probabilities of the word's tokens. A word that begins with a continuation token can only stand
    at the start. O(T B W) time per token of a word.
    """
    return cast(Tensor, operations.word_probabilities(match_probs, words.starts, words.spans, words.continued))
