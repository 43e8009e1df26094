"""The gradient through fed samples, against an enumeration of all samples of a small decoder."""

import itertools

import pytest
import torch

import bleugrad

EOS, WORDS, STEPS = 2, (0, 1), 3
REFERENCE = [0, 1, 1]


class Decoder:
    """A row of logits for every prefix of words: any dependence on what was fed is possible."""

    def __init__(self):
        self.places = {
            prefix: place
            for place, prefix in enumerate(p for n in range(STEPS) for p in itertools.product(WORDS, repeat=n))
        }
        self.logits = torch.randn(len(self.places), 3, dtype=torch.float64, requires_grad=True)

    def rows(self, sample):
        """(T, V), the rows of a decoder that was fed the sample, which may end with EOS."""
        return torch.stack([self.logits[self.places[sample[:t]]] for t in range(len(sample))])

    def samples(self):
        """Every sample and its probability, differentiable; one without EOS has STEPS words."""
        for length in range(STEPS + 1):
            for words in itertools.product(WORDS, repeat=length):
                sample = (*words, EOS) if length < STEPS else words
                log_probs = self.rows(sample).log_softmax(-1)
                yield sample, sum(log_probs[t, token] for t, token in enumerate(sample)).exp()


def f(rows, **options):
    """Expected BLEU of rows."""
    return bleugrad.expected_bleu(rows[None], [REFERENCE], eos_id=EOS, max_order=2, **options).value


@pytest.fixture
def decoder(seed):
    return Decoder()


def truth(decoder, **options):
    value = sum(p * (1 - f(decoder.rows(sample), **options)) for sample, p in decoder.samples())
    return value.detach(), torch.autograd.grad(value, decoder.logits)[0]


def mean_over_all(decoder, number, loss):
    """The mean of value and gradient over all draws of ``number`` samples."""
    drawn = list(itertools.product([(x, p.detach()) for x, p in decoder.samples()], repeat=number))
    shares = torch.stack([torch.stack([p for _, p in each]).prod() for each in drawn])
    torch.testing.assert_close(shares.sum(), torch.ones((), dtype=torch.float64))
    rows = torch.zeros(len(drawn) * number, STEPS, 3, dtype=torch.float64)
    tokens = torch.full((len(drawn) * number, STEPS), -100)
    for place, (sample, _) in enumerate(itertools.chain(*drawn)):
        rows[place, : len(sample)] = decoder.rows(sample)
        tokens[place, : len(sample)] = torch.tensor(sample)
    losses = loss(rows, tokens.view(len(drawn), number, STEPS), [REFERENCE] * len(drawn))
    value = (shares * losses).sum()
    return value.detach(), torch.autograd.grad(value, decoder.logits)[0]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("options", [{}, {"method": "bound"}])
def test_the_mean_of_value_and_gradient_is_the_truth(decoder, number, options):
    loss = bleugrad.FedSamplesBLEULoss(eos_id=EOS, max_order=2, reduction="none", **options)
    value, gradient = mean_over_all(decoder, number, loss)
    wanted_value, wanted_gradient = truth(decoder, **options)
    torch.testing.assert_close(value, wanted_value)
    torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-9, atol=1e-12)
    assert gradient.abs().max() > 1e-2


def test_the_closed_form_alone_is_biased_and_caught(decoder):
    plain = bleugrad.ExpectedBLEULoss(eos_id=EOS, max_order=2, level="sentence", reduction="none")

    def alone(rows, tokens, references):
        return plain(rows, tokens.flatten(0, 1), references=references)

    value, gradient = mean_over_all(decoder, 1, alone)
    wanted_value, wanted_gradient = truth(decoder)
    torch.testing.assert_close(value, wanted_value)
    assert (gradient - wanted_gradient).norm() > 0.05 * wanted_gradient.norm()


def test_sharp_rows_are_scored_and_samples_are_those_of_the_model(decoder):
    loss = bleugrad.FedSamplesBLEULoss(eos_id=EOS, max_order=2, sharpness=2.0, reduction="none")
    value = sum(p * (1 - f(2.0 * decoder.rows(sample))) for sample, p in decoder.samples())
    found = mean_over_all(decoder, 2, loss)
    torch.testing.assert_close(found, (value.detach(), torch.autograd.grad(value, decoder.logits)[0]))


