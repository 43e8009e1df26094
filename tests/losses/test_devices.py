"""Labels, references, masks and opening tokens may be on the CPU while the logits are on another device.

The meta device stands for a GPU: its tensors have no data, and an operation on tensors of two devices is an error.
"""

import torch

import bleugrad

B, T, V, H = 2, 5, 7, 3
ELSEWHERE = torch.device("meta")


def calls():
    """Each of them with everything but the model's output on the CPU."""
    mask, labels = torch.ones(B, T, dtype=torch.bool), torch.zeros(B, T, dtype=torch.long)
    for options in ({}, {"eos_id": 0}, {"word_start": torch.ones(V, dtype=torch.bool)}):
        logits = torch.empty(B, T, V, device=ELSEWHERE, requires_grad=True)
        hidden, weight = torch.empty(B, T, H, device=ELSEWHERE), torch.empty(V, H, device=ELSEWHERE, requires_grad=True)
        projection = bleugrad.Projection(hidden, weight)
        for method in ("exact", "bound"):
            yield bleugrad.expected_bleu(logits, labels, mask=mask, method=method, **options).value
            yield bleugrad.expected_bleu(projection, labels, mask=mask, method=method, **options).value
            loss = bleugrad.ExpectedBLEULoss(method=method, **options)
            yield loss(projection, labels, mask=mask)
            yield loss.to(ELSEWHERE)(logits, labels, mask=mask)


def test_all_but_the_logits_may_be_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # no branch on data
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)  # which knows no meta device
    for value in calls():
        assert value.device == ELSEWHERE
        value.sum().backward()
