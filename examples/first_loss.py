"""The example of the README: a loss, its gradient, and a certified interval for the true expected BLEU."""

import torch

import bleugrad

torch.manual_seed(0)
logits = torch.randn(2, 6, 1000, requires_grad=True)  # sentences, positions, vocabulary
labels = torch.tensor([[5, 17, 3, 42, 8, 2], [9, 9, 61, 2, -100, -100]])  # token ids

loss = bleugrad.ExpectedBLEULoss()(logits, labels)
loss.backward()
print(f"loss {loss.item():.4f}, gradient {logits.grad.norm().item():.6f}")

result = bleugrad.expected_bleu(logits, labels, mask=labels != -100, level="sentence")
for low, high in zip(result.lower.tolist(), result.upper.tolist(), strict=True):
    print(f"expected BLEU is certainly between {low:.4f} and {high:.4f}")
