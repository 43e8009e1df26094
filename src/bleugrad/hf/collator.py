"""Features of causal models, and batches with decoder inputs that match the labels and with padded references."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DataCollatorForSeq2Seq

from bleugrad.hf.counting import IGNORED
from bleugrad.references.sequences import pad_lists


class BLEUCollator:
    """Pads inputs and labels, makes ``decoder_input_ids`` from the labels, and pads ``references`` if there are any.

    It wraps ``DataCollatorForSeq2Seq`` and serves encoder-decoder and causal models. Labels of a causal model are its
    input ids, with -100 where nothing is learnt. Left padding of a causal model comes with ``position_ids`` that start
    after the padding, as in ``generate``. Columns that are not inputs of the tokenizer are dropped.

    Args:
        tokenizer: its ``pad`` method is used.
        model: the model, which knows how labels become decoder inputs.
        references: every example must have ``references``, a list of lists of token ids. A trainer drops the column,
            without an error, unless ``remove_unused_columns=False``. Generation does not accept it.
    """

    def __init__(self, tokenizer: Any, model: Any, references: bool = False) -> None:
        self.tokenizer, self.references = tokenizer, references
        self.model = model if model.config.is_encoder_decoder else None
        self.positions = self.model is None and "position_ids" in inspect.signature(model.forward).parameters
        self.pad = DataCollatorForSeq2Seq(tokenizer, model=self.model, label_pad_token_id=IGNORED)

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate features into a batch."""
        kept = {*self.tokenizer.model_input_names, "labels"}
        missing = [index for index, feature in enumerate(features) if feature.get("labels") is None]
        if missing:
            raise ValueError(f"feature {missing[0]} has no labels; expected token ids, as text_target= makes them")
        batch = dict(self.pad([{name: feature[name] for name in feature if name in kept} for feature in features]))
        if self.model is not None and "decoder_input_ids" not in batch:
            batch["decoder_input_ids"] = shift_right(batch["labels"], self.model.config)
        if self.positions and self.tokenizer.padding_side == "left":
            batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
        if self.references and not all("references" in feature for feature in features):
            raise ValueError("a feature has no references; expected them in all, and remove_unused_columns=False")
        if "references" in features[0]:
            batch["references"] = pad_references([feature["references"] for feature in features])
        return batch


def shift_right(labels: Tensor, config: Any) -> Tensor:
    """Decoder inputs for models without a function of their own for it, such as M2M100 and NLLB."""
    start, pad = config.decoder_start_token_id, config.pad_token_id
    if start is None or pad is None:
        raise ValueError(
            f"model.config has decoder_start_token_id={start} and pad_token_id={pad}; expected ids, from which the "
            "decoder's inputs are made"
        )
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], 1)
    return shifted.masked_fill(shifted == IGNORED, pad)


def pad_references(references: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Several references per sentence as (B, K, R), padded with -100."""
    for index, sentence in enumerate(references):
        if isinstance(sentence, str) or any(isinstance(one, str | int) for one in sentence):
            raise TypeError(
                f"references of feature {index} begin with {str(sentence)[:40]!r}; expected a list of lists of token "
                "ids: tokenizer(text_target=references)['input_ids']"
            )
    most = max(map(len, references))
    rows = [one for several in references for one in [*several, *[[]] * (most - len(several))]]
    padded = pad_lists("references", rows, IGNORED)
    return padded.view(len(references), most, padded.shape[1])


def encode_completion(tokenizer: Any, prompt: str, completion: str) -> dict[str, list[int]]:
    """The features of a causal model: prompt and completion as inputs, labels of the completion and its EOS alone.

    The two texts are tokenised separately, so no token spans the border between them. Byte-level tokenizers write a
    space into the token after it, so begin the completion with the space. Nothing is truncated.
    """
    given, ends = list(tokenizer(prompt)["input_ids"]), [tokenizer.eos_token_id]
    if given[-1:] == ends:
        given.pop()
    learnt = list(tokenizer(completion, add_special_tokens=False)["input_ids"]) + ends * (ends != [None])
    return {
        "input_ids": given + learnt,
        "attention_mask": [1] * len(given + learnt),
        "labels": [IGNORED] * len(given) + learnt,
    }
