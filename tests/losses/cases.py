"""Batches for the losses, and gradients in one call."""

import torch

IGNORE = -100


def draw_batch(batch=3, steps=8, vocabulary=9, *, dtype=torch.float64, scale=1.5, words=None):
    """Logits (B, T, V) and right-padded labels (B, T) of different lengths, with repeated words."""
    logits = (torch.randn(batch, steps, vocabulary, dtype=torch.float64) * scale).to(dtype)
    labels = torch.randint(words or vocabulary, (batch, steps))
    lengths = torch.arange(batch) % steps
    labels[torch.arange(steps) >= steps - lengths[:, None]] = IGNORE
    return logits, labels


def gradients(function, *tensors):
    """The value, then the gradient of each tensor (None for None)."""
    leaves = [None if tensor is None else tensor.detach().clone().requires_grad_() for tensor in tensors]
    value = function(*leaves)
    value.sum().backward()
    return [value.detach(), *(None if leaf is None else leaf.grad for leaf in leaves)]


def assert_all_close(actual, expected, atol, rtol=0.0):
    for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, msg=lambda m, index=index: f"output {index}: {m}")
