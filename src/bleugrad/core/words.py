"""Words made of several tokens: segmentation, numbering, and the probability that a window is a word.

A set of tokens opens a word, and so does the first token of a sequence; the others continue the word before them. Two
words are equal if their tokens are, so a word the tokenizer could also segment differently counts only as it stands
there.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from bleugrad.core.native.kernels import kernels_for
from bleugrad.core.ngrams import dense_ranks
from bleugrad.core.operators import keep_run, outside_autocast, refuse_double_backward, save_inputs
from bleugrad.core.sequences import References, close_up


@dataclass(frozen=True)
class Words:
    """References as words. ``references`` holds a number for each word, equal iff the words are, and lengths in words.

    ``starts`` and ``spans`` (B, K W): the first of its tokens among the columns of the tokens, and how many there are.
    ``continued`` (B, K W): True where the word begins with a continuation token, which only a sequence's first can.
    """

    references: References
    starts: Tensor
    spans: Tensor
    continued: Tensor


def segment(references: References, word_start: Tensor) -> Words:
    """Words of token references; ``word_start`` (V,) bool says which tokens open one. O(L log^2 L) time."""
    kernels = kernels_for(word_start, torch.float32) if references.ids.numel() else None
    if kernels is not None:
        starts, spans, ids, continued, lengths = kernels.segment_words(references.ids, references.lengths, word_start)
        return Words(References(ids, lengths), *(values.flatten(1) for values in (starts, spans, continued)))
    several, width = references.ids.shape[1:]
    position = torch.arange(width, device=references.ids.device)
    inside = position < references.lengths[..., None]
    marked = word_start[references.ids]
    opens = (marked | (position == 0)) & inside
    column = torch.arange(several * width, device=position.device).view(several, width).expand_as(opens)
    spans = (_next_opening(opens, references.lengths) - position).clamp(min=1)
    numbers = _segment_numbers(references.ids.flatten(1), spans.flatten(1)).view_as(spans)
    (ids, lengths), (starts, _), (closed, _) = (close_up(values, opens) for values in (numbers, column, spans))
    continued = close_up((~marked).long(), opens)[0].bool()
    most = width if torch.compiler.is_compiling() else max(1, int(lengths.max())) if lengths.numel() else width
    trimmed = (values[..., :most].flatten(1) for values in (starts, closed.clamp(min=1), continued))
    return Words(References(ids[..., :most], lengths), *trimmed)


def _next_opening(opens: Tensor, lengths: Tensor) -> Tensor:
    """The position of the next opening after each position, or the sequence's length: (B, K, R)."""
    position = torch.arange(opens.shape[-1], device=opens.device)
    here = torch.where(opens, position, lengths[..., None])
    soonest = here.flip(-1).cummin(-1).values.flip(-1)
    return torch.cat([soonest[..., 1:], lengths[..., None]], -1)[..., : opens.shape[-1]]


def _segment_numbers(ids: Tensor, spans: Tensor) -> Tensor:
    """A number for the ``spans`` tokens from each column on, equal within a row iff the tokens are: (B, L).

    A run of s tokens, 2^k <= s < 2^(k+1), is given by its first and its last 2^k tokens, and those are numbered by
    doubling: O(L log^2 L) time.
    """
    columns = ids.shape[1]
    longest = columns if torch.compiler.is_compiling() or spans.numel() == 0 else int(spans.max())
    position = torch.arange(columns, device=ids.device)
    table, size, key = dense_ranks(ids), 1, torch.zeros_like(ids)
    while size <= longest:
        last = table.gather(1, (position + spans - size).clamp(0, max(columns - 1, 0)))
        key = torch.where((spans >= size) & (spans < 2 * size), table * columns + last, key)
        table, size = dense_ranks(table * columns + table.roll(-size, 1)), 2 * size
    return dense_ranks(dense_ranks(key) * (columns + 1) + spans)


