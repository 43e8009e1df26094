"""The compute_loss_func against the loss of one sentence at a time, and the inputs that it refuses."""

import pytest
import torch

pytest.importorskip("transformers")

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, encode_completion
from bleugrad.hf.counting import SentenceCount
from tests.hf.models import (
    BEGIN,
    CAUSAL,
    END,
    ENGLISH,
    GERMAN,
    LINES,
    PAD,
    PLAIN,
    ROUNDING,
    SEQ2SEQ,
    SPECIAL,
    UNKNOWN,
    encode,
    features,
    gradients,
    make_model,
    make_tokenizer,
)
from tests.hf.oracle import step_loss

NOT_WORDS = (PAD, BEGIN, ENGLISH, GERMAN)
CLOSE = {"rtol": 0, "atol": ROUNDING}


def run(model, rows, tokenizer=None, loss=None, number=None, **options):
    """Loss and gradients as the trainer has them: labels taken away, then the forward pass, then the loss."""
    tokenizer = tokenizer or make_tokenizer()
    loss = loss or BLEULoss(model, tokenizer, **PLAIN | options)
    batch = BLEUCollator(tokenizer, model)(rows)
    labels = batch.pop("labels")
    model.zero_grad()
    value = loss(model(**batch), labels, number)
    value.backward()
    return value.detach(), gradients(model)


def expected(model, rows, **options):
    model.zero_grad()
    value = step_loss(model, rows, **options)
    value.backward()
    return value.detach(), gradients(model)


