"""Minimum risk over candidates whose risks are exact expectations."""

import pytest
import torch

import bleugrad

EOS = 2


def make_case(batch=2, number=3, steps=5, vocabulary=7):
    """Logits of a decoder, candidates of different lengths ended by EOS, and references."""
    logits = torch.randn(batch * number, steps, vocabulary, dtype=torch.float64)
    candidates = torch.randint(3, vocabulary, (batch, number, steps))
    for index in range(batch * number):
        end = 1 + index % steps
        row = candidates[index // number, index % number]
        row[end:] = -100
        row[end - 1] = EOS
    return logits, candidates, torch.randint(3, vocabulary, (batch, 4))


def by_definition(logits, candidates, references, alpha, length_penalty, **options):
    """The formula, candidate by candidate."""
    losses = []
    for sentence, own in enumerate(candidates):
        scores, risks = [], []
        for place, candidate in enumerate(own):
            tokens = candidate[candidate != -100]
            rows = logits[sentence * len(own) + place, : len(tokens)]
            log_prob = rows.log_softmax(-1)[range(len(tokens)), tokens].sum()
            scores.append(alpha * log_prob / len(tokens) ** length_penalty)
            risks.append(1 - bleugrad.expected_bleu(rows[None], references[sentence][None], **options).value)
        losses.append((torch.stack(scores).softmax(0) * torch.stack(risks)).sum())
    return torch.stack(losses)


@pytest.mark.parametrize("options", [{}, {"eos_id": EOS}, {"method": "bound", "max_order": 2}])
@pytest.mark.parametrize(("alpha", "length_penalty"), [(1.0, 1.0), (0.3, 0.0), (0.0, 1.0)])
def test_value_and_gradient_are_those_of_the_formula(seed, alpha, length_penalty, options):
    logits, candidates, references = make_case()
    module = bleugrad.CandidateBLEULoss(alpha=alpha, length_penalty=length_penalty, reduction="none", **options)
    weights = torch.tensor([0.7, 1.9], dtype=torch.float64)
    found, wanted = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = module(found, candidates, references)
    expected = by_definition(wanted, candidates, references, alpha, length_penalty, **options)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (weights * loss).sum().backward()
    (weights * expected).sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-10, atol=1e-12)


def test_one_candidate_is_the_loss_of_its_rows(seed):
    logits, candidates, references = make_case(number=1)
    loss = bleugrad.CandidateBLEULoss(eos_id=EOS, sharpness=2.0, end_positions=2)(logits, candidates, references)
    plain = bleugrad.ExpectedBLEULoss(eos_id=EOS, level="sentence", sharpness=2.0, end_positions=2)
    torch.testing.assert_close(loss, plain(logits, candidates[:, 0], references=references))


def test_candidates_without_tokens_padding_and_other_sentences_do_not_matter(seed):
    logits, candidates, references = make_case()
    module = bleugrad.CandidateBLEULoss(eos_id=EOS, reduction="none")
    expected = module(logits, candidates, references)
    wider = torch.nn.functional.pad(candidates, (0, 2, 0, 1), value=-100)
    rows = torch.full((2, 4, 7, 7), 3.0, dtype=torch.float64)
    rows[:, :3, :5] = logits.view(2, 3, 5, 7)
    torch.testing.assert_close(module(rows.flatten(0, 1), wider, references), expected)
    torch.testing.assert_close(module(logits[3:], candidates[1:], references[1:]), expected[1:])
    none = torch.full_like(candidates[:1], -100)
    both = module(torch.cat([logits[:3], logits[:3]]), torch.cat([candidates[:1], none]), references)
    torch.testing.assert_close(both, torch.stack([expected[0], torch.zeros_like(expected[0])]))
    mean = bleugrad.CandidateBLEULoss(eos_id=EOS)
    torch.testing.assert_close(
        mean(torch.cat([logits[:3]] * 2), torch.cat([candidates[:1], none]), references), both[0]
    )


def test_references_may_be_lists_and_rows_a_projection(seed):
    logits, candidates, references = make_case()
    module = bleugrad.CandidateBLEULoss(eos_id=EOS)
    expected = module(logits, candidates, references)
    torch.testing.assert_close(module(logits, candidates, references.tolist()), expected)
    projection = bleugrad.Projection(logits, torch.eye(7, dtype=torch.float64))
    torch.testing.assert_close(module(projection, candidates, references), expected)
    several = [[one, one] for one in references.tolist()]
    torch.testing.assert_close(module(logits, candidates, several), expected)


def test_a_step_shifts_probability_to_the_better_candidate(seed):
    candidates = torch.tensor([[[4, 5, 6, EOS], [6, 3, 3, EOS]]])
    logits = (2.0 * torch.nn.functional.one_hot(candidates[0], 7)).requires_grad_()

    def margin(rows):
        first, second = rows.log_softmax(-1).gather(2, candidates[0][..., None]).sum((1, 2))
        return first - second

    bleugrad.CandidateBLEULoss(eos_id=EOS)(logits, candidates, torch.tensor([[4, 5, 6]])).backward()
    assert margin(logits - logits.grad) > margin(logits) + 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"candidates": torch.zeros(2, 5, dtype=torch.long)},
            r"candidates is \(2, 5\); expected token ids \(B, S, T\)",
        ),
        ({"candidates": torch.zeros(2, 0, 5, dtype=torch.long)}, r"candidates is \(2, 0, 5\); expected"),
        ({"references": [[3, 4]]}, "references has 1 entries; expected 2, one for each sentence"),
        ({"candidates": torch.zeros(2, 2, 5, dtype=torch.long)}, "labels has shape"),
    ],
)
def test_bad_input_is_named(seed, change, message):
    logits, candidates, references = make_case()
    given = {"candidates": candidates, "references": references, **change}
    with pytest.raises(ValueError, match=message):
        bleugrad.CandidateBLEULoss()(logits, given["candidates"], given["references"])


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="alpha is -1"):
        bleugrad.CandidateBLEULoss(alpha=-1)


def test_candidates_may_bring_their_log_probabilities(seed):
    logits, candidates, references = make_case()
    loss = bleugrad.CandidateBLEULoss(alpha=0.7, eos_id=EOS, reduction="none")
    mask = candidates != -100
    mask[1, 2] = False
    tokens = torch.where(mask, candidates, 0).flatten(0, 1)
    log_probs = torch.where(mask.flatten(0, 1), logits.log_softmax(-1).gather(2, tokens[..., None])[..., 0], 0)
    found = loss.from_log_probs(logits, log_probs.sum(1).view(2, 3), references, mask=mask)
    torch.testing.assert_close(found, loss(logits, candidates.masked_fill(~mask, -100), references))
    with pytest.raises(ValueError, match=r"log_probs is \(2, 2\) and mask \(2, 3, 5\); expected \(B, S\)"):
        loss.from_log_probs(logits, log_probs.sum(1).view(2, 3)[:, :2], references, mask=mask)
