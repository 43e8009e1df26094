"""Outputs with independent positions: rows of logits, and hidden states with their projection."""

from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from bleugrad.backends import operations
from bleugrad.backends.dtypes import compute_dtype
from bleugrad.backends.normalisers import PROVIDERS, RowLoss, normalised_probabilities
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics, row_statistics
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import FLATTENED
from bleugrad.references.targets import Targets


class TokenProbabilities(NamedTuple):
    """``match_probs`` (B, T, L); ``target_log_probs`` (B, T, J) and ``opening`` (B, T) if asked for, else empty."""

    match_probs: Tensor
    target_log_probs: Tensor
    opening: Tensor


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
        labels = None
        if label_log_probs:
            if targets.labels is None:
                raise TypeError("labels is None; expected (B, T) token ids, since cross_entropy_weight is above 0")
            labels = targets.labels[..., None]
        probs = self.token_probabilities(targets.columns, labels, targets.word_start)
        statistics = row_statistics(probs.match_probs, probs.opening, targets, method)
        if not label_log_probs:
            return statistics
        return replace(statistics, label_log_probs=probs.target_log_probs.squeeze(-1))


class Rows(RowOutput):
    """Logits (B, T, V): the distribution of token t is softmax(logits[t]). Losses take the tensor as it is.

    ``G[b, t, j] = exp(logits[b, t, ids[b, j]] - logsumexp(logits[b, t]))``, in float32, or float64 for float64 logits.
    The softmax subtracts each row's maximum, so nothing overflows; what underflows is 0 with zero gradient. O(B T V)
    time; beyond G one tensor of the logits' size, which the backward pass returns as their gradient. Double backward is
    not supported and says so.
    """

    def __init__(self, logits: Tensor, sharpness: float = 1.0) -> None:
        batch, steps, vocabulary = check_floating("logits", logits, "(B, T, V)", 3).shape
        if vocabulary == 0:
            raise ValueError(f"logits has shape {tuple(logits.shape)}; expected (B, T, V) with V of at least 1")
        self.shape, self.device = (batch, steps, vocabulary), logits.device
        self.logits, self.sharpness = logits, sharpness

    def sharpened(self, sharpness: float) -> "Rows":
        """Logits multiplied by ``sharpness`` for matches; the log-probabilities of targets stay those of the model."""
        return Rows(self.logits, self.sharpness * sharpness)

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if self.sharpness == 1:
            return TokenProbabilities(*operations.row_probabilities(self.logits, ids, targets, word_start))
        plain, sharp = Rows(self.logits), Rows(self.logits * self.sharpness)
        return _two_passes(plain, sharp, ids, targets, word_start)

    def label_margins(self, labels: Tensor) -> Tensor:
        """See :meth:`Output.label_margins`. O(B T V); the backward pass makes two tensors of the logits' size."""
        kind = compute_dtype(self.logits)
        chosen = self.logits.gather(2, labels[..., None]).squeeze(2)
        return chosen.to(kind) - self.logits.mean(2, dtype=kind)


