import pytest
import torch

from bleugrad.lab.models.search.beams import beam
from tests.lab.models import naive
from tests.lab.models.naive import rows_of


def ranked(translations, length_penalty):
    """(score, tokens, log_prob) from the best on."""
    scored = [(value / (len(key) + 1) ** length_penalty, key, value) for key, value in translations.items()]
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize(("minimum", "forbid_unk"), [(0, False), (2, True)])
def test_a_wide_beam_is_exhaustive_search(build, source, length_penalty, minimum, forbid_unk):
    model = build((1, 2), vocabulary=6)
    options = {"maximum": 3, "minimum": minimum, "length_penalty": length_penalty, "forbid_unk": forbid_unk}
    found = beam(model, *source, width=6**3, n_best=7, **options)
    forbidden = (naive.PAD, naive.BOS, naive.UNK) if forbid_unk else (naive.PAD, naive.BOS)
    for ids, hypotheses in zip(rows_of(source), found, strict=True):
        expected = ranked(naive.all_translations(model, ids, 3, minimum, forbidden), length_penalty)[:7]
        assert [tuple(each.tokens) for each in hypotheses] == [tokens for _, tokens, _ in expected]
        for each, (score, _, log_prob) in zip(hypotheses, expected, strict=True):
            assert each.score == pytest.approx(score, rel=1e-10)
            assert each.log_prob == pytest.approx(log_prob, rel=1e-10)


@torch.no_grad()
def naive_beam(model, ids, width, maximum, length_penalty):
    """Beam search of one sentence with lists: finished hypotheses keep their place."""
    running, finished = [((), 0.0)], []
    while running:
        continued = []
        for tokens, log_prob in running:
            row = naive.log_probs(model, ids, [naive.BOS, *tokens])[-1]
            words = [naive.EOS] if len(tokens) == maximum else [1, *range(3, model.target_size)]
            continued += [((*tokens, word), log_prob + float(row[word])) for word in words]
        continued = sorted(continued, key=lambda pair: -pair[1])[: width - len(finished)]
        finished += [pair for pair in continued if pair[0][-1] == naive.EOS]
        running = [pair for pair in continued if pair[0][-1] != naive.EOS]
    return sorted(((p / len(t) ** length_penalty, t[:-1]) for t, p in finished), reverse=True)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_equals_beam_search_with_lists(build, source, width, length_penalty):
    model = build((2, 1))
    model.output.bias.data[naive.EOS] += 1  # some hypotheses end early
    found = beam(model, *source, width=width, maximum=7, length_penalty=length_penalty, n_best=width)
    for ids, hypotheses in zip(rows_of(source), found, strict=True):
        expected = naive_beam(model, ids, width, 7, length_penalty)
        assert [tuple(each.tokens) for each in hypotheses] == [tokens for _, tokens in expected]
        assert [each.score for each in hypotheses] == pytest.approx([score for score, _ in expected], rel=1e-10)


def many(number, seed):
    lengths = torch.randint(1, 8, (number,), generator=torch.Generator().manual_seed(seed))
    return torch.randint(4, 9, (number, 7), generator=torch.Generator().manual_seed(seed)), lengths


def of_many_lengths(model):
    """The model with a probability of EOS that gives translations of many lengths."""
    model.output.bias.data[naive.EOS] += {"lstm": 1.0, "transformer": -1.5}[model.config.kind]
    return model


def greedy(model, *source, **options):
    return [best for (best,) in beam(model, *source, width=1, **options)]


@torch.no_grad()
def test_a_beam_of_one_is_greedy(build, seed):
    model = of_many_lengths(build((2, 2)))
    source, limits = many(20, seed), torch.arange(20)
    found = greedy(model, *source, maximum=limits)
    assert len({len(each.tokens) for each in found}) > 4
    for ids, limit, each in zip(rows_of(source), limits.tolist(), found, strict=True):
        tokens, log_prob = [naive.BOS], 0.0
        while tokens[-1] != naive.EOS:
            row = naive.log_probs(model, ids, tokens)[-1]
            words = [naive.EOS] if len(tokens) > limit else [1, *range(3, model.target_size)]
            tokens.append(max(words, key=lambda word: float(row[word])))
            log_prob += float(row[tokens[-1]])
        assert each.tokens == tokens[1:-1]
        assert each.log_prob == pytest.approx(log_prob, rel=1e-10)
        assert each.score == pytest.approx(log_prob / (len(tokens) - 1), rel=1e-10)


