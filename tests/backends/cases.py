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
    "recipe": {"level": "sentence", "eos_id": EOS, "end_positions": 3, "cross_entropy_weight": 1.0},
    "words, end positions": {"word_start": STARTS, "eos_id": EOS, "end_positions": 1, "cross_entropy_weight": 0.5},
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


def frames_and_gradient(dtype, max_order=2, graph=False):
    """Of a batch of CTC frames, or of the vertices of graphs, with repeats; a frame does not count."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(2, 4, 4, generator=generator).to(dtype).requires_grad_()
    labels, lengths = torch.tensor([[1, 1, 1], [2, 3, -100]]), torch.tensor([4, 3])
    if graph:
        transitions = torch.randn(2, 4, 4, generator=generator).to(dtype).requires_grad_()
        loss = bleugrad.ExpectedBLEULoss(max_order=max_order)(
            bleugrad.Graph(logits, transitions, lengths=lengths), labels
        )
        return loss.detach(), *torch.autograd.grad(loss, (logits, transitions))
    mask = torch.tensor([[True, False, True, True], [True, True, True, True]])
    output = bleugrad.CTC(logits, blank_id=0, lengths=lengths)
    loss = bleugrad.ExpectedBLEULoss(max_order=max_order)(output, labels, mask=mask)
    return loss.detach(), *torch.autograd.grad(loss, logits)


def counted_inputs(rng, batch, steps, eos, words, holes, extra, dtype=torch.float64):
    """Inputs of the operation counted_rows; with holes, a sentence may have no position that counts."""
    draw = lambda *shape: torch.from_numpy(rng.random(shape)).to(dtype)  # noqa: E731
    mask = torch.from_numpy(rng.random((batch, steps)) < 0.6) if holes else torch.ones(batch, steps, dtype=torch.bool)
    order = torch.argsort(~mask, stable=True, dim=1) * (torch.arange(steps) < mask.sum(1, keepdim=True))
    limits = mask.sum(1)
    ends = torch.where(limits > 0, limits + torch.from_numpy(rng.integers(extra + 1, size=batch)), 0)
    rows = draw(batch, steps, 3 + eos), draw(batch, steps) if words else None
    return *rows, order if holes else None, limits, ends, 3, extra
