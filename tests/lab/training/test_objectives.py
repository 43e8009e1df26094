"""Objectives: equal to the losses they name, for every feeding, with a gradient for every parameter."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

import bleugrad
from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.encoding import EncodedSplit
from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.feeding import feed
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.soft_beam import soft_beam
from bleugrad.lab.special_ids import BOS, EOS, PAD
from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.objectives.config import OWN_TOKENS
from bleugrad.losses import recipe
from tests.lab.training.corpora import objective_config

SOURCES = [[4, 5, 6], [7, 8], [9, 9, 9, 9], [5]]
TARGETS = [[4, 5], [6, 7, 8], [9, 4, 4, 4], [4]]
NAMES = ("ce", "bound", "exact", "reinforce", "mrt", "unbiased")
FEEDINGS = ("reference", "greedy", "sample", "mixture")


def make_batch(rows=(0, 1, 2, 3), several=False):
    references = [[target, target[::-1]] if several else [target] for target in TARGETS]
    return BatchPlan(EncodedSplit(SOURCES, TARGETS, references)).collate(rows)


@pytest.fixture(params=["lstm", "transformer"])
def model(request, seed):
    return build_model(ModelConfig(request.param, embedding=8, hidden=8, dropout=0.3, initial_range=0.5), 12, 12)


def possible(name, feeding):
    return name != "ce" or feeding not in OWN_TOKENS


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("name", "feeding"), [(name, feeding) for name in NAMES for feeding in FEEDINGS if possible(name, feeding)]
)
def test_every_parameter_has_a_gradient_and_an_empty_batch_has_none(model, name, feeding, several, weight):
    options = {} if name == "ce" else {"cross_entropy_weight": weight}
    options |= {"samples": 3} if name in ("reinforce", "mrt", "unbiased") else {}
    objective = build_objective(model, objective_config(name, feeding=feeding, own_first=0.5, **options))
    objective.begin_epoch(1, 0.0)
    loss = objective(make_batch(several=several))
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name
    model.zero_grad()
    objective(make_batch((), several=several)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{parameter_name}: a process would wait for its gradient for ever"
        assert not parameter.grad.any()


def test_cross_entropy_of_own_tokens_is_refused():
    with pytest.raises(UsageError, match=r"objective\.feeding is 'sample'; expected 'reference' or 'mixture'"):
        objective_config(feeding="sample")


def test_cross_entropy_is_the_mean_over_tokens(model):
    model.eval()
    batch = make_batch()
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    expected = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=-100)
    torch.testing.assert_close(build_objective(model, objective_config())(batch), expected)


def test_smoothed_labels_spread_over_the_vocabulary(model):
    model.eval()
    batch = make_batch()
    log_probs = model(batch.source, batch.source_lengths, batch.inputs()).log_softmax(-1)
    rows, labels = log_probs[batch.labels != -100], batch.labels[batch.labels != -100]
    expected = -(0.8 * rows.gather(1, labels[:, None])[:, 0] + 0.2 * rows.mean(-1)).mean()
    smoothed = objective_config(label_smoothing=0.2)
    torch.testing.assert_close(build_objective(model, smoothed)(batch), expected)
    with pytest.raises(
        UsageError, match=r"objective\.label_smoothing is a setting of ce, recommended, not of 'exact'; expected one"
    ):
        objective_config("exact", label_smoothing=0.2)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("level", ["corpus", "sentence"])
@pytest.mark.parametrize("name", ["bound", "exact"])
def test_fed_the_reference_the_end_of_a_sentence_counts_as_a_word(model, name, level, several):
    model.eval()
    batch = make_batch(several=several)
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    references = [[[*target, EOS]] + [[*target[::-1], EOS]] * several for target in TARGETS]
    loss = bleugrad.ExpectedBLEULoss(method=name, level=level, smoothing=0.5, cross_entropy_weight=0.25)
    expected = loss(logits, batch.labels, references=references)
    config = objective_config(name=name, level=level, smoothing=0.5, cross_entropy_weight=0.25)
    torch.testing.assert_close(build_objective(model, config)(batch), expected)


@pytest.mark.parametrize("in_words", [False, True])
def test_the_recommended_recipe_is_that_of_the_losses(model, in_words):
    model.eval()
    batch, starts = make_batch(), torch.arange(12) < 6 if in_words else None
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    expected = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS, word_start=starts)(logits, batch.labels)
    config = objective_config("recommended")
    torch.testing.assert_close(build_objective(model, config, word_start=starts)(batch), expected)


@pytest.mark.parametrize(
    ("option", "value"),
    [("sharpness", 1.0), ("end_positions", 1), ("level", "sentence"), ("cross_entropy_weight", 0.5), ("max_order", 2)],
)
def test_an_option_of_the_recipe_keeps_the_others(model, option, value):
    model.eval()
    batch = make_batch(several=True)
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    loss = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS, **{option: value})
    expected = loss(logits, batch.labels, references=batch.references)
    found = build_objective(model, objective_config("recommended", **{option: value}))(batch)
    torch.testing.assert_close(found, expected)
    assert not torch.isclose(found, build_objective(model, objective_config("recommended"))(batch))


@pytest.mark.parametrize(
    ("name", "option", "users"),
    [
        ("recommended", "length", "bound, exact, clipped_mean, not of 'recommended'"),
        ("recommended", "baseline", "reinforce, not of 'recommended'; expected one of"),
        ("ce", "sharpness", "soft_beam, not of 'ce'; expected one of own_first"),
        ("unbiased", "sharpness", "soft_beam, not of 'unbiased'"),
        ("unbiased", "length", "bound, exact, clipped_mean, not of 'unbiased'"),
        ("reinforce", "units", "not of 'reinforce'"),
        ("ce", "likelihood_epochs", "not of 'ce'"),
        ("candidates", "feeding", "not of 'candidates'"),
        ("soft_beam", "likelihood_epochs", "not of 'soft_beam'"),
        ("exact", "samples", "reinforce, mrt, unbiased, not of 'exact'"),
        ("exact", "input_gradient", "soft_beam, not of 'exact'"),
    ],
)
def test_a_setting_of_another_objective_is_refused_with_its_users_and_the_settings_there_are(name, option, users):
    with pytest.raises(UsageError, match=rf"objective.{option} is a setting of .*{users}"):
        objective_config(name, **{option: 1})


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ({"name": "exact", "recommended": True}, {"name": "recommended"}),
        ({"name": "exact", "recommended": False, "level": "sentence"}, {"name": "exact", "level": "sentence"}),
        (
            {"name": "bound", "feeding": "soft-beam", "candidates": 3, "input_gradient": True},
            {"name": "soft_beam", "method": "bound", "candidates": 3, "input_gradient": True},
        ),
        (
            {"name": "exact", "feeding": "sample", "input_gradient": True, "samples": 2},
            {"name": "exact", "feeding": "fed_samples"},
        ),
        ({"name": "fed_samples", "method": "bound", "samples": 2}, {"name": "bound", "feeding": "fed_samples"}),
    ],
)
def test_tables_of_earlier_versions_keep_their_meaning(earlier, now):
    assert objective_config(**earlier) == objective_config(**now)
    without_effect = {"baseline": "greedy", "alpha": 0.3, "own_first": 0.2, "label_smoothing": 0.1}
    assert objective_config(**without_effect | {"own_first": 0.0} | earlier) == objective_config(**now)


@pytest.mark.parametrize("units", ["tokens", "words"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("name", "sharpness"), [("bound", 1.0), ("exact", 1.0), ("exact", 0.02)])
def test_positions_after_the_end_are_certain(model, name, sharpness, several, units):
    model.eval()
    batch = make_batch(several=several)
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    certain = torch.full((2, logits.shape[-1]), -1e4)
    certain[:, PAD] = 0
    word_start = (torch.arange(12) < 6) if units == "words" else None  # the special tokens open words, as two others do
    scores = []
    for row, target in enumerate(TARGETS):
        references = [[*reference, EOS, PAD, PAD] for reference in [target, target[::-1]][: 1 + several]]
        rows = torch.cat([sharpness * logits[row, : len(target) + 1], certain])
        scores.append(bleugrad.expected_bleu(rows[None], [references], method=name, word_start=word_start).value)
    settings = {"name": name, "level": "sentence", "end_positions": 2, "units": units, "sharpness": sharpness}
    loss = build_objective(model, objective_config(**settings), word_start=word_start)(batch)
    torch.testing.assert_close(loss, 1 - torch.stack(scores).mean())
    mixed = build_objective(model, objective_config(**settings, cross_entropy_weight=0.5), word_start=word_start)(batch)
    torch.testing.assert_close(mixed, loss + 0.5 * build_objective(model, objective_config())(batch))


@pytest.mark.parametrize("units", ["tokens", "words"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("further", [0, 2])
@pytest.mark.parametrize("name", ["bound", "exact"])
def test_fed_the_reference_the_length_can_be_random_too(model, name, further, several, units):
    """EOS ends the sentence; words after the end of the reference match nothing."""
    model.eval()
    batch = make_batch(several=several)
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    certain = torch.full((further, logits.shape[-1]), -1e4)
    certain[:, PAD] = 0
    word_start = (torch.arange(12) < 6) if units == "words" else None
    scores = []
    for row, target in enumerate(TARGETS):
        references = [target, target[::-1]][: 1 + several]
        rows = torch.cat([logits[row, : len(target) + 1], certain])
        result = bleugrad.expected_bleu(rows[None], [references], method=name, eos_id=EOS, word_start=word_start)
        scores.append(result.value)
    settings = {"name": name, "level": "sentence", "length": "random", "end_positions": further, "units": units}
    loss = build_objective(model, objective_config(**settings), word_start=word_start)(batch)
    torch.testing.assert_close(loss, 1 - torch.stack(scores).mean())
    mixed = build_objective(model, objective_config(**settings, cross_entropy_weight=0.5), word_start=word_start)(batch)
    torch.testing.assert_close(mixed, loss + 0.5 * build_objective(model, objective_config())(batch))


@pytest.mark.parametrize(("name", "feeding"), [(n, f) for n in ("bound", "exact") for f in ("reference", "greedy")])
@pytest.mark.parametrize("several", [False, True])
def test_sharp_rows_are_scored_and_cross_entropy_is_that_of_the_model(model, name, feeding, several):
    model.eval()
    batch = make_batch(several=several)
    settings = {"name": name, "feeding": feeding}
    mixed = objective_config(**settings, sharpness=3.0, cross_entropy_weight=0.5)
    found = build_objective(model, mixed)(batch)
    memory = model.encode(batch.source, batch.source_lengths)
    fed = feed(model, memory, batch.inputs(), feeding, **({"steps": 9} if feeding == "greedy" else {}))
    cross_entropy = build_objective(model, objective_config())(batch)
    end, mask = ([EOS], batch.labels != -100) if feeding == "reference" else ([], fed.mask)
    references = [[[*target, *end]] + [[*target[::-1], *end]] * several for target in TARGETS]
    loss = bleugrad.ExpectedBLEULoss(method=name, eos_id=None if end else EOS)
    expected = loss(3.0 * fed.logits, references=references, mask=mask)
    torch.testing.assert_close(found, expected + 0.5 * cross_entropy)


@pytest.mark.parametrize("feeding", OWN_TOKENS)
def test_fed_its_own_tokens_the_length_is_random(model, feeding):
    model.eval()
    batch = make_batch()
    config = objective_config(
        name="exact", feeding=feeding, length_factor=1.5, length_extra=2, cross_entropy_weight=2.0
    )
    torch.manual_seed(3)
    found = build_objective(model, config)(batch)
    torch.manual_seed(3)
    memory = model.encode(batch.source, batch.source_lengths)
    fed = feed(model, memory, batch.inputs(), feeding, steps=10)  # 1.5 times the 5 positions of the longest label, + 2
    expected = bleugrad.ExpectedBLEULoss(eos_id=EOS)(fed.logits, references=TARGETS, mask=fed.mask)
    added = 2.0 * build_objective(model, objective_config())(batch)
    torch.testing.assert_close(found, expected + added)


def test_fed_its_own_tokens_a_decoder_that_ends_too_early_learns_what_going_on_is_worth(model):
    model.eval()
    model.output.bias.data[EOS] += 6  # ends at once
    batch = make_batch()
    slopes = []
    for further in (0, 3):
        config = objective_config(name="exact", feeding="greedy", end_positions=further)
        memory = model.encode(batch.source, batch.source_lengths)
        fed = feed(model, memory, batch.inputs(), "greedy", steps=9, further=further)
        assert torch.equal(fed.mask.sum(1), (batch.labels != -100).sum(1) + 3 if further else torch.ones(4))
        loss = build_objective(model, config)(batch)
        expected = bleugrad.ExpectedBLEULoss(eos_id=EOS)(fed.logits, references=TARGETS, mask=fed.mask)
        torch.testing.assert_close(loss, expected)
        slopes.append(torch.autograd.grad(loss, model.output.bias)[0][EOS].item())
    assert slopes[1] > slopes[0] > 0


@pytest.mark.parametrize("in_words", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_the_recommended_recipe_of_own_tokens(model, several, in_words):
    """Cross-entropy and share are those of the reference, expected BLEU that of own tokens past both ends."""
    model.eval()
    model.output.bias.data[EOS] += 3
    batch, starts = make_batch(several=several), torch.arange(12) % 4 != 0
    config = objective_config("recommended", feeding="greedy", units="words" if in_words else "tokens")
    found = build_objective(model, config, word_start=starts)(batch)
    memory = model.encode(batch.source, batch.source_lengths)
    fed = feed(model, memory, batch.inputs(), "greedy", steps=9, further=recipe.END_POSITIONS)
    loss = bleugrad.ExpectedBLEULoss(eos_id=EOS, sharpness=recipe.SHARPNESS, word_start=starts if in_words else None)
    references = [[target] + [target[::-1]] * several for target in TARGETS]
    nll = build_objective(model, objective_config())(batch)
    share = recipe.bleu_share(nll)
    expected = share * loss(fed.logits, references=references, mask=fed.mask)
    torch.testing.assert_close(found, expected + (1 - share) * nll)


def test_own_tokens_of_the_recipe_are_scored_together_from_the_first_epoch():
    for options in ({"level": "sentence"}, {"likelihood_epochs": 1}):
        with pytest.raises(UsageError, match=r"with feeding 'greedy'; expected 'corpus' and 0"):
            objective_config("recommended", feeding="greedy", **options)


def cut(fed):
    """What the decoder said before its EOS."""
    return [
        [token for token, valid in zip(*row, strict=True) if valid and token != EOS]
        for row in zip(fed.tokens.tolist(), fed.mask.tolist(), strict=True)
    ]


@pytest.mark.parametrize("baseline", ["none", "leave-one-out", "greedy"])
def test_reinforce_rewards_the_sequences_the_decoder_sampled(model, baseline):
    model.eval()
    batch = make_batch()
    config = objective_config(name="reinforce", feeding="sample", samples=3, baseline=baseline)
    torch.manual_seed(3)
    loss = build_objective(model, config)(batch)
    loss.backward()
    found = model.output.weight.grad.clone()
    torch.manual_seed(3)
    memory = model.encode(batch.source, batch.source_lengths)
    fed = feed(model, memory, batch.inputs().repeat_interleave(3, 0), "sample", steps=9)
    sequences = cut(fed)
    references = [target for target in TARGETS for _ in range(3)]
    rewards = bleugrad.bleu(sequences, references, smoothing=1.0, level="sentence").value.view(4, 3)
    torch.testing.assert_close(loss.double(), 1 - rewards.double().mean())
    greedy = cut(feed(model, memory, batch.inputs(), "greedy", steps=9))
    baselines = {
        "none": torch.zeros(4, 3),
        "leave-one-out": (rewards.sum(1, keepdim=True) - rewards) / 2,
        "greedy": bleugrad.bleu(greedy, TARGETS, smoothing=1.0, level="sentence").value[:, None],
    }
    log_probs = fed.logits.log_softmax(-1).gather(2, fed.tokens[:, :, None])[:, :, 0]
    of_sequences = torch.where(fed.mask, log_probs, 0).sum(1).view(4, 3)
    model.zero_grad()
    (-(rewards - baselines[baseline]).float() * of_sequences).mean().backward()
    torch.testing.assert_close(found, model.output.weight.grad)


def test_words_are_counted_where_subwords_are_asked_to(model):
    model.eval()
    batch = make_batch()
    starts = torch.arange(12) % 3 != 1
    config = objective_config(name="exact", units="words")
    logits = model(batch.source, batch.source_lengths, batch.inputs())
    expected = bleugrad.ExpectedBLEULoss(word_start=starts)(logits, batch.labels)
    torch.testing.assert_close(build_objective(model, config, word_start=starts)(batch), expected)
    tokens = build_objective(model, objective_config(name="exact"), word_start=starts)(batch)
    assert tokens != expected


def test_a_mixture_feeds_what_the_schedule_says(model):
    model.eval()
    batch = make_batch()
    mixture = build_objective(model, objective_config(feeding="mixture", own_last=1.0))
    reference = build_objective(model, objective_config())(batch)
    mixture.begin_epoch(1, 0.0)
    torch.testing.assert_close(mixture(batch), reference)
    mixture.begin_epoch(5, 1.0)
    torch.manual_seed(0)
    assert (mixture(batch) - reference).abs() > 1e-4


@pytest.mark.parametrize("several", [False, True])
def test_candidates_of_the_beam_are_fed_and_scored(model, several):
    model.eval()
    batch = make_batch(several=several)
    settings = objective_config("candidates", candidates=3, candidate_alpha=0.5, sharpness=2.0, end_positions=1)
    found = build_objective(model, settings)(batch)
    best = beam(model, batch.source, batch.source_lengths, width=3, maximum=9, n_best=3)  # ceil(1.2 * 5) + 3
    rows, candidates = [], []
    for index, hypotheses in enumerate(best):
        assert len(hypotheses) == 3
        for one in hypotheses:
            inputs = torch.tensor([[BOS, *one.tokens]])
            alone = model(*(tensor[index : index + 1] for tensor in (batch.source, batch.source_lengths)), inputs)
            rows.append(F.pad(alone[0], (0, 0, 0, 10 - alone.shape[1])))
            candidates.append(F.pad(torch.tensor([*one.tokens, EOS]), (0, 9 - len(one.tokens)), value=-100))
    references = [[target] + [target[::-1]] * several for target in TARGETS]
    loss = bleugrad.CandidateBLEULoss(alpha=0.5, eos_id=EOS, sharpness=2.0, end_positions=1)
    expected = loss(torch.stack(rows), torch.stack(candidates).view(4, 3, 10), references)
    torch.testing.assert_close(found, expected)
    mixed = build_objective(model, dataclasses.replace(settings, cross_entropy_weight=0.5))(batch)
    torch.testing.assert_close(mixed, found + 0.5 * build_objective(model, objective_config())(batch))


def test_minimum_risk_scores_the_candidates_themselves(model):
    model.eval()
    batch = make_batch()
    objective = build_objective(model, objective_config("candidates", candidates=3, candidate_loss="risk"))
    candidates = objective.search(batch)
    memory = model.encode(batch.source, batch.source_lengths)
    shifted = F.pad(candidates[..., :-1], (1, 0), value=BOS)
    inputs = shifted.masked_fill(shifted == -100, PAD)
    log_probs = model.project(model.decode(memory, inputs.flatten(0, 1))).log_softmax(-1)
    chosen = log_probs.gather(2, candidates.flatten(0, 1).clamp(min=0)[..., None]).view(candidates.shape)
    chosen = chosen.masked_fill(candidates == -100, 0)
    expected = bleugrad.MinimumRiskLoss(eos_id=EOS).from_samples(candidates, chosen, TARGETS)
    torch.testing.assert_close(objective(batch), expected)
    with pytest.raises(UsageError, match="candidate_loss is 'risk', which scores whole candidates"):
        objective_config("candidates", candidate_loss="risk", sharpness=2.0)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("candidates", "candidate_loss", "ranking"),
        ("exact", "feeding", "gumbel"),
        ("exact", "feeding", "fed_samples"),
    ],
)
def test_removed_choices_are_read_and_refused_in_training(model, name, setting, value):
    saved = objective_config(name, **{setting: value})
    assert getattr(saved, setting) == value
    with pytest.raises(UsageError, match=rf"objective\.{setting} is '{value}', which was removed; expected '"):
        build_objective(model, saved)


@pytest.mark.parametrize("kind", ["expected", "risk"])
def test_candidates_train_every_parameter_and_no_sentences_are_possible(model, kind):
    objective = build_objective(
        model, objective_config("candidates", candidate_loss=kind, cross_entropy_weight=0.1, candidates=3)
    )
    objective(make_batch()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.training
    assert objective(make_batch(rows=())).item() == 0


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", ["bound", "exact"])
@pytest.mark.parametrize(("rows", "sharpness"), [("choices", 1.0), ("model", 2.0)])
def test_members_of_a_soft_beam_are_scored_and_weighted(model, name, several, rows, sharpness):
    model.eval()
    model.output.weight.data *= 4  # so that the members differ
    batch = make_batch(several=several)
    options = {"candidates": 3, "candidate_alpha": 2.0, "end_positions": 1, "beam_rows": rows, "sharpness": sharpness}
    settings = objective_config("soft_beam", method=name, **options)
    objective = build_objective(model, settings)
    assert objective.tau == 1.0
    objective.tau = 30.0
    loss = objective(batch)
    memory = model.encode(batch.source, batch.source_lengths)
    found = soft_beam(model, memory, 3, 9, 30.0, rows=rows, sharpness=sharpness)  # ceil(1.2 * 5) + 3 positions
    assert (found.scores.max(1).values - found.scores.min(1).values).max() > 0.1
    losses = []
    for row, target in enumerate(TARGETS):
        scores, risks = [], []
        for place in range(3):
            length = int(found.mask[row, place].sum())
            dense = torch.zeros(length + 1, 12).scatter_add(
                1,
                F.pad(found.tokens[row, place, :length], (0, 0, 0, 1)),
                F.pad(found.probs[row, place, :length], (0, 0, 0, 1)),
            )
            dense[length, PAD] = 1  # the position after the end
            references = [target] + [target[::-1]] * several
            value = bleugrad.expected_bleu(
                dense.clamp(min=1e-30).log()[None], [references], method=name, eos_id=EOS
            ).value
            risks.append(1 - value)
            scores.append(2.0 * found.scores[row, place] / length)
        losses.append((torch.stack(scores).softmax(0) * torch.stack(risks)).sum())
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    mixed = build_objective(model, dataclasses.replace(settings, cross_entropy_weight=0.5))
    mixed.tau = 30.0
    torch.testing.assert_close(mixed(batch), loss + 0.5 * build_objective(model, objective_config())(batch))


@pytest.mark.parametrize("name", ["bound", "exact", "clipped_mean"])
def test_a_soft_beam_trains_every_parameter_and_no_sentences_are_possible(model, name):
    objective = build_objective(model, objective_config("soft_beam", method=name, candidates=2))
    objective(make_batch()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name
    model.zero_grad()
    objective(make_batch(rows=())).backward()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


def test_the_gradient_through_the_mixtures_of_a_soft_beam_is_an_option(model):
    batch = make_batch()
    found = []
    for input_gradient in (False, True):
        settings = objective_config("soft_beam", candidates=2, input_gradient=input_gradient)
        loss = build_objective(model.eval(), settings)(batch)
        found.append((loss, *torch.autograd.grad(loss, model.parameters())))
    assert torch.equal(found[0][0], found[1][0])
    assert not all(torch.allclose(one, other) for one, other in zip(found[0][1:], found[1][1:], strict=True))


def test_steps_on_the_soft_beam_improve_the_beam(model):
    """Of one batch: the translations of hard beam search get better."""
    batch = make_batch()
    objective = build_objective(model.eval(), objective_config("soft_beam", candidates=3))
    objective.tau = 0.3
    optimizer = torch.optim.Adam(model.parameters(), 0.05)

    def score():
        best = beam(model, batch.source, batch.source_lengths, width=3, maximum=9)
        return bleugrad.bleu([one[0].tokens for one in best], TARGETS, smoothing=1.0).value.item()

    before = score()
    for _ in range(20):
        optimizer.zero_grad()
        objective(batch).backward()
        optimizer.step()
    assert score() > before + 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "reinforce"}, "method is 'reinforce'; expected 'bound' or 'exact' or 'clipped_mean'"),
        ({"sharpness": 2.0, "beam_rows": "choices"}, "sharpness is 2.0 with beam_rows 'choices'; expected 1"),
        ({"candidates": 4, "beam_tokens": 3}, "beam_tokens is 3; expected at least candidates = 4"),
    ],
)
def test_settings_that_a_soft_beam_has_not_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        objective_config("soft_beam", **settings)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("exact", {"feeding": "teacher"}, "feeding is 'teacher'; expected 'reference' or 'mixture' or 'greedy'"),
        ("exact", {"own_last": 2.0}, "own_last is 2.0; expected at most 1"),
        ("exact", {"temperature": 0.0}, "temperature is 0.0; expected more than 0"),
        ("exact", {"length_factor": 0.5}, "length_factor is 0.5; expected at least 1"),
        ("soft_beam", {"candidates": 0}, "candidates is 0; expected at least 1"),
        ("soft_beam", {"tau_first": 0.0}, "tau_first is 0.0; expected more than 0"),
        ("soft_beam", {"candidates": 3, "beam_tokens": 2}, "beam_tokens is 2; expected at least candidates = 3"),
        ("soft_beam", {"beam_rows": "hard"}, "beam_rows is 'hard'; expected 'model' or 'choices'"),
    ],
)
def test_values_that_feeding_and_search_cannot_use_are_refused(name, values, message):
    with pytest.raises(UsageError, match=message):
        objective_config(name, **values)