@pytest.mark.parametrize("width", [1, 4])
def test_a_batch_equals_one_sentence_at_a_time(build, seed, width):
    model = of_many_lengths(build((1, 2)))
    (ids, lengths), limits = many(20, seed), 1 + torch.arange(20) % 9
    together = beam(model, ids, lengths, width=width, maximum=limits, n_best=width)
    assert len({len(each[0].tokens) for each in together}) > 4
    for row in range(20):
        alone = slice(row, row + 1)
        (expected,) = beam(model, ids[alone], lengths[alone], width=width, maximum=int(limits[row]), n_best=width)
        assert [each.tokens for each in together[row]] == [each.tokens for each in expected]
        assert [each.score for each in together[row]] == pytest.approx([each.score for each in expected], rel=1e-10)


def test_finished_sentences_leave_the_batch(build, source):
    model = build()
    rows, sentences, project, step = [], [], model.projection(), model.step

    def watched(hidden):
        rows.append(len(hidden))
        return project(hidden)

    def watched_step(memory, state, tokens, origins=None):
        sentences.append(len(memory))
        return step(memory, state, tokens, origins=origins)

    model.projection, model.step = lambda: watched, watched_step
    greedy(model, *source, maximum=torch.tensor([0, 2, 4]), minimum=0)
    assert rows[0] == 3
    assert rows[1] <= 2
    assert rows[3:] in ([], [1], [1, 1])
    rows.clear()
    sentences.clear()
    beam(model, *source, width=3, maximum=torch.tensor([0, 2, 4]))
    assert sentences == [3, 2, 2, 1, 1]
    assert rows[0] == 3
    assert max(rows[1:3]) <= 6
    assert max(rows[3:]) <= 3


def test_lengths_keep_within_their_limits(build, source):
    model = build()
    model.output.bias.data[naive.EOS] += 6
    assert all(4 <= len(each.tokens) <= 9 for each in greedy(model, *source, maximum=9, minimum=4))
    model.output.bias.data[naive.EOS] -= 12
    limits = torch.tensor([0, 3, 5])
    assert [len(each.tokens) for each in greedy(model, *source, maximum=limits)] == [0, 3, 5]
    found = beam(model, *source, width=3, maximum=limits, n_best=3)
    assert [[len(each.tokens) for each in one] for one in found] == [[0], [3, 3, 3], [5, 5, 5]]


def test_n_best_are_different_and_sorted(build, source):
    for hypotheses in beam(build(), *source, width=6, maximum=6, n_best=6):
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(each.tokens) for each in hypotheses}) == 6


def test_pad_and_bos_are_never_produced(build, source):
    model = build()
    model.output.bias.data[:3] += 8
    for found in (greedy(model, *source, maximum=6), beam(model, *source, 4, 6)):
        tokens = {token for each in found for token in (each[0] if isinstance(each, list) else each).tokens}
        assert naive.PAD not in tokens
        assert naive.BOS not in tokens
        assert naive.UNK in tokens
    assert all(naive.UNK not in each.tokens for each in greedy(model, *source, maximum=6, forbid_unk=True))


def test_the_mode_of_the_model_neither_matters_nor_changes(build, source):
    model = build(dropout=0.5)
    expected = beam(model.eval(), *source, width=3, maximum=6)
    assert beam(model.train(), *source, width=3, maximum=6) == expected
    assert model.training
    assert model.encoder.training


def test_no_sentences_have_no_translations(build):
    nothing = torch.empty(0, 1, dtype=torch.long)
    assert beam(build(), nothing, nothing[:, 0], maximum=5) == []
    assert greedy(build(), nothing, nothing[:, 0], maximum=5) == []


def test_bad_arguments_are_named(build, source):
    model = build()
    with pytest.raises(ValueError, match="width is 0; expected at least 1"):
        beam(model, *source, width=0)
    with pytest.raises(ValueError, match="n_best is 4; expected 1 to width = 3"):
        beam(model, *source, width=3, n_best=4)
    with pytest.raises(ValueError, match="minimum is -1; expected at least 0"):
        greedy(model, *source, maximum=5, minimum=-1)
    with pytest.raises(ValueError, match="maximum is 3; expected at least minimum = 4"):
        greedy(model, *source, maximum=torch.tensor([3, 5, 5]), minimum=4)
    model.output.bias.data[:] = torch.nan
    with pytest.raises(ValueError, match="gives no token a probability"):
        beam(model, *source)