class Projection(RowOutput):
    """Hidden states and the output projection, ``logits = hidden @ weight.T + bias``, in chunks of rows.

    Pass it wherever logits are accepted. Values and gradients are those of the logits to rounding, but (B, T, V) logits
    never exist: the counterpart of ``torch.nn.functional.linear_cross_entropy``.

    Args:
        hidden: (B, T, H), any floating type.
        weight: (V, H), the output projection.
        bias: (V,), or None.
        sharpness: scores distributions proportional to p ^ sharpness.
        normaliser: a fused cross-entropy that computes the log-normalisers: "torch" for the chunked
            ``torch.nn.functional.linear_cross_entropy`` (torch 2.13), "cut_cross_entropy" for Apple's package, or a
            function of hidden states (rows, H), weight, bias and tokens (rows,) that returns the cross-entropy of each
            row. None for this package's own chunks, which words are always counted with.

    O(B T V H) time: four products of the size of the projection forward and backward, two if weight and bias need no
    gradient (three in words). Memory: the gradients of the inputs, one chunk of logits no larger than ``hidden`` or 64
    rows, and two more tensors of the size of ``hidden``.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> head = torch.nn.Linear(8, 50)
        >>> hidden, labels = torch.randn(2, 4, 8), torch.randint(50, (2, 4))
        >>> fused = bleugrad.ExpectedBLEULoss()(bleugrad.Projection(hidden, head.weight, head.bias), labels)
        >>> plain = bleugrad.ExpectedBLEULoss()(head(hidden), labels)
        >>> torch.allclose(fused, plain)
        True
    """

    name = "hidden @ weight.T"

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        sharpness: float = 1.0,
        normaliser: str | RowLoss | None = None,
    ) -> None:
        batch, steps, width = check_floating("hidden", hidden, "(B, T, H)", 3).shape
        vocabulary, found = check_floating("weight", weight, "(V, H)", 2).shape
        if found != width or vocabulary == 0:
            raise ValueError(f"weight has shape {(vocabulary, found)}; expected (V, {width}), with the H of hidden")
        if bias is not None and check_floating("bias", bias, "(V,)", 1).shape[0] != vocabulary:
            raise ValueError(f"bias has shape {tuple(bias.shape)}; expected ({vocabulary},), V as in weight")
        self.shape, self.device = (batch, steps, vocabulary), hidden.device
        if isinstance(normaliser, str) and normaliser not in PROVIDERS:
            raise ValueError(f"normaliser is {normaliser!r}; expected one of {', '.join(PROVIDERS)}, or a function")
        self.hidden, self.weight, self.bias, self.sharpness = hidden, weight, bias, sharpness
        self.normaliser = PROVIDERS[normaliser] if isinstance(normaliser, str) else normaliser

    def sharpened(self, sharpness: float) -> "Projection":
        """See :meth:`Rows.sharpened`."""
        return Projection(self.hidden, self.weight, self.bias, self.sharpness * sharpness, self.normaliser)

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if self.sharpness != 1:
            bias = None if self.bias is None else self.bias * self.sharpness
            plain, sharp = (
                Projection(self.hidden, self.weight, self.bias, normaliser=self.normaliser),
                Projection(self.hidden * self.sharpness, self.weight, bias, normaliser=self.normaliser),
            )
            return _two_passes(plain, sharp, ids, targets, word_start)
        if self.normaliser is not None and word_start is None:
            known = normalised_probabilities((self.hidden, self.weight, self.bias), ids, targets, self.normaliser)
            return TokenProbabilities(*known, self.hidden.new_empty(0))
        mean_weight = torch.is_grad_enabled() and self.hidden.requires_grad and word_start is None
        inputs = (self.hidden, self.weight, self.bias, ids, targets, word_start, mean_weight)
        return TokenProbabilities(*operations.projected_probabilities(*inputs)[:3])

    def label_margins(self, labels: Tensor) -> Tensor:
        """See :meth:`Output.label_margins`. O(B T H + V H) time: the mean logit is that of the mean weight."""
        kind = compute_dtype(self.hidden)
        towards = self.weight[labels].to(kind) - self.weight.mean(0, dtype=kind)
        margins = (self.hidden.to(kind) * towards).sum(2)
        if self.bias is None:
            return margins
        return margins + self.bias[labels].to(kind) - self.bias.mean(dtype=kind)


def _two_passes(
    plain: RowOutput, sharp: RowOutput, ids: Tensor, targets: Tensor | None, word_start: Tensor | None
) -> TokenProbabilities:
    """Matches of a sharper output, and log-probabilities of targets of the output itself."""
    probs = sharp.token_probabilities(ids, None, word_start)
    if targets is None:
        return probs
    return probs._replace(target_log_probs=plain.token_probabilities(ids[:, :0], targets, None).target_log_probs)


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
