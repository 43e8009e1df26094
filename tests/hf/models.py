"""Small models and a tokenizer trained on the spot, in double precision and without dropout."""

import functools

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, END, UNKNOWN, BEGIN, ENGLISH, GERMAN = range(6)
SPECIAL = ["<pad>", "</s>", "<unk>", "<s>", "<en>", "<de>"]
LINES = [
    "the cat sat on the mat",
    "a dog ran in the park",
    "low lower lowest low",
    "the dog sat",
    "a cat and a cat and a dog",
    "the park is lower than the mat",
    "on and on and on",
    "slow",
]


@functools.cache
def make_tokenizer(padding_side="right"):
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        eos_token=SPECIAL[END],
        unk_token=SPECIAL[UNKNOWN],
        bos_token=SPECIAL[BEGIN],
        additional_special_tokens=SPECIAL[ENGLISH:],
        padding_side=padding_side,
    )


def encode(text):
    return [*make_tokenizer()(text)["input_ids"], END]


def features(lines=LINES, before=(), after=()):
    """Pairs: each line is translated into the next."""
    pairs = zip(lines, [*lines[1:], lines[0]], strict=True)
    return [
        {"input_ids": encode(source), "attention_mask": [1] * len(encode(source)), "labels": [*before, *ids, *after]}
        for source, ids in ((source, encode(target)) for source, target in pairs)
    ]


def _shared(extra=0):
    return {
        "vocab_size": len(make_tokenizer()) + extra,
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 64,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "init_std": 0.3,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": END,
        "forced_eos_token_id": END,
        "use_cache": False,
    }


def _t5():
    config = transformers.T5Config(
        vocab_size=len(make_tokenizer()) + 7,  # larger than the tokenizer's, as T5's is
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        initializer_factor=1.0,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        use_cache=False,
    )
    return transformers.T5ForConditionalGeneration(config)


def _bart():
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**_shared()))


def _marian():
    model = transformers.MarianMTModel(transformers.MarianConfig(**_shared() | {"decoder_start_token_id": PAD}))
    model.final_logits_bias.normal_()  # as trained Marian models have it
    return model


def _mbart():
    options = _shared() | {"decoder_start_token_id": None, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    return transformers.MBartForConditionalGeneration(transformers.MBartConfig(**options))


def _nllb():
    options = _shared() | {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    return transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**options))


def _gpt():
    config = transformers.GPT2Config(
        vocab_size=len(make_tokenizer()),
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.3,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PAD,
        use_cache=False,
    )
    return transformers.GPT2LMHeadModel(config)


def _llama():
    config = transformers.LlamaConfig(
        vocab_size=len(make_tokenizer()),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PAD,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config)


SEQ2SEQ = {"T5": _t5, "BART": _bart, "Marian": _marian, "mBART": _mbart, "NLLB": _nllb}
CAUSAL = {"GPT-2": _gpt, "Llama": _llama}


def make_model(name, dtype=torch.float64):
    torch.manual_seed(0)
    return (SEQ2SEQ | CAUSAL)[name]().to(dtype).train()


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def encode_pairs():
    """The lines as prompts, each completed by the next."""
    from bleugrad.hf import encode_completion

    return [
        encode_completion(make_tokenizer(), prompt, completion)
        for prompt, completion in zip(LINES, [*LINES[1:], LINES[0]], strict=True)
    ]