def word_probabilities(match_probs: Tensor, words: Words) -> Tensor:
    """Probability that the window ending at t is each word: (T, B, L) to (T, B, K W). Exact, rows being independent.

    The product of the probabilities of the word's tokens. A word that begins with a continuation token can only stand
    at the start. O(T B W) time, and O(T) more for each further token of a word.
    """
    inputs = (match_probs, words.starts, words.spans, words.continued)
    if torch.is_grad_enabled() and match_probs.requires_grad and kernels_for(match_probs) is not None:
        return cast(Tensor, _KernelProducts.apply(*inputs))  # type: ignore[no-untyped-call]
    return keep_run(_Products, _word_probabilities, _word_probabilities_backward, *inputs)


@torch.library.custom_op("bleugrad::word_probabilities", mutates_args=())
def _word_probabilities(match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
    kernels = kernels_for(match_probs)
    if kernels is not None:
        return kernels.word_products(match_probs, starts, spans, continued)
    return _Products(match_probs, starts, spans, continued).value


@torch.library.custom_op("bleugrad::word_probabilities_backward", mutates_args=())
def _word_probabilities_backward(
    grad: Tensor, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor
) -> Tensor:
    kernels = kernels_for(match_probs)
    if kernels is not None:
        return kernels.word_products_backward(grad, match_probs, starts, spans, continued)
    return _Products(match_probs, starts, spans, continued).backward(grad)


@_word_probabilities.register_fake
def _(match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
    return match_probs.new_empty(*match_probs.shape[:2], starts.shape[1])


@_word_probabilities_backward.register_fake
def _(grad: Tensor, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
    return torch.empty_like(match_probs)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    with outside_autocast(grad):
        return _word_probabilities_backward(grad, *ctx.saved_tensors), None, None, None


_word_probabilities.register_autograd(_backward, setup_context=save_inputs)
refuse_double_backward(_word_probabilities_backward)


class _KernelProducts(torch.autograd.Function):
    """The operator by its kernel, without what it costs to call an operator."""

    @staticmethod
    def forward(ctx, *inputs) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(*inputs)
        ctx.kernels = kernels_for(inputs[0])
        return cast(Tensor, ctx.kernels.word_products(*inputs))

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():
            return _backward(ctx, grad)  # type: ignore[no-untyped-call]
        return ctx.kernels.word_products_backward(grad, *ctx.saved_tensors), None, None, None


class _Products:
    """The products, taken from the last token of each word backwards; only longer words take part in later factors."""

    def __init__(self, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> None:
        self.shape = match_probs.shape
        steps, batch, columns = match_probs.shape
        flat = match_probs.reshape(steps, batch * columns)
        row = torch.arange(batch, device=starts.device)[:, None] * columns
        self.last = (row + starts + spans - 1).reshape(-1)
        position = torch.arange(steps, device=starts.device)[:, None]
        self.allowed = ~continued.reshape(-1) | (position == spans.reshape(-1) - 1)
        probs = flat[:, self.last]
        self.factors: list[tuple[int, Tensor, Tensor, Tensor, Tensor]] = []
        for back in range(1, int(spans.max()) if spans.numel() else 1):
            longer = (spans.reshape(-1) > back).nonzero().squeeze(1)
            source = self.last[longer] - back
            token, tail = flat[:, source], probs[:, longer]
            product = torch.zeros_like(tail)
            product[back:] = tail[back:] * token[: max(steps - back, 0)]
            probs[:, longer] = product
            self.factors.append((back, longer, source, token, tail))
        self.value = (probs * self.allowed).view(steps, *starts.shape)

    def backward(self, grad: Tensor) -> Tensor:
        """The cotangent of ``match_probs``."""
        steps = self.shape[0]
        flat = grad.new_zeros(steps, self.shape[1] * self.shape[2])
        grad = grad.reshape(self.allowed.shape) * self.allowed
        for back, longer, source, token, tail in reversed(self.factors):
            own, kept = grad[:, longer], max(steps - back, 0)
            grad_token, grad_tail = torch.zeros_like(own), torch.zeros_like(own)
            grad_token[:kept] = own[back:] * tail[back:]
            grad_tail[back:] = own[back:] * token[:kept]
            flat.index_add_(1, source, grad_token)
            grad[:, longer] = grad_tail
        flat.index_add_(1, self.last, grad)
        return flat.view(self.shape)
