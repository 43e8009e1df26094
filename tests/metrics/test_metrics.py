"""The torchmetrics metrics equal the functions and sacreBLEU, and two processes compute the same as one."""

import pytest
import torch

import bleugrad
from tests.processes import PROCESSES, run_processes

pytest.importorskip("torchmetrics")

from bleugrad.metrics import ExpectedScore, TokenScore

EOS = 2


def case(seed=0, sentences=6, steps=9, vocabulary=12):
    """Logits, labels that end in EOS and padding, and one sentence that has no label."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(sentences, steps, vocabulary, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, vocabulary, (sentences, steps), generator=generator)
    for row, length in enumerate(range(steps - 1, steps - 1 - sentences, -1)):
        labels[row, length] = EOS
        labels[row, length + 1 :] = -100
    labels[-1] = -100
    return logits, labels


def guesses(logits, labels):
    """Hypotheses that are right in most places, so that their BLEU is above 0."""
    wrong = torch.arange(labels.shape[1]) % 7 == 5
    return torch.where(wrong | (labels == -100), logits.argmax(2), labels)


@pytest.mark.parametrize("options", [{}, {"eos_id": EOS}, {"max_order": 2, "smoothing": 0.5}], ids=str)
def test_expected_bleu_is_the_mean_over_sentences_whatever_the_batches(options):
    logits, labels = case()
    eos_id, of_score = options.get("eos_id"), {name: value for name, value in options.items() if name != "eos_id"}
    metric = ExpectedScore(bleugrad.BLEU(**of_score), eos_id=eos_id)
    for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
        metric.update(logits[rows], labels[rows])
    wanted = bleugrad.expected_bleu(logits, labels, mask=labels != -100, level="sentence", **options)
    found = metric.compute()
    for name, values in (("score", wanted.value), ("lower", wanted.lower), ("upper", wanted.upper)):
        torch.testing.assert_close(found[name], values[:-1].mean(), rtol=1e-12, atol=0)
    ratio = wanted.hypothesis_lengths.sum() / wanted.reference_lengths.sum()
    torch.testing.assert_close(found["length_ratio"], ratio, rtol=1e-12, atol=0)


def test_the_interval_contains_the_mean_sampled_bleu():
    logits, labels = case(seed=1)
    metric = ExpectedScore()
    metric.update(logits, labels)
    samples = torch.distributions.Categorical(logits=logits).sample((2000,)).flatten(0, 1)
    mask = (labels != -100).repeat(2000, 1)
    found = bleugrad.bleu(samples.masked_fill(~mask, -100), labels.repeat(2000, 1), level="sentence").value
    per_draw = found.view(2000, 6)[:, :-1].mean(1)
    error = 4 * per_draw.std() / 2000**0.5
    computed = metric.compute()
    assert computed["lower"] - error <= per_draw.mean() <= computed["upper"] + error
    assert computed["lower"] > 0.5 * computed["upper"]


def test_no_lower_bound_where_none_is_known():
    metric = ExpectedScore(bleugrad.BLEU(smoothing=0.0))
    metric.update(torch.zeros(1, 3, 4), [[[0, 1], [2, 3]]])
    assert "lower" not in metric.compute()
    metric.reset()
    metric.update(torch.zeros(1, 3, 4), [[[0, 1]]])
    assert "lower" in metric.compute()


def test_frames_have_no_interval_and_references_of_any_length():
    logits, references = case()[0], torch.tensor([[3, 4] + [-100] * 7, [5] + [-100] * 8] * 3)  # as wide as the frames
    metric = ExpectedScore()
    metric.update(bleugrad.CTC(logits, blank_id=0), references)
    wanted = bleugrad.expected_bleu(bleugrad.CTC(logits, blank_id=0), references, level="sentence").value.mean()
    found = metric.compute()
    assert set(found) == {"score", "length_ratio"}
    torch.testing.assert_close(found["score"], wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("references", [1, 3])
def test_token_bleu_equals_sacrebleu(references):
    sacrebleu = pytest.importorskip("sacrebleu")
    generator = torch.Generator().manual_seed(references)
    lines = [torch.randint(0, 6, (int(n),), generator=generator).tolist() for n in torch.randint(4, 12, (40,))]
    them = [[torch.randint(0, 6, (8 + k,), generator=generator).tolist() for k in range(references)] for _ in lines]
    metric = TokenScore()
    for start in range(0, 40, 7):
        metric.update(lines[start : start + 7], them[start : start + 7])
    words = [" ".join(map(str, line)) for line in lines]
    streams = [[" ".join(map(str, one[k])) for one in them] for k in range(references)]
    wanted = sacrebleu.corpus_bleu(words, streams, tokenize="none", smooth_method="none", force=True).score / 100
    assert abs(metric.compute().item() - wanted) < 1e-9


def measure(rank):
    """Each process adds every other sentence; both compute the whole."""
    torch.distributed.init_process_group("gloo")
    logits, labels = case()
    expected, tokens = ExpectedScore(eos_id=EOS), TokenScore()
    own = slice(rank, None, PROCESSES)
    expected.update(logits[own], labels[own])
    tokens.update(guesses(logits, labels)[own], labels[own])
    return expected.compute() | {"bleu": tokens.compute()}


def test_two_processes_compute_what_one_does(tmp_path):
    logits, labels = case()
    expected, tokens = ExpectedScore(eos_id=EOS), TokenScore()
    expected.update(logits, labels)
    tokens.update(guesses(logits, labels), labels)
    wanted = expected.compute() | {"bleu": tokens.compute()}
    assert wanted["bleu"] > 0.1
    for found in run_processes(measure, tmp_path):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=1e-12, atol=0)
