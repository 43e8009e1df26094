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

PLAIN = {"level": "sentence", "adaptive": False, "words": False, "end_positions": 0, "sharpness": 1.0}
"""Options of a loss that is expected BLEU of tokens alone."""

ROUNDING = 1e-12 if int(transformers.__version__.split(".")[0]) > 4 else 1e-7
"""Tolerance of the comparisons. T5 of transformers 4 computes its softmax in single precision."""


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


def _config(kind, **options):
    """A configuration with the vocabulary and the special tokens of the tokenizer."""
    ends = {"pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}
    return kind(**{"vocab_size": len(make_tokenizer()), "use_cache": False} | ends | options)


def _like_bart(kind, **options):
    sizes = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    dropouts = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    layer_drops = dict.fromkeys(("encoder_layerdrop", "decoder_layerdrop"), 0.0)
    ends = {"decoder_start_token_id": END, "forced_eos_token_id": END}
    rest = {"d_model": 16, "max_position_embeddings": 64, "init_std": 0.3}
    return _config(kind, **sides | dropouts | layer_drops | ends | rest | options)


def _t5():
    larger = {"vocab_size": len(make_tokenizer()) + 7}  # than the tokenizer's, as T5's is
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    config = _config(transformers.T5Config, **larger, **sizes, initializer_factor=1.0, decoder_start_token_id=PAD)
    return transformers.T5ForConditionalGeneration(config)


def _bart():
    return transformers.BartForConditionalGeneration(_like_bart(transformers.BartConfig))


def _marian():
    model = transformers.MarianMTModel(_like_bart(transformers.MarianConfig, decoder_start_token_id=PAD))
    model.final_logits_bias.normal_()  # as trained Marian models have it
    return model


def _mbart():
    config = _like_bart(transformers.MBartConfig, decoder_start_token_id=None)
    return transformers.MBartForConditionalGeneration(config)


def _nllb():
    return transformers.M2M100ForConditionalGeneration(_like_bart(transformers.M2M100Config))


def _gpt():
    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.3}
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return transformers.GPT2LMHeadModel(_config(transformers.GPT2Config, **sizes, **dropouts))


def _like_llama(kind, **options):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return _config(kind, **sizes, initializer_range=0.3, **options)


def _llama():
    config = _like_llama(transformers.LlamaConfig, max_position_embeddings=64, tie_word_embeddings=False)
    return transformers.LlamaForCausalLM(config)


def _gemma():
    options = {"num_key_value_heads": 1, "head_dim": 8, "final_logit_softcapping": 30.0}
    return transformers.Gemma2ForCausalLM(_like_llama(transformers.Gemma2Config, **options))


SEQ2SEQ = {"T5": _t5, "BART": _bart, "Marian": _marian, "mBART": _mbart, "NLLB": _nllb}
CAUSAL = {"GPT-2": _gpt, "Llama": _llama}
CAPPED = {"Gemma 2": _gemma}


def make_model(name, dtype=torch.float64):
    torch.manual_seed(0)
    return (SEQ2SEQ | CAUSAL | CAPPED)[name]().to(dtype).train()


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def encode_pairs():
    """The lines as prompts, each completed by the next."""
    from bleugrad.hf import encode_completion

    return [
        encode_completion(make_tokenizer(), prompt, completion)
        for prompt, completion in zip(LINES, [*LINES[1:], LINES[0]], strict=True)
    ]
