"""Prompts and completions of causal models."""

from collections.abc import Sequence
from typing import Any

from bleugrad.hf.counting import IGNORED


def encode_completion(
    tokenizer: Any, prompt: str, completion: str, references: Sequence[str] | None = None
) -> dict[str, Any]:
    """The features of a causal model: prompt and completion as inputs, labels of the completion and its EOS alone.

    Args:
        tokenizer: may add tokens of its own before the prompt.
        prompt: the text before the completion, -100 in the labels.
        completion: the text to learn.
        references: several references for BLEU; by default the completion.

    The two texts are tokenised separately, so no token spans the border between them. Byte-level tokenizers write a
    space into the token after it, so begin the completion with the space. Nothing is truncated.
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
