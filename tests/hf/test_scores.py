"""Other scores than BLEU in the trainers of Hugging Face, and rewards of token ids."""

import warnings
from itertools import pairwise

import pytest
import torch

pytest.importorskip("transformers")

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, ScoreReward
from bleugrad.hf.counting import SentenceCount
from tests.hf.models import END, LINES, PLAIN, make_model, make_tokenizer
from tests.metrics.options import check_options

SCORES = {"ROUGE": bleugrad.ROUGE(2, "f1"), "GLEU": bleugrad.GLEU(), "NIST": bleugrad.NIST({(8,): 1.0, (9,): 2.0}, 2)}


@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("name", SCORES)
def test_the_loss_is_that_of_the_score(name, level):
    model, tokenizer = make_model("GPT-2"), make_tokenizer()
    batch = BLEUCollator(tokenizer, model)(encoded(tokenizer))
    labels = batch.pop("labels")
    loss = BLEULoss(model, tokenizer, score=SCORES[name], **PLAIN | {"level": level})
    outputs = model(**batch)
    value = loss(outputs, labels, SentenceCount(len(labels)))
    value.backward()
    expectation = bleugrad.Expectation(SCORES[name], level=level, eos_id=END)
    wanted = bleugrad.ExpectedScoreLoss(expectation)(outputs.logits[:, :-1], labels[:, 1:])
    torch.testing.assert_close(value, wanted, rtol=0, atol=1e-12)
    assert "expected_score" in loss.measurements()


def encoded(tokenizer):
    from bleugrad.hf import encode_completion

    return [encode_completion(tokenizer, a, " " + b) for a, b in pairwise(LINES)]


def rewards_of(*texts, **options):
    tokenizer = make_tokenizer()
    ids = [[*tokenizer(text, add_special_tokens=False)["input_ids"], END, 9] for text in texts]
    columns = {"reference": [LINES[0]] * len(texts), "other": [[LINES[1], LINES[2]]] * len(texts)}
    given = {"score": bleugrad.ROUGE(1, "f1"), **options}
    return ScoreReward(tokenizer, **given)([""] * len(texts), list(texts), completion_ids=ids, **columns)


def test_a_reward_is_the_score_of_the_ids_before_their_end():
    assert rewards_of(LINES[0]) == [1.0]
    tokenizer = make_tokenizer()
    first, second = (tokenizer(line, add_special_tokens=False)["input_ids"] for line in LINES[:2])
    for score in (bleugrad.ROUGE(1, "f1"), bleugrad.ROUGEL(), bleugrad.GLEU(), bleugrad.BLEU()):
        wanted = bleugrad.token_score([second], [first], score).item()
        assert rewards_of(LINES[1], score=score, words=False) == [pytest.approx(wanted, abs=1e-12)]


def test_the_options_of_rewards():
    changes = {
        "score": ({}, bleugrad.GLEU()),
        "column": ({}, "other"),
        "words": ({}, False),
    }
    check_options(ScoreReward, lambda **given: rewards_of(*LINES[1:], **given), changes, required=("tokenizer",))
    with pytest.raises(ValueError, match="no column 'target' of references; found other, reference"):
        rewards_of(LINES[1], column="target")


def test_rewards_of_tokens_sum_to_the_reward():
    tokenizer = make_tokenizer()
    reward = ScoreReward(tokenizer, words=False)
    ids = torch.tensor([[*tokenizer(LINES[1], add_special_tokens=False)["input_ids"], END, -100]])
    references = reward.references({"reference": [LINES[0]]}, 1)
    found = reward.of_tokens(ids, references)
    (wanted,) = reward([""], [""], completion_ids=ids.tolist(), reference=[LINES[0]])
    assert found.shape == ids.shape
    assert found.sum().item() == pytest.approx(wanted, abs=1e-12)
    assert found[0, -2:].tolist() == [0.0, 0.0]


def grpo(folder, kind, reward, **options):
    import datasets
    import trl

    rows = [{"prompt": a, "reference": b} for a, b in zip(LINES, [*LINES[1:], LINES[0]], strict=True)]
    config = trl.GRPOConfig(
        output_dir=str(folder),
        max_steps=2,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=6,
        gradient_checkpointing=False,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        bf16=False,
        **options,
    )
    data = {"train_dataset": datasets.Dataset.from_list(rows), "processing_class": make_tokenizer("left")}
    return kind(model=make_model("GPT-2").float(), reward_funcs=reward, args=config, **data)


@pytest.fixture(scope="module")
def trainer_kinds():
    pytest.importorskip("trl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries while they are imported
        from trl.trainer.grpo_trainer import GRPOTrainer

        from bleugrad.hf import TokenGRPOTrainer
    return GRPOTrainer, TokenGRPOTrainer


@pytest.mark.slow
def test_grpo_takes_rewards_of_ids(trainer_kinds, tmp_path):
    trainer = grpo(tmp_path, trainer_kinds[0], ScoreReward(make_tokenizer("left"), bleugrad.ROUGEL()))
    trainer.train()
    assert 0 <= trainer.state.log_history[0]["rewards/rougel_of_ids/mean"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["group", "none"])
def test_grpo_has_an_advantage_for_every_token(trainer_kinds, tmp_path, scale):
    """Advantages are rewards to go minus their mean over the group; the first is TRL's own of the whole sequence."""
    seen = []

    class Watched(trainer_kinds[1]):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            seen.append((output["advantages"], trainer_kinds[0].__name__, inputs, output["completion_ids"]))
            return output

    reward = ScoreReward(make_tokenizer("left"), bleugrad.ROUGE(1, "f1"), words=False)
    trainer = grpo(tmp_path, Watched, reward, scale_rewards=scale)
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.train()
    assert any((before[name] != parameter).any() for name, parameter in trainer.model.named_parameters())
    for advantages, _, inputs, ids in seen:
        assert advantages.shape == ids.shape
        ended = (ids == END).cumsum(1).clamp(max=1).bool()
        columns = {"reference": [one["reference"] for one in inputs]}
        rewards = reward.of_tokens(ids.masked_fill(ended, -100), reward.references(columns, len(ids)))
        scores = rewards.sum(1)
        scale_by = scores.std() + 1e-4 if scale == "group" else 1.0
        first = (scores - scores.mean()) / scale_by
        torch.testing.assert_close(advantages[:, 0].double(), first, rtol=0, atol=1e-5)
        torch.testing.assert_close(advantages.sum(0), torch.zeros_like(advantages[0]), rtol=0, atol=1e-4)


@pytest.mark.slow
def test_other_rewards_are_refused(trainer_kinds, tmp_path):
    def other(completions, **_):
        return [0.0] * len(completions)

    with pytest.raises(TypeError, match=r"expected one bleugrad\.hf\.ScoreReward"):
        grpo(tmp_path, trainer_kinds[1], other).train()


def test_advantages_of_tokens():
    trl = pytest.importorskip("trl")
    assert trl
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from bleugrad.hf.grpo import token_advantages
    rewards = torch.tensor([[0.25, 0.5, 0.0], [0.0, 0.25, 0.5]])
    found = token_advantages(rewards, 2, "none")
    assert found.tolist() == [[0.0, -0.125, -0.25], [0.0, 0.125, 0.25]]
    assert token_advantages(rewards * torch.tensor([[1.0], [2.0]]), 2, "batch").isfinite().all()
