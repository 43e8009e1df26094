"""Outputs with independent positions: rows of logits, and hidden states with their projection."""

from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from bleugrad.backends import operations
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics, row_statistics
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import FLATTENED
from bleugrad.references.targets import Targets


class TokenProbabilities(NamedTuple):
    """Probabilities that a :class:`RowOutput` is asked for; empty where they were not asked for."""

    match_probs: Tensor  #: (B, T, L)
    target_log_probs: Tensor  #: (B, T, J)
    opening: Tensor  #: (B, T), of a token that opens a word.
    mean_log_probs: Tensor | None = None  #: (B, T), mean over all tokens, for label smoothing; None if not supported.


class RowOutput(Output):
    """One distribution per position, independent of the others given what the model was fed."""

    @abstractmethod
    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """Probabilities of the tokens ``ids`` (B, L) at every position. Exact, with an exact gradient.

        Args:
            ids: (B, L), within 0..V-1.
            targets: (B, T, J), more tokens for each position, whose log-probabilities are wanted.
            word_start: (V,) bool, tokens whose summed probability is wanted at each position (those that open a word).
        """

    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """See :meth:`Output.statistics`."""
        labels = targets.given_labels()[0][..., None] if label_log_probs else None
        probs = self.token_probabilities(targets.columns, labels, targets.word_start)
        statistics = row_statistics(probs.match_probs, probs.opening, targets, method)
        if not label_log_probs:
            return statistics
        log_probs = probs.target_log_probs.squeeze(-1)
        return replace(statistics, label_log_probs=log_probs, mean_log_probs=probs.mean_log_probs)


class Rows(RowOutput):
    """Logits (B, T, V): the distribution of token t is softmax(logits[t]). Losses take the tensor as it is.

    ``G[b, t, j] = exp(logits[b, t, ids[b, j]] - logsumexp(logits[b, t]))``, in float32, or float64 for float64 logits.
    The softmax subtracts each row's maximum, so nothing overflows; what underflows is 0 with zero gradient. O(B T V)
    time: the logits are read once forward and once backward. Double backward is not supported and says so.
    """

    def __init__(self, logits: Tensor, sharpness: float = 1.0) -> None:
        batch, steps, vocabulary = check_floating("logits", logits, "(B, T, V)", 3).shape
        if vocabulary == 0:
            raise ValueError(f"logits has shape {tuple(logits.shape)}; expected (B, T, V) with V of at least 1")
        self.shape, self.device = (batch, steps, vocabulary), logits.device
        self.logits, self.sharpness = logits, sharpness

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        asked = (ids, targets, word_start, self.sharpness, self.inplace)
        return TokenProbabilities(*operations.row_probabilities(self.logits, *asked)[:4])


class Projection(RowOutput):
    """Hidden states and the output projection, ``logits = hidden @ weight.T + bias``, in chunks of rows.

    Pass it wherever logits are accepted. Values and gradients are those of the logits to rounding, but (B, T, V) logits
    never exist: the counterpart of ``torch.nn.functional.linear_cross_entropy``.

    Args:
        hidden: (B, T, H), any floating type.
        weight: (V, H), the output projection.
        bias: (V,), or None.
        sharpness: scores distributions proportional to p ^ sharpness.

    O(B T V H) time: four products of the size of the projection forward and backward. If weight and bias need no
    gradient there are two, or three with words or a sharpness. Memory: the gradients of the inputs, one chunk of logits
    no larger than ``hidden`` or 64 rows, and two more tensors of the size of ``hidden``.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> head, hidden, labels = torch.nn.Linear(8, 50), torch.randn(2, 4, 8), torch.randint(50, (2, 4))
        >>> fused = bleugrad.ExpectedBLEULoss()(bleugrad.Projection(hidden, head.weight, head.bias), labels)
        >>> torch.allclose(fused, bleugrad.ExpectedBLEULoss()(head(hidden), labels))
        True
    """

    name = "hidden @ weight.T"

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None = None, sharpness: float = 1.0) -> None:
        batch, steps, width = check_floating("hidden", hidden, "(B, T, H)", 3).shape
        vocabulary, found = check_floating("weight", weight, "(V, H)", 2).shape
        if found != width or vocabulary == 0:
            raise ValueError(f"weight has shape {(vocabulary, found)}; expected (V, {width}), with the H of hidden")
        if bias is not None and check_floating("bias", bias, "(V,)", 1).shape[0] != vocabulary:
            raise ValueError(f"bias has shape {tuple(bias.shape)}; expected ({vocabulary},), V as in weight")
        self.shape, self.device = (batch, steps, vocabulary), hidden.device
        self.hidden, self.weight, self.bias, self.sharpness = hidden, weight, bias, sharpness

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        learned = self.weight.requires_grad or (self.bias is not None and self.bias.requires_grad)
        frozen = torch.is_grad_enabled() and self.hidden.requires_grad and not learned
        shortened = frozen and word_start is None and self.sharpness == 1
        inputs = (self.hidden, self.weight, self.bias, ids, targets, word_start, self.sharpness, shortened)
        return TokenProbabilities(*operations.projected_probabilities(*inputs)[:4])


def as_output(value: object) -> Output:
    """Return an output as it is, and logits as :class:`Rows`."""
    if isinstance(value, Output):
        return value
    if isinstance(value, Tensor):
        return Rows(value)
    raise TypeError(f"logits is a {type(value).__name__}; expected a tensor of shape (B, T, V), or an output object")


def check_floating(name: str, value: object, shape: str, dimensions: int) -> Tensor:
    """Return ``value`` if it is a floating tensor of that many dimensions; ``shape`` names them."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a tensor of shape {shape}")
    if not torch.compiler.is_compiling() and is_functorch_wrapped_tensor(value):
        raise RuntimeError(
            f"{name} is inside a torch.func transform (vmap, grad, ...), which is not supported; "
            f"batch sentences as {shape}, and differentiate with .backward() or torch.autograd.grad"
        )
    if not value.is_floating_point():
        raise TypeError(f"{name} has dtype {value.dtype}; expected a floating type")
    if value.dim() != dimensions:
        hint = f": {FLATTENED}" if (value.dim(), dimensions) == (2, 3) else ""
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {shape}{hint}")
    return value
