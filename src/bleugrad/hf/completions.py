"""Prompts and completions of causal models."""

from collections.abc import Sequence
from typing import Any

from bleugrad.hf.counting import IGNORED


def encode_completion(
    tokenizer: Any, prompt: str, completion: str, references: Sequence[str] | None = None
) -> dict[str, Any]:
    """The features of a causal model: prompt and completion as inputs, labels of the completion and its EOS alone.

    Args:
        tokenizer: which may add tokens of its own before the prompt.
        prompt: what is given, masked by -100 in the labels.
        completion: what is learnt.
        references: several, to measure BLEU against; by default the completion.

    Tokens are those of the two texts one by one, so none spans the border between them. Byte-level tokenizers write the
    space into the word after it: begin the completion with it.
    """
    given = list(tokenizer(prompt)["input_ids"])
    end = tokenizer.eos_token_id
    if given and given[-1] == end:
        given.pop()
    encoded = _target(tokenizer, completion)
    features = {
        "input_ids": given + encoded,
        "attention_mask": [1] * (len(given) + len(encoded)),
        "labels": [IGNORED] * len(given) + encoded,
    }
    if references is not None:
        features["references"] = [_target(tokenizer, reference) for reference in references]
    return features


def _target(tokenizer: Any, text: str) -> list[int]:
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return ids if tokenizer.eos_token_id is None else [*ids, tokenizer.eos_token_id]
