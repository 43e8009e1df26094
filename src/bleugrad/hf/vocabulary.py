"""Which ids of the model's vocabulary BLEU looks at, and which tokens open a word."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from bleugrad.arguments import check_choice
from bleugrad.hf.counting import IGNORED
from bleugrad.tokenizers import word_start_mask

EOS_ROLES = ("length", "token", "exclude")


def length_eos(tokenizer: Any, eos: str) -> int | None:
    """The id of the EOS that ends a hypothesis, or None if EOS does not end it."""
    if eos != "length":
        return None
    if tokenizer.eos_token_id is None:
        raise ValueError("eos is 'length', but the tokenizer has no eos_token; expected one, or eos='exclude'")
    return int(tokenizer.eos_token_id)


def excluded_ids(tokenizer: Any, eos: str, special_tokens: str | Iterable[int]) -> Tensor:
    """The label ids that do not count for BLEU, (S,). The unknown token counts: it stands for a word."""
    if isinstance(special_tokens, str):
        check_choice("special_tokens", special_tokens, ("exclude", "include"))
        chosen = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} if special_tokens == "exclude" else set()
    else:
        chosen = {int(index) for index in special_tokens}
    chosen.discard(tokenizer.eos_token_id)
    if eos == "exclude" and tokenizer.eos_token_id is not None:
        chosen.add(tokenizer.eos_token_id)
    return torch.tensor(sorted(chosen), dtype=torch.long)


def without(ids: Tensor, excluded: Tensor) -> Tensor:
    """The ids with -100 in place of those that are excluded."""
    return ids.masked_fill(torch.isin(ids, excluded.to(ids.device)), IGNORED)


def word_starts(tokenizer: Any, vocabulary: int, words: bool | None) -> Tensor | None:
    """The tokens of the model's vocabulary that open a word, (V,); None to count tokens.

    If ``words`` is None, words are counted if the tokenizer marks where they begin.
    """
    if words is False:
        return None
    fast = getattr(tokenizer, "is_fast", False)
    special = True if fast else dict.fromkeys(set(tokenizer.all_special_tokens) - {tokenizer.unk_token}, True)
    try:
        return word_start_mask(tokenizer if fast else tokenizer.get_vocab(), special=special, size=vocabulary)
    except ValueError as error:
        if words is None:
            return None
        message = "words is True, but the tokenizer does not mark where words begin; use words=False"
        raise ValueError(message) from error
