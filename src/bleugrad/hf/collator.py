"""Batches the loss can trust: decoder inputs made from the labels, references padded."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DataCollatorForSeq2Seq

from bleugrad.hf.counting import IGNORED


class BLEUCollator:
    """Pads inputs and labels, makes ``decoder_input_ids`` from the labels, and pads ``references`` where there are any.

    Around ``DataCollatorForSeq2Seq``, for encoder-decoder and causal models alike (labels of a causal model are its
    input ids, -100 where nothing counts). Padding stands where ``tokenizer.padding_side`` says; on the left of a causal
    model it comes with ``position_ids`` that begin after it, as ``generate`` has them, since models would otherwise
    count from the padding. Columns that are no inputs of the tokenizer are left out, so ``remove_unused_columns=False``
    does no harm.

    Args:
        tokenizer: whose ``pad`` is used.
        model: the model, which knows how labels become decoder inputs.
        pad_to_multiple_of: of lengths, for devices that want it.

    A feature's ``references`` are lists of token ids. They are for training: what generates while evaluating does not
    know them, so leave the column out of the evaluation data.
    """

    def __init__(self, tokenizer: Any, model: Any, pad_to_multiple_of: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.model = model if model.config.is_encoder_decoder else None
        self.positions = self.model is None and "position_ids" in inspect.signature(model.forward).parameters
        self.pad = DataCollatorForSeq2Seq(
            tokenizer, model=self.model, label_pad_token_id=IGNORED, pad_to_multiple_of=pad_to_multiple_of
        )

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The batch of some features."""
        kept = {*self.tokenizer.model_input_names, "labels"}
        missing = [index for index, feature in enumerate(features) if feature.get("labels") is None]
        if missing:
            raise ValueError(f"feature {missing[0]} has no labels; expected token ids, as text_target= makes them")
        padded = self.pad([{name: feature[name] for name in feature if name in kept} for feature in features])
        batch = dict(padded)
        if self.model is not None and "decoder_input_ids" not in batch:
            batch["decoder_input_ids"] = shift_right(batch["labels"], self.model.config)
        if self.positions and self.tokenizer.padding_side == "left":
            batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
        if "references" in features[0]:
            batch["references"] = pad_references([feature["references"] for feature in features])
        return batch


def shift_right(labels: Tensor, config: Any) -> Tensor:
    """Decoder inputs for models that have no function of their own for it, such as M2M100 and NLLB.

    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(decoder_start_token_id=2, pad_token_id=1)
    >>> shift_right(torch.tensor([[7, 8, 2], [9, 2, -100]]), config).tolist()
    [[2, 7, 8], [2, 9, 2]]
    """
    start, pad = config.decoder_start_token_id, config.pad_token_id
    if start is None or pad is None:
        raise ValueError(
            f"model.config has decoder_start_token_id={start} and pad_token_id={pad}; expected ids, from which the "
            "decoder's inputs are made"
        )
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], 1)
    return shifted.masked_fill(shifted == IGNORED, pad)


def pad_references(references: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Several references of each sentence as (B, K, R), -100 where there is none.

    >>> pad_references([[[5, 6], [7]], [[8]]]).tolist()
    [[[5, 6], [7, -100]], [[8, -100], [-100, -100]]]
    """
    most = max((len(sentence) for sentence in references), default=0)
    longest = max((len(one) for sentence in references for one in sentence), default=0)
    padded = torch.full((len(references), max(most, 1), max(longest, 1)), IGNORED)
    for index, sentence in enumerate(references):
        for number, one in enumerate(sentence):
            padded[index, number, : len(one)] = torch.as_tensor(one, dtype=torch.long)
    return padded
