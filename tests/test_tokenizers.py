"""word_start_mask on real tokenizers, trained here, finds the words of the text."""

import gzip
import io
import subprocess
import sys

import pytest
import torch

import bleugrad
from tests.cases import one_hot_logits

TEXT = [
    "the lower house is lower than the tower .",
    "the newest , widest and tallest of them !",
    "a low tower , a wide house , the lowest of the low",
    "houses and towers are wider than they are tall .",
] * 10
UNSEEN = ["the tallest houses are newer than the widest tower !", "lower lowest , low"]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def trained(model, trainer, size=90, **parts):
    """A tokenizers.Tokenizer with the parts given, trained on TEXT."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(TEXT, trainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False))
    return tokenizer


def metaspace_bpe():
    from tokenizers import decoders, models, pre_tokenizers, trainers

    parts = {"pre_tokenizer": pre_tokenizers.Metaspace(), "decoder": decoders.Metaspace()}
    return trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, **parts)


def metaspace_unigram():
    from functools import partial

    from tokenizers import decoders, models, pre_tokenizers, trainers

    parts = {"pre_tokenizer": pre_tokenizers.Metaspace(), "decoder": decoders.Metaspace()}
    return trained(models.Unigram(), partial(trainers.UnigramTrainer, unk_token="<unk>"), **parts)


def byte_level():
    from tokenizers import decoders, models, pre_tokenizers, trainers

    parts = {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True), "decoder": decoders.ByteLevel()}
    return trained(models.BPE(), trainers.BpeTrainer, **parts)


def byte_level_behind_a_split():
    """As in recent models: the regular expression apart, the byte level without one."""
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

    split = pre_tokenizers.Split(Regex(r" ?[^\s]+|\s+"), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    parts = {"pre_tokenizer": pre_tokenizers.Sequence([split, level]), "decoder": decoders.ByteLevel()}
    return trained(models.BPE(), trainers.BpeTrainer, **parts)


def replaced_spaces():
    """The space mark put in by a normalizer, bytes for unknown characters."""
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    parts = {
        "normalizer": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        "pre_tokenizer": pre_tokenizers.Split("▁", "merged_with_next"),
        "decoder": decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        ),
    }
    return trained(models.BPE(unk_token="<unk>", fuse_unk=True), trainers.BpeTrainer, **parts)


def wordpiece():
    from tokenizers import decoders, models, pre_tokenizers, trainers

    parts = {"pre_tokenizer": pre_tokenizers.WhitespaceSplit(), "decoder": decoders.WordPiece(cleanup=False)}
    return trained(models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer, **parts)


def continued_bpe():
    from functools import partial

    from tokenizers import decoders, models, pre_tokenizers, trainers

    model = models.BPE(unk_token="<unk>", continuing_subword_prefix="##")
    parts = {"pre_tokenizer": pre_tokenizers.WhitespaceSplit(), "decoder": decoders.WordPiece(cleanup=False)}
    return trained(model, partial(trainers.BpeTrainer, continuing_subword_prefix="##"), **parts)


def end_of_word():
    from functools import partial

    from tokenizers import decoders, models, pre_tokenizers, trainers

    parts = {"pre_tokenizer": pre_tokenizers.WhitespaceSplit(), "decoder": decoders.BPEDecoder()}
    model = models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    return trained(model, partial(trainers.BpeTrainer, end_of_word_suffix="</w>"), **parts)


FAST = [
    metaspace_bpe,
    metaspace_unigram,
    byte_level,
    byte_level_behind_a_split,
    replaced_spaces,
    wordpiece,
    continued_bpe,
]

UNKNOWN_WORDS = [byte_level, byte_level_behind_a_split, wordpiece, continued_bpe]
"""Elsewhere the unknown token stands for characters after a mark of its own."""


def words_of(ids, mask, decode):
    """The texts of the words."""
    words = []
    for position, token in enumerate(ids):
        if position == 0 or mask[token]:
            words.append([])
        words[-1].append(token)
    return [decode(word).strip() for word in words]


@pytest.mark.parametrize("build", FAST, ids=lambda build: build.__name__)
def test_fast_tokenizers(build):
    pytest.importorskip("tokenizers")
    tokenizer = build()
    mask = bleugrad.word_start_mask(tokenizer)
    assert mask.shape == (tokenizer.get_vocab_size(),)
    assert mask.dtype == torch.bool
    assert 0 < mask.sum() < len(mask)
    several = 0
    for line in TEXT[:4] + UNSEEN:
        ids = tokenizer.encode(line).ids
        several += len(ids) > len(line.split())
        assert words_of(ids, mask, tokenizer.decode) == line.split()
    assert several > 0  # words of several tokens were among them
    special = [tokenizer.token_to_id(token) for token in SPECIAL]
    assert mask[special[:-1]].all()
    assert mask[special[-1]] == (build in UNKNOWN_WORDS)
    assert not bleugrad.word_start_mask(tokenizer, special=False)[special].any()
    with pytest.raises(ValueError, match="flipped"):
        bleugrad.word_start_mask(tokenizer, flipped=True)


def test_one_token_a_word():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    assert bleugrad.word_start_mask(tokenizer).all()


def test_spaces_of_other_kinds_open_a_word():
    """Newline and tab, as byte-level symbols and as fallback bytes; other bytes continue."""
    pytest.importorskip("tokenizers")
    tokenizer = byte_level()
    mask = bleugrad.word_start_mask(tokenizer)
    assert words_of(tokenizer.encode("low").ids, mask, tokenizer.decode) == ["low"]
    vocabulary = ["Ġthe", "Ċ", "ĉ", "č", "ĊĊ", "er", "é", "Ã"]
    assert bleugrad.word_start_mask(vocabulary).tolist() == [True, True, True, True, True, False, False, False]
    vocabulary = ["▁the", "<0x0A>", "<0x09>", "<0xC3>", "er", "▁", "▁▁"]
    assert bleugrad.word_start_mask(vocabulary).tolist() == [True, True, True, False, False, True, True]


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2028", "\t"])
def test_words_are_split_at_the_spaces_of_sacrebleu(space):
    """Tokenizers that keep them in their tokens: words are those of str.split, at which sacreBLEU splits."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    words = pre_tokenizers.Split(tokenizers.Regex(r"[▁\s]?[^▁\s]+"), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    marks = normalizers.Replace(" ", "▁")
    styles = [
        (None, pre_tokenizers.Sequence([words, byte_level]), decoders.ByteLevel()),
        (marks, words, decoders.Replace("▁", " ")),
    ]
    text = f"the{space}lower the{space}lower house{space}the newest,{space}widest tower"
    for normalizer, pre_tokenizer, decoder in styles:
        tokenizer = tokenizers.Tokenizer(models.BPE())
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
        tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=30, show_progress=False))
        ids = tokenizer.encode(text).ids
        assert len(ids) > len(text.split())
        assert words_of(ids, bleugrad.word_start_mask(tokenizer), tokenizer.decode) == text.split()


