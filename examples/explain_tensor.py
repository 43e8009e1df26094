"""Watch the loss at work: free logits descend 1 - expected BLEU, and a page steps through the checkpoints."""

import sys
from pathlib import Path

import torch

import bleugrad
from bleugrad.explanation import explanation_page

target = Path(sys.argv[1] if len(sys.argv) > 1 else "explain.html")
vocabulary = "the cat sat on mat dog ran .".split()
reference = [vocabulary.index(word) for word in "the cat sat on the mat .".split()]

torch.manual_seed(0)
logits = torch.randn(len(reference), len(vocabulary), requires_grad=True)
optimizer = torch.optim.Adam([logits], lr=0.1)
loss = bleugrad.ExpectedBLEULoss(level="sentence")
names, checkpoints = [], []
for step in range(101):
    if step % 10 == 0:
        names.append(f"step {step}")
        checkpoints.append(bleugrad.explain(logits, reference, vocabulary=vocabulary))
    optimizer.zero_grad()
    loss(logits[None], torch.tensor([reference])).backward()
    optimizer.step()

print(checkpoints[-1])
target.write_text(explanation_page(checkpoints, names), encoding="utf-8")
print(f"\npage: {target}")