def assert_same(found, wanted, **tolerance):
    torch.testing.assert_close(found[0], wanted[0], **(tolerance or CLOSE))
    assert found[1].keys() == wanted[1].keys()
    assert max(grad.abs().max() for grad in wanted[1].values()) > 1e-4
    for name, grad in wanted[1].items():
        torch.testing.assert_close(
            found[1][name], grad, **(tolerance or CLOSE), msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_padded_batch_has_the_loss_of_its_sentences_alone(name):
    model, rows = make_model(name), features()
    assert_same(run(model, rows), expected(model, rows, eos_id=END, excluded=NOT_WORDS))


@pytest.mark.parametrize("weighting", ["tokens", "sentences"])
@pytest.mark.parametrize("blend", [0.0, 0.3, 1.0])
def test_sentences_are_weighted_as_said_and_blended_with_cross_entropy(weighting, blend):
    model, rows = make_model("T5"), features()
    wanted = expected(model, rows, weighting=weighting, blend=blend, eos_id=END)
    number = None if weighting == "tokens" else SentenceCount(len(rows))
    assert_same(run(model, rows, number=number, bleu_weight=blend), wanted)


def test_an_impossible_label_does_not_spoil_bleu():
    """Its cross-entropy is infinite, and not part of the loss."""
    model, rows = make_model("Marian"), features()
    model.final_logits_bias[0, rows[0]["labels"][1]] = -torch.inf
    value, grads = run(model, rows)
    assert 0 < value < 1
    assert all(grad.isfinite().all() for grad in grads.values())


def test_without_bleu_it_is_the_loss_of_the_model():
    model, rows = make_model("Marian"), features()
    own = model(**BLEUCollator(make_tokenizer(), model)(rows)).loss
    torch.testing.assert_close(run(model, rows, bleu_weight=0.0)[0], own.detach(), **CLOSE)


@pytest.mark.parametrize(
    ("eos", "options"),
    [("length", {"eos_id": END}), ("token", {}), ("exclude", {"excluded": (*NOT_WORDS, END)})],
)
def test_the_end_of_a_sentence_is_a_length_a_token_or_nothing(eos, options):
    model, rows = make_model("BART"), features()
    assert_same(run(model, rows, eos=eos), expected(model, rows, **options))


@pytest.mark.parametrize(
    ("choice", "excluded"),
    [("exclude", NOT_WORDS), ("include", ()), ([GERMAN], (GERMAN,)), ([ENGLISH], (ENGLISH,))],
)
def test_language_codes_count_or_not_as_chosen(choice, excluded):
    """NLLB's labels begin with the code, mBART's end with it; cross-entropy learns it in any case."""
    for name, place in (("NLLB", {"before": [GERMAN]}), ("mBART", {"after": [GERMAN]})):
        model, rows = make_model(name), features(**place)
        wanted = expected(model, rows, excluded=excluded, blend=0.5, eos_id=END if name == "NLLB" else None)
        eos = "length" if name == "NLLB" else "token"
        assert_same(run(model, rows, special_tokens=choice, bleu_weight=0.5, eos=eos), wanted)


def test_the_unknown_token_counts():
    model, rows = make_model("T5"), features()
    rows[0]["labels"][1] = UNKNOWN
    assert_same(run(model, rows), expected(model, rows, eos_id=END, excluded=NOT_WORDS))


def test_words_come_from_the_tokenizer():
    model, rows, tokenizer = make_model("T5"), features(), make_tokenizer()
    starts = bleugrad.word_start_mask(tokenizer, size=model.config.vocab_size)
    wanted = expected(model, rows, eos_id=END, word_start=starts)
    assert_same(run(model, rows, words=True), wanted)
    assert (wanted[0] - expected(model, rows, eos_id=END)[0]).abs() > 1e-3


def test_words_of_a_tokenizer_without_fast_backend():
    class Slow:
        is_fast, pad_token_id, eos_token_id, unk_token_id, unk_token = False, PAD, END, UNKNOWN, SPECIAL[UNKNOWN]
        all_special_ids, all_special_tokens = make_tokenizer().all_special_ids, make_tokenizer().all_special_tokens
        get_vocab = make_tokenizer().get_vocab

    model = make_model("BART")
    loss, fast = BLEULoss(model, Slow(), words=True), BLEULoss(model, make_tokenizer(), words=True)
    assert torch.equal(loss.word_start, fast.word_start)


def test_several_references_replace_the_labels():
    model, rows = make_model("T5"), features()
    for index, row in enumerate(rows):
        row["references"] = [encode(LINES[(index + k) % len(LINES)]) for k in range(1 + index % 3)]
    wanted = expected(model, rows, eos_id=END, blend=0.7)
    assert_same(run(model, rows, bleu_weight=0.7), wanted)
    assert (wanted[0] - expected(model, features(), eos_id=END, blend=0.7)[0]).abs() > 1e-2


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("side", ["left", "right"])
def test_causal_models_are_shifted_their_prompt_masked_and_padding_may_stand_on_either_side(name, side):
    model, tokenizer = make_model(name), make_tokenizer(side)
    rows = [encode_completion(tokenizer, source, target) for source, target in zip(LINES, LINES[::-1], strict=True)]
    assert rows[0]["labels"] == [-100] * (len(rows[0]["labels"]) - len(encode("slow"))) + encode("slow")
    wanted = expected(model, rows, eos_id=END, blend=0.6)
    assert_same(run(model, rows, tokenizer, bleu_weight=0.6), wanted)


@pytest.mark.parametrize("name", [*SEQ2SEQ, *CAUSAL])
def test_the_fused_projection_gives_the_same_and_no_logits(name):
    model = make_model(name)
    rows = features() if name in SEQ2SEQ else [encode_completion(make_tokenizer(), line, line) for line in LINES]
    wanted = run(model, rows, bleu_weight=0.5)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    widths, batch = [], BLEUCollator(make_tokenizer(), model)(rows)
    model.register_forward_hook(lambda module, args, output: widths.append(output.logits.shape[-1]))
    loss = BLEULoss(model, make_tokenizer(), **PLAIN, bleu_weight=0.5, fused=True)
    assert_same(run(model, rows, loss=loss), wanted)
    assert widths == [16]  # hidden states; the vocabulary is larger
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    labels = batch.pop("labels")
    model.eval()
    torch.testing.assert_close(loss(model(**batch), labels).detach(), wanted[0], **CLOSE)
    assert widths[-1] == model.get_output_embeddings().weight.shape[0]


@pytest.mark.parametrize("name", ["T5", "Marian", "Llama"])  # tied, tied with a bias of the logits, not tied
def test_a_fused_pass_projects_one_row_and_changes_nothing_that_stays(name):
    model = make_model(name)
    rows = features() if name in SEQ2SEQ else [encode_completion(make_tokenizer(), line, line) for line in LINES]
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    before, tied, shapes = dict(model.state_dict(keep_vars=True)), embedding.weight is head.weight, []
    loss = BLEULoss(model, make_tokenizer(), fused=True)
    head.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
    run(model, rows, loss=loss)
    assert shapes == [(1, 1, len(head.weight))]
    after = model.state_dict(keep_vars=True)
    assert list(after) == list(before)
    assert all(after[key] is before[key] for key in before)
    assert model.get_output_embeddings() is head
    assert (embedding.weight is head.weight) == tied == (name != "Llama")
    del loss
    assert not any(map(len, (model._forward_hooks, model._forward_pre_hooks, head._forward_pre_hooks)))
    assert len(head._forward_hooks) == 1  # that of this test


@pytest.mark.parametrize("name", ["T5", "BART", "Marian"])
@pytest.mark.parametrize("part", ["decoder", "head"])
def test_after_an_error_in_a_fused_pass_the_model_projects_all_rows(name, part):
    model, rows = make_model(name), features()
    batch, head = BLEUCollator(make_tokenizer(), model)(rows), model.get_output_embeddings()
    labels, hidden = batch.pop("labels"), torch.randn(2, 3, 16, dtype=torch.float64)
    wanted, before = head(hidden), dict(model.state_dict(keep_vars=True))
    loss = BLEULoss(model, make_tokenizer(), fused=True)

    def fail(*_):
        raise ZeroDivisionError

    handle = (model.get_decoder() if part == "decoder" else head).register_forward_hook(fail)
    with pytest.raises(ZeroDivisionError):
        model(**batch)
    handle.remove()
    assert torch.equal(head(hidden), wanted)
    after = model.state_dict(keep_vars=True)
    assert list(after) == list(before)
    assert all(after[key] is before[key] for key in before)
    assert loss(model(**batch), labels).isfinite()


def test_models_that_cap_their_logits_cannot_be_fused():
    model = make_model("Gemma 2")
    rows = [encode_completion(make_tokenizer(), line, line) for line in LINES[:2]]
    hidden = torch.randn(2, 3, 16, dtype=torch.float64)
    wanted = model.lm_head(hidden)
    with pytest.raises(ValueError, match="leave fused=True out"):
        run(model, rows, fused=True)
    assert torch.equal(model.lm_head(hidden), wanted)


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_training_pass_without_decoder_inputs_is_an_error_before_that_of_the_model(name):
    """As with ``--pad_to_max_length`` of the example scripts, whose collator makes none."""
    model = make_model(name)
    loss, ids = BLEULoss(model, make_tokenizer()), torch.tensor([encode(LINES[0])])
    with pytest.raises(ValueError, match=r"data_collator=bleugrad\.hf\.BLEUCollator"):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert loss.watch.inputs is None


def test_bart_without_decoder_inputs_is_an_error_even_if_shapes_agree():
    """BART then decodes from the source, silently."""
    model = make_model("BART").eval()
    loss, ids = BLEULoss(model, make_tokenizer()), torch.tensor([encode(LINES[0])])
    outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert outputs.logits.shape[1] == ids.shape[1]
    with pytest.raises(ValueError, match="no decoder_input_ids"):
        loss(outputs, ids)


def test_lengths_that_differ_are_an_error():
    model = make_model("BART").eval()
    loss, ids = BLEULoss(model, make_tokenizer()), torch.tensor([encode(LINES[0])])
    outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    with pytest.raises(ValueError, match="expected a row of logits for each label"):
        loss(outputs, ids[:, :-1])


def test_decoder_inputs_that_are_not_the_labels_are_an_error_unless_wanted():
    model, rows = make_model("T5"), features()
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")
    batch["decoder_input_ids"] = labels.masked_fill(labels == -100, PAD)  # the label itself: nothing left to predict
    loss = BLEULoss(model, make_tokenizer())
    with pytest.raises(ValueError, match="shifted right by one position"):
        loss(model(**batch), labels)
    loss = BLEULoss(model, make_tokenizer(), check_decoder_inputs=False)
    assert loss(model(**batch), labels).isfinite()


def test_another_model_than_the_trainers_is_an_error():
    model, other, rows = make_model("T5"), make_model("T5"), features()
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")
    with pytest.raises(RuntimeError, match="the model that the trainer runs"):
        BLEULoss(other, make_tokenizer())(model(**batch), labels)


def test_the_newest_loss_of_a_model_replaces_the_others():
    model, rows = make_model("BART"), features()
    old, new = BLEULoss(model, make_tokenizer(), fused=True), BLEULoss(model, make_tokenizer(), **PLAIN)
    assert len(model._forward_pre_hooks) == len(model._forward_hooks) == 1
    found = run(model, rows, loss=new)
    assert_same(found, expected(model, rows, eos_id=END))
    with pytest.raises(RuntimeError, match="a newer BLEULoss was made for the same model"):
        run(model, rows, loss=old)


def test_hooks_go_with_the_loss():
    model = make_model("BART")
    loss = BLEULoss(model, make_tokenizer(), fused=True)
    assert len(model._forward_pre_hooks) == len(model._forward_hooks) == 1
    del loss
    assert not model._forward_pre_hooks
    assert not model._forward_hooks


class Wrapped(torch.nn.Module):
    """A model around a model, which forwards unknown names to it, as PEFT has it."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base_model, name)

    def forward(self, **inputs):
        return self.base_model(**inputs)


def test_the_fused_projection_of_a_wrapped_model_keeps_its_bias():
    plain, wrapped, rows = make_model("Marian"), Wrapped(make_model("Marian")), features()
    bias = wrapped.final_logits_bias
    found = run(wrapped, rows, fused=True)
    wanted = run(plain, rows)
    assert_same((found[0], {name.removeprefix("base_model."): grad for name, grad in found[1].items()}), wanted)
    assert wrapped.final_logits_bias is bias
    wrapped.base_model.lm_head = torch.nn.Embedding.from_pretrained(wrapped.lm_head.weight)  # as if it were adapted
    with pytest.raises(ValueError, match=r"is torch\.nn\.modules\.sparse\.Embedding; expected a torch\.nn\.Linear"):
        BLEULoss(wrapped, make_tokenizer(), fused=True)


class EndsMarked:
    is_fast, pad_token_id, eos_token_id, unk_token_id, unk_token = False, PAD, END, UNKNOWN, SPECIAL[UNKNOWN]
    all_special_ids, all_special_tokens = list(range(len(SPECIAL))), SPECIAL

    def get_vocab(self):
        return {token: index for index, token in enumerate([*SPECIAL, "low", "er</w>", "the</w>"])}


def test_words_need_a_tokenizer_that_marks_where_they_begin():
    with pytest.raises(ValueError, match=r"words is True, but the tokenizer does not mark .*words=False"):
        BLEULoss(make_model("BART"), EndsMarked(), words=True)


def test_packed_rows_are_an_error():
    model = make_model("Llama")
    ids = torch.tensor([[7, 8, 9, 7, 8, 9]])
    loss = BLEULoss(model, make_tokenizer())
    outputs = model(input_ids=ids, position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]))
    with pytest.raises(ValueError, match="several sequences"):
        loss(outputs, ids)


@pytest.mark.parametrize("fused", [False, True])
def test_autocast_does_not_reach_the_loss(fused):
    """On a CPU it would leave the softmax in bfloat16, with three digits."""
    model, rows = make_model("T5", torch.float32), features()
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")
    with torch.autocast("cpu", torch.bfloat16):
        loss = BLEULoss(model, make_tokenizer(), **PLAIN, bleu_weight=0.5, fused=fused)
        outputs = model(**batch)
        inside = loss(outputs, labels)
    assert outputs.logits.dtype == (torch.float32 if fused else torch.bfloat16)  # T5's hidden states are float32
    assert inside.dtype == torch.float32
    logits = outputs.logits.double()
    if fused:
        logits = logits @ model.lm_head.weight.double().T
    exact = bleugrad.ExpectedBLEULoss(level="sentence", eos_id=END, reduction="none")(logits, labels)
    lengths = (labels != -100).sum(1)
    exact = (exact * lengths).sum() / lengths.sum()
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(inside.double(), (exact + nll) / 2, rtol=0, atol=1e-6)


@pytest.mark.parametrize("blend", [0.0, 0.4, 1.0])
def test_each_sentence_has_its_own_share_of_bleu(blend):
    model, rows = make_model("Marian"), features()
    wanted = expected(model, rows, blend=blend, adaptive=True, eos_id=END, excluded=NOT_WORDS)
    assert_same(run(model, rows, bleu_weight=blend, adaptive=True), wanted)


@pytest.mark.parametrize("fused", [False, True])
def test_the_default_is_the_recommended_recipe(fused):
    """In words, since the tokenizer marks them."""
    model, rows = make_model("Marian"), features()
    found = run(model, rows, loss=BLEULoss(model, make_tokenizer(), fused=fused))
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels, starts = batch["labels"], bleugrad.word_start_mask(make_tokenizer(), size=len(make_tokenizer()))
    model.zero_grad()
    value = bleugrad.ExpectedBLEULoss.recommended(eos_id=END, word_start=starts)(model(**batch).logits, labels)
    value.backward()
    assert_same(found, (value.detach(), gradients(model)))


@pytest.mark.parametrize("fused", [False, True])
def test_labels_are_smoothed_in_the_cross_entropy(fused):
    model, rows = make_model("Marian"), features()
    found, _ = run(model, rows, bleu_weight=0.0, label_smoothing=0.2, fused=fused)
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    logits, labels = model(**batch).logits.detach(), batch["labels"]
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.2)
    torch.testing.assert_close(found, wanted, **CLOSE)
    plain, _ = run(model, rows, bleu_weight=0.25)
    both, _ = run(model, rows, bleu_weight=0.25, label_smoothing=0.2, fused=fused)
    assert (both - plain).abs() > 1e-3
    torch.testing.assert_close(both - plain, 0.75 * (found - run(model, rows, bleu_weight=0.0)[0]), **CLOSE)


def test_tokens_are_counted_if_the_tokenizer_does_not_mark_where_words_begin():
    assert BLEULoss(make_model("BART"), EndsMarked()).word_start is None
    assert BLEULoss(make_model("BART"), make_tokenizer()).word_start is not None


class HalfLinear(torch.nn.Linear):
    """A projection of half precision with parameters of single precision, as under autocast."""

    def forward(self, hidden):
        return torch.nn.functional.linear(hidden, self.weight.bfloat16())


def test_hidden_states_of_half_precision_are_projected_in_it():
    model, rows = make_model("GPT-2", torch.float32), [encode_completion(make_tokenizer(), a, a) for a in LINES]
    model.transformer.ln_f.register_forward_hook(lambda module, args, output: output.bfloat16())
    weight = model.lm_head.weight
    model.lm_head = HalfLinear(*weight.T.shape, bias=False)
    model.lm_head.weight = weight
    found, grads = run(model, rows, fused=True)
    exact = run(make_model("GPT-2", torch.float32), rows)
    torch.testing.assert_close(found, exact[0], rtol=0, atol=1e-3)
    assert grads.keys() == exact[1].keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eos": "drop"}, "eos is 'drop'; expected 'length' or 'token' or 'exclude'"),
        ({"special_tokens": "drop"}, "special_tokens is 'drop'; expected 'exclude' or 'include'"),
        ({"bleu_weight": 1.5}, "bleu_weight is 1.5; expected 0"),
        ({"level": "batch"}, "level is 'batch'"),
        ({"label_smoothing": 2.0}, "label_smoothing is 2.0; expected 0 to 1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        BLEULoss(make_model("T5"), make_tokenizer(), **options)


def test_no_labels_is_an_error():
    model = make_model("Llama")
    loss = BLEULoss(model, make_tokenizer())
    with pytest.raises(ValueError, match="labels is None"):
        loss(model(input_ids=torch.tensor([[7, 8]])), None)


def test_several_devices_in_one_process_are_an_error():
    model = make_model("Llama")
    loss, ids = BLEULoss(model, make_tokenizer()), torch.tensor([[7, END]])
    with pytest.raises(ValueError, match="one process per device"):
        loss(model(input_ids=ids), ids, num_items_in_batch=torch.tensor([[1], [1]]))