@pytest.mark.parametrize("build", [metaspace_bpe, metaspace_unigram, replaced_spaces, wordpiece])
def test_unknown_characters_stay_in_their_word(build):
    """``low中er`` is one word; its decoded text is unknown, so only the number of words is checked."""
    pytest.importorskip("tokenizers")
    tokenizer = build()
    mask = bleugrad.word_start_mask(tokenizer)
    ids = tokenizer.encode("the low中er 中文 tower").ids
    assert tokenizer.token_to_id("<unk>") in ids
    assert 1 + mask[ids[1:]].sum() == 4


def test_a_mark_in_the_text_of_few_tokens_is_no_mark():
    words = [f"Ġ{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert bleugrad.word_start_mask([*words, "Ġ@@", "##", "x@@"]).tolist() == [True] * 27 + [False] * 2


def test_added_tokens():
    """Not special: read like the others, or opening a word if they take in the space before them."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = metaspace_bpe()
    tokenizer.add_tokens(["xyz", tokenizers.AddedToken("left", lstrip=True)])
    tokenizer.add_special_tokens(["<sep>"])
    for special in (True, False):
        mask = bleugrad.word_start_mask(tokenizer, special=special)
        assert len(mask) == tokenizer.get_vocab_size(with_added_tokens=True)
        found = [mask[tokenizer.token_to_id(token)].item() for token in ("xyz", "left", "<sep>")]
        assert found == [False, True, special]
    ids = tokenizer.encode("the xyz low").ids  # "▁" comes before it, and opens the word
    assert words_of(ids, mask, tokenizer.decode) == ["the", "xyz", "low"]


def test_single_tokens_can_be_settled():
    vocabulary = {"<s>": 2, "<mask>": 3, "▁the": 0, "er": 1}
    assert bleugrad.word_start_mask(vocabulary).tolist() == [True, False, False, False]
    settled = bleugrad.word_start_mask(vocabulary, special={"<s>": True, "▁the": False})
    assert settled.tolist() == [False, False, True, False]
    with pytest.raises(ValueError, match="special names '<pad>'"):
        bleugrad.word_start_mask(vocabulary, special={"<pad>": True})


def test_the_model_may_have_more_rows_than_the_tokenizer_tokens():
    vocabulary = ["▁the", "er"]
    assert bleugrad.word_start_mask(vocabulary, size=4).tolist() == [True, False, True, True]
    assert bleugrad.word_start_mask(vocabulary, size=4, special=False).tolist() == [True, False, False, False]
    assert bleugrad.word_start_mask({"▁the": 0, "er": 3}).tolist() == [True, True, True, False]
    with pytest.raises(TypeError, match="size is 'x' of type str; expected an int"):
        bleugrad.word_start_mask(["▁a"], size="x")
    with pytest.raises(TypeError, match=r"tokenizer holds \[1\]: 1; expected token strings"):
        bleugrad.word_start_mask(["▁a", [1]])
    with pytest.raises(ValueError, match="size is 1; expected at least 2"):
        bleugrad.word_start_mask(vocabulary, size=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("build", [metaspace_bpe, byte_level, wordpiece], ids=lambda build: build.__name__)
def test_fast_tokenizers_of_transformers(build):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    backend = build()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="</s>", mask_token="<mask>"
    )
    mask = bleugrad.word_start_mask(tokenizer)
    assert len(mask) == len(tokenizer)  # <mask> was added
    assert torch.equal(mask[: len(mask) - 1], bleugrad.word_start_mask(build()))
    special = set(tokenizer.all_special_ids) - ({tokenizer.unk_token_id} if build is metaspace_bpe else set())
    assert mask[sorted(special)].all()
    assert mask[tokenizer.unk_token_id] == (build in UNKNOWN_WORDS)
    assert not bleugrad.word_start_mask(tokenizer, special=False)[tokenizer.all_special_ids].any()
    for line in UNSEEN:
        ids = tokenizer(line, add_special_tokens=False)["input_ids"]
        assert words_of(ids, mask, tokenizer.decode) == line.split()


def sentencepiece_processor(**options):
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        minloglevel=2,
        hard_vocab_limit=False,
        user_defined_symbols=["<sep>"],
        **({"vocab_size": 60} | options),
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize(
    "options",
    [{}, {"model_type": "bpe"}, {"byte_fallback": True, "vocab_size": 320}],
    ids=["unigram", "bpe", "byte fallback"],
)
def test_sentencepiece(options):
    processor = sentencepiece_processor(**options)
    mask = bleugrad.word_start_mask(processor)
    assert mask.shape == (processor.get_piece_size(),)
    for line in TEXT[:4] + UNSEEN:
        assert words_of(processor.encode(line), mask, processor.decode) == line.split()
    special = [processor.unk_id(), processor.bos_id(), processor.eos_id()]
    assert mask[special].tolist() == [False, True, True]
    assert not bleugrad.word_start_mask(processor, special=False)[special].any()
    assert not mask[processor.piece_to_id("<sep>")]  # of the user's own: "▁" stands before it


def at_at(line):
    """`low@@ er`: words cut after three letters."""
    pieces = []
    for word in line.split():
        parts = [word[i : i + 3] for i in range(0, len(word), 3)]
        pieces += [*(f"{part}@@" for part in parts[:-1]), parts[-1]]
    return pieces


def at_at_vocabulary():
    return sorted({piece for line in TEXT + UNSEEN for piece in at_at(line)})


def test_where_the_end_of_a_word_is_marked_sequences_are_flipped():
    """The same words read from right to left; without ``flipped=True`` an error says what to do."""
    vocabulary = at_at_vocabulary()
    numbers = {piece: index for index, piece in enumerate(vocabulary)}
    for form in (vocabulary, numbers):
        mask = bleugrad.word_start_mask(form, flipped=True)
        for line in TEXT[:4] + UNSEEN:
            ids = [numbers[piece] for piece in at_at(line)]
            words = words_of(
                ids[::-1], mask, lambda word: "".join(vocabulary[i].removesuffix("@@") for i in word[::-1])
            )
            assert words[::-1] == line.split()
        with pytest.raises(ValueError, match=r"goes on after @@.*flipped=True.*labels\.flip\(1\)"):
            bleugrad.word_start_mask(form)
    roles = {piece for line in TEXT for piece in at_at(line)}
    assert "low" in roles  # ends nothing but itself in "low", ...
    assert {"low@@", "er"} <= roles  # ... and er ends lower and newer: no mask of openings could be right


@pytest.mark.parametrize("kind", ["</w>", "sentencepiece"])
def test_other_marks_of_the_end_of_a_word(kind):
    pytest.importorskip("tokenizers")
    tokenizer = end_of_word() if kind == "</w>" else sentencepiece_processor(treat_whitespace_as_suffix=True)
    mask = bleugrad.word_start_mask(tokenizer, flipped=True)
    for line in TEXT[:4] + UNSEEN:
        encoded = tokenizer.encode(line)
        ids = encoded.ids if kind == "</w>" else encoded
        words = words_of(ids[::-1], mask, lambda word: tokenizer.decode(word[::-1]))
        assert words[::-1] == line.split()
    with pytest.raises(ValueError, match="flipped=True"):
        bleugrad.word_start_mask(tokenizer)


def noisy(rng, line, words):
    """Some words replaced, left out or put in."""
    kept = [word if rng.random() > 0.15 else words[rng.integers(len(words))] for word in line.split()]
    kept = [word for word in kept if rng.random() > 0.1] or kept
    if rng.random() < 0.3:
        kept.insert(int(rng.integers(len(kept) + 1)), words[rng.integers(len(words))])
    return " ".join(kept)


def test_flipped_it_is_the_bleu_of_the_words(rng):
    """At-at vocabularies against sacreBLEU: ids, one-hot rows, and the loss with labels padded on the right."""
    sacrebleu = pytest.importorskip("sacrebleu")
    vocabulary = at_at_vocabulary()
    numbers = {piece: index for index, piece in enumerate(vocabulary)}
    mask = bleugrad.word_start_mask(vocabulary, flipped=True)
    words = " ".join(TEXT[:4]).split()
    references = TEXT[:4] * 5
    hypotheses = [noisy(rng, line, words) for line in references]
    wanted = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", smooth_method="none").score / 100
    assert 0.2 < wanted < 0.9
    ids, reference_ids = ([[numbers[p] for p in at_at(line)] for line in lines] for lines in (hypotheses, references))
    turned = [row[::-1] for row in reference_ids]
    found = bleugrad.bleu([row[::-1] for row in ids], turned, smoothing=0, level="corpus", word_start=mask)
    assert found.value.item() == pytest.approx(wanted, abs=1e-12)
    width = max(map(len, ids))
    padded = torch.tensor([row + [-100] * (width - len(row)) for row in ids])
    logits = one_hot_logits(padded.clamp(min=0), len(vocabulary))
    loss = bleugrad.ExpectedBLEULoss(word_start=mask, smoothing=0.0)
    flipped = loss(logits.flip(1), padded.flip(1), references=turned)
    assert 1 - flipped.item() == pytest.approx(wanted, abs=1e-12)


class Slow:
    def get_vocab(self):
        return {"▁a": 0}


@pytest.mark.parametrize(
    ("tokenizer", "exception", "found"),
    [
        (None, TypeError, "NoneType"),
        (7, TypeError, "int"),
        ("gpt2", TypeError, "str"),
        (Slow(), TypeError, "Slow.*its vocabulary can be passed instead"),
        (torch.nn.Linear(1, 1), TypeError, "Linear"),
        ([], ValueError, "empty"),
        ({}, ValueError, "empty"),
        ([1, 2], TypeError, "1: 0"),
        ({"▁a": "0"}, TypeError, "'▁a': '0'"),
        ({"▁a": -1}, TypeError, "-1"),
        (["▁a", "b", "b"], ValueError, "1 tokens that occur before"),
        (["a", "b"], ValueError, "no mark of words.*@@"),
        (["a@@", "##b"], ValueError, "several marks of words, @@, ##"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Slow | torch.nn.Module) else str(value),
)
def test_what_cannot_be_read_is_named(tokenizer, exception, found):
    with pytest.raises(exception, match=rf"^tokenizer.*{found}"):
        bleugrad.word_start_mask(tokenizer)


def test_a_tokenizer_without_marks_is_an_error():
    """Whitespace is thrown away and nothing marks where it was."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    with pytest.raises(ValueError, match="no mark of words; expected one of"):
        bleugrad.word_start_mask(tokenizer)


def test_no_tokenizer_library_is_loaded():
    script = (
        "import sys, bleugrad; bleugrad.word_start_mask(['▁a', 'b']);"
        "sys.exit(bool({'tokenizers', 'transformers', 'sentencepiece'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-X", "utf8", "-c", script], check=False).returncode == 0


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def bpe_of_corpus(lines, kind):
    """Two thousand tokens, the words of the text kept as they are."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    options = {"vocab_size": 2000, "special_tokens": SPECIAL, "show_progress": False}
    if kind == "metaspace":
        tokenizer, part = Tokenizer(models.BPE(unk_token="<unk>")), pre_tokenizers.Metaspace()
        decoder, trainer = decoders.Metaspace(), trainers.BpeTrainer(**options)
    elif kind == "byte-level":
        tokenizer, part = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=True)
        decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    else:
        tokenizer, part = Tokenizer(models.WordPiece(unk_token="<unk>")), pre_tokenizers.WhitespaceSplit()
        decoder, trainer = decoders.WordPiece(cleanup=False), trainers.WordPieceTrainer(**options)
    tokenizer.pre_tokenizer, tokenizer.decoder = part, decoder
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


@pytest.mark.parametrize("kind", ["metaspace", "byte-level", "wordpiece"])
def test_on_real_text_it_is_sacrebleu_of_the_detokenised_words(data_dir, rng, kind):
    """One and two references, corpus level, ids and one-hot rows of both methods; token BLEU is something else."""
    pytest.importorskip("tokenizers")
    sacrebleu = pytest.importorskip("sacrebleu")
    lines = read(data_dir / "tatoeba" / "train.en.gz")[:20000]
    references = read(data_dir / "tatoeba" / "valid.en.gz")[:1000]
    words = " ".join(references).split()
    hypotheses, second = ([noisy(rng, line, words) for line in references] for _ in range(2))
    tokenizer = bpe_of_corpus(lines, kind)
    mask = bleugrad.word_start_mask(tokenizer)
    unknown = tokenizer.token_to_id("<unk>")
    rows = [[encoding.ids for encoding in tokenizer.encode_batch(part)] for part in (hypotheses, references, second)]
    known = [i for i in range(len(references)) if not any(unknown in part[i] for part in rows)]
    assert len(known) > 950
    ids, first_ids, second_ids = ([part[i] for i in known] for part in rows)
    texts = [[text.strip() for text in tokenizer.decode_batch(part)] for part in (ids, first_ids, second_ids)]
    assert texts[0] == [hypotheses[i] for i in known]
    score = {"tokenize": "none", "smooth_method": "none", "force": True}
    one = sacrebleu.corpus_bleu(texts[0], [texts[1]], **score).score / 100
    two = sacrebleu.corpus_bleu(texts[0], texts[1:], **score).score / 100
    options = {"smoothing": 0, "word_start": mask}
    assert bleugrad.bleu(ids, first_ids, **options).value.item() == pytest.approx(one, abs=1e-12)
    pairs = [list(pair) for pair in zip(first_ids, second_ids, strict=True)]
    assert bleugrad.bleu(ids, pairs, **options).value.item() == pytest.approx(two, abs=1e-12)
    assert abs(bleugrad.bleu(ids, first_ids, smoothing=0, level="corpus").value.item() - one) > 0.01

    part = slice(0, 150)
    width = max(map(len, ids[part]))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in ids[part]])
    counted = torch.arange(width) < torch.tensor([len(row) for row in ids[part]])[:, None]
    logits = one_hot_logits(tokens, len(mask))
    wanted = sacrebleu.corpus_bleu(texts[0][part], [texts[1][part]], **score).score / 100
    for method in ("exact", "bound"):
        result = bleugrad.expected_bleu(
            logits, first_ids[part], mask=counted, word_start=mask, method=method, smoothing=0.0
        )
        assert result.value.item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("special", [torch.zeros(0), None, "x"])
def test_special_is_a_bool_or_a_dict(special):
    with pytest.raises(TypeError, match=r"special is a .*; expected True, False or a dict"):
        bleugrad.word_start_mask(["▁a"], special=special)
