"""Candidates of ``generate`` that a loss scores in place of the rows of the labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from bleugrad.arguments import check_int
from bleugrad.expectation import Expectation
from bleugrad.hf.counting import IGNORED
from bleugrad.losses.candidates import CandidateBLEULoss, CandidateOptions
from bleugrad.scores.bleu import BLEU


@dataclass(frozen=True)
class CandidateSearch:
    """``BLEULoss(model, tokenizer, candidates=CandidateSearch())``: train on what beam search finds.

    For each sentence ``model.generate`` finds candidates, in evaluation mode and without a gradient. The model then
    decodes all of them in parallel, with a gradient. The BLEU part of the loss is that of
    :class:`bleugrad.CandidateBLEULoss`: 1 - expected BLEU of the rows of each candidate, weighted by the candidates'
    probabilities. Special tokens that BLEU leaves out do not count for these, either. The cross-entropy part remains
    that of the labels. For encoder-decoder models.

    Args:
        number: candidates per sentence, which is also the width of the beam.
        alpha: sharpness of the weights of the candidates. 0 gives all the same weight.
        length_penalty: 0 weights by log-probabilities, 1 by their mean per token.
        generation: more options of ``generate``, such as ``{"max_new_tokens": 64}``. By default a candidate has at most
            1.2 times the tokens of the longest labels of the batch, and 3 more.

    Example:
        >>> CandidateSearch(3, generation={"no_repeat_ngram_size": 3}).number
        3
    """

    number: int = 4
    alpha: float = 1.0
    length_penalty: float = 1.0
    generation: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if check_int("number", self.number) < 1:
            raise ValueError(f"number is {self.number}; expected at least 1 candidate per sentence")
        if self.generation.keys() & {"num_beams", "num_return_sequences"}:
            raise ValueError(f"generation is {dict(self.generation)}; expected number= instead of a number of beams")

    def loss(self, expectation: Expectation[BLEU], word_start: Tensor | None) -> CandidateBLEULoss:
        """The loss (B,) of the candidates of each sentence."""
        loss = CandidateBLEULoss(word_start=word_start)
        expectation = replace(expectation, level="sentence", inplace=False)
        loss.options = CandidateOptions(expectation, "none", None, 0.0, self.alpha, self.length_penalty)
        return loss

    def find(self, model: Any, inputs: Mapping[str, Tensor], longest: int) -> Tensor:
        """(B S, 1 + T), the start token and the candidates, those of a sentence side by side."""
        options = {"num_beams": self.number, "num_return_sequences": self.number, **self.generation}
        if not options.keys() & {"max_length", "max_new_tokens"}:
            options["max_new_tokens"] = math.ceil(1.2 * longest) + 3
        training = model.training
        model.eval()
        try:
            found: Tensor = model.generate(**inputs, **options)
        finally:
            model.train(training)
        return found

    def decode(self, model: Any, outputs: Any, inputs: Mapping[str, Tensor], found: Tensor) -> Any:
        """The outputs of the model that is fed the candidates; the source was encoded before."""
        encoded = outputs["encoder_last_hidden_state"].repeat_interleave(self.number, 0)
        mask = inputs.get("attention_mask")
        return model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
            attention_mask=None if mask is None else mask.repeat_interleave(self.number, 0),
            decoder_input_ids=found[:, :-1],
            use_cache=False,
        )

    def tokens(self, found: Tensor, eos_id: int | None) -> Tensor:
        """(B, S, T), the tokens of the candidates up to and including their first EOS, -100 after it."""
        tokens = found[:, 1:].contiguous()
        if eos_id is not None:
            ends = (tokens == eos_id).long()
            tokens = tokens.masked_fill(ends.cumsum(1) > ends, IGNORED)
        return tokens.view(len(tokens) // self.number, self.number, tokens.shape[1])
