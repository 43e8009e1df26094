"""Small batches that reach every branch of the recursion: repeats, self-overlap, EOS, words, holes, end positions."""

import torch

import bleugrad

EOS = 4
STARTS = torch.tensor([True, False, True, True, False, True])
OPTIONS = {
    "tokens": {},
    "eos": {"eos_id": EOS},
    "words": {"word_start": STARTS},
    "words, eos": {"word_start": STARTS, "eos_id": EOS},
    "recipe": {"level": "sentence", "eos_id": EOS, "end_positions": "half", "cross_entropy_weight": 1.0},
    "words, end positions": {"word_start": STARTS, "eos_id": EOS, "end_positions": "half", "cross_entropy_weight": 0.5},
}


def loss_and_gradient(name, dtype=torch.float32, max_order=3, steps=5):
    """Of a batch with repeats (0 1 0 0 1, 2 2), and with holes where there are end positions."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, steps, 6, generator=generator).to(dtype).requires_grad_()
    labels = torch.tensor([[0, 1, 0, 0, 1], [2, 2, 3, -100, -100]])[:, :steps]
    if "end_positions" in OPTIONS[name]:
        labels = torch.tensor([[0, -100, 1, 0, EOS], [-100, 2, 2, 3, -100]])[:, :steps]
    loss = bleugrad.ExpectedBLEULoss(max_order=max_order, **OPTIONS[name])(logits, labels)
    loss.backward()
    return loss.detach(), logits.grad