def test_the_variance_is_below_reinforces(decoder):
    """Of the gradient of two samples, by enumeration; REINFORCE scores the samples themselves."""
    drawn = list(itertools.product([(x, p.detach()) for x, p in decoder.samples()], repeat=2))
    losses = {
        "fed": bleugrad.FedSamplesBLEULoss(eos_id=EOS, max_order=2),
        "reinforce": bleugrad.ReinforceLoss(samples=2, baseline="leave-one-out", eos_id=EOS, max_order=2),
    }
    variances = {}
    for name, loss in losses.items():
        first, second = torch.zeros_like(decoder.logits), torch.zeros_like(decoder.logits)
        for (one, p), (other, q) in drawn:
            rows = torch.zeros(2, STEPS, 3, dtype=torch.float64)
            tokens = torch.full((1, 2, STEPS), -100)
            for place, sample in enumerate((one, other)):
                rows[place, : len(sample)] = decoder.rows(sample)
                tokens[0, place, : len(sample)] = torch.tensor(sample)
            if name == "fed":
                value = loss(rows, tokens, [REFERENCE])
            else:
                picked = rows.log_softmax(-1).gather(2, tokens[0].clamp(min=0)[..., None])[..., 0]
                value = loss.from_samples(tokens, picked[None], [REFERENCE])
            (gradient,) = torch.autograd.grad(value, decoder.logits)
            first, second = first + p * q * gradient, second + p * q * gradient.square()
        variances[name] = (second - first.square()).sum()
    assert variances["fed"] < variances["reinforce"] / 2


@pytest.mark.parametrize("words", [False, True])
def test_baselines_are_scores_of_own_rows_followed_by_rows_of_others(seed, words):
    logits = torch.randn(6, 4, 7, dtype=torch.float64)
    lengths = torch.tensor([[4, 2, 3], [1, 4, 4]])
    counted = torch.arange(4) < lengths[..., None]
    options = {"eos_id": 2, "max_order": 2, "word_start": torch.arange(7) % 3 != 1 if words else None}
    loss = bleugrad.FedSamplesBLEULoss(sharpness=1.5, end_positions=1, **options)
    references = [[3, 4, 5], [6, 3]]
    found = loss.baselines(logits, references, counted)
    scores = bleugrad.ExpectedBLEULoss(level="sentence", sharpness=1.5, end_positions=1, **options)
    rows = logits.view(2, 3, 4, 7)
    for b, s in itertools.product(range(2), range(3)):
        for t in range(int(lengths[b, s])):
            values = []
            for other in {0, 1, 2} - {s}:
                joined = torch.cat([rows[b, s, : t + 1], rows[b, other, t + 1 : int(lengths[b, other])]])
                values.append(1 - scores(joined[None], references=references[b : b + 1]))
            torch.testing.assert_close(found[b, s, t], torch.stack(values).mean())
    assert not found[~counted].any()
    as_tensor = torch.tensor([[3, 4, 5], [6, 3, -100]])
    torch.testing.assert_close(loss.baselines(logits, as_tensor, counted), found)
    projection = bleugrad.Projection(logits, torch.eye(7, dtype=torch.float64))
    torch.testing.assert_close(loss.baselines(projection, references, counted), found)


def test_padding_and_batch_mates_do_not_matter(seed):
    logits = torch.randn(4, 5, 7, dtype=torch.float64)
    samples = torch.tensor(
        [[[3, 4, 2, -100, -100], [5, 2, -100, -100, -100]], [[6, 6, 3, 4, 5], [4, 3, 2, -100, -100]]]
    )
    references = [[3, 4, 5], [6, 3]]
    loss = bleugrad.FedSamplesBLEULoss(eos_id=2, reduction="none")

    def found(rows, *given):
        rows = rows.clone().requires_grad_()
        value = loss(rows, *given)
        return value, torch.autograd.grad(value.sum(), rows)[0]

    both, gradient = found(logits, samples, references)
    alone, first = found(logits[:2, :3], samples[:1, :, :3], references[:1])
    torch.testing.assert_close((alone, first), (both[:1], gradient[:2, :3]))
    alone, second = found(logits[2:], samples[1:], references[1:])
    torch.testing.assert_close((alone, second), (both[1:], gradient[2:]))
    nothing = torch.full_like(samples, -100)
    assert loss(logits, nothing, references).tolist() == [0, 0]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"samples is \(2, 5\); expected token ids \(B, S, T\)"):
        bleugrad.FedSamplesBLEULoss()(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long), [[3], [4]])
