"""sacreBLEU of generated text, as a metric and as a reward."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bleugrad.hf.rewards import reference_texts


class BLEUMetrics:
    """``compute_metrics`` of a ``Seq2SeqTrainer`` with ``predict_with_generate=True``: sacreBLEU of the corpus, 0..100.

    Evaluation in several processes repeats sentences to fill the last batches. They are dropped, so ``size`` is
    required. After a call, ``signature`` is sacreBLEU's signature. Report it with the score.

    Args:
        tokenizer: decodes token ids, without special tokens.
        size: number of sentences of the evaluation data, ``len(eval_dataset)``.
        references: reference texts, one list per sentence, instead of the decoded labels.
        tokenize: sacreBLEU's tokenizer: "13a", "none", "intl", "char".
    """

    def __init__(
        self, tokenizer: Any, *, size: int, references: Sequence[Sequence[str]] | None = None, tokenize: str = "13a"
    ) -> None:
        if references is not None and len(references) != size:
            raise ValueError(f"references has {len(references)} sentences; expected {size}, the size")
        self.tokenizer, self.size, self.references = tokenizer, size, references
        # told to take the text as it is, sacreBLEU need not warn that it looks tokenised
        self.scorer = BLEU(tokenize=tokenize, force=tokenize == "none")
        self.signature = ""

    def __call__(self, prediction: Any) -> dict[str, float]:
        """``bleu`` (0..100), ``brevity_penalty`` and ``length_ratio`` of predictions and label ids."""
        found = prediction.predictions
        ids = np.asarray(found[0] if isinstance(found, tuple) else found)
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(
                f"predictions have shape {ids.shape}; expected generated token ids (B, T): "
                "train with predict_with_generate=True"
            )
        references = self.references or [[text] for text in self._texts("label_ids", prediction.label_ids)]
        streams: list[Any] = list(zip_longest(*references))
        score = self.scorer.corpus_score(self._texts("predictions", ids), streams)
        self.signature = str(self.scorer.get_signature())
        return {"bleu": score.score, "brevity_penalty": score.bp, "length_ratio": score.ratio}

    def _texts(self, name: str, ids: Any) -> list[str]:
        if len(ids) < self.size:
            raise ValueError(f"{name} has {len(ids)} sentences; expected at least {self.size}, the size")
        kept = np.asarray(ids)[: self.size]
        ids = np.where(kept < 0, self.tokenizer.pad_token_id, kept)
        return [text.strip() for text in self.tokenizer.batch_decode(ids, skip_special_tokens=True)]


class BLEUReward:
    """Sentence BLEU of completions, 0..1, as a reward function of TRL's GRPO and RLOO trainers.

    ``column`` of the data has a reference text, or a list of them, per prompt. ``tokenize`` is sacreBLEU's tokenizer.

    Example:
        >>> reward = BLEUReward()
        >>> reward(["p"], ["the cat sat on the mat"], reference=["the cat sat on the mat"])
        [1.0]
    """

    def __init__(self, column: str = "reference", tokenize: str = "13a") -> None:
        self.__name__ = "bleu_reward"  # what TRL logs it as
        self.column, self.scorer = column, BLEU(tokenize=tokenize, effective_order=True)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """One reward per completion, a text or a conversation whose messages are joined. Prompts are not used."""
        rewards = []
        for one, references in zip(completions, reference_texts(columns, self.column, len(completions)), strict=True):
            text = one if isinstance(one, str) else " ".join(str(message["content"]) for message in one)
            rewards.append(min(self.scorer.sentence_score(text, references).score / 100, 1.0))
        return rewards


bleu_reward = BLEUReward()
"""BLEU against the column ``reference`` with sacreBLEU's default tokenizer."""
