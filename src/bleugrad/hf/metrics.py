"""sacreBLEU of generated text, as a metric and as a reward."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU


class BLEUMetrics:
    """``compute_metrics`` of a ``Seq2SeqTrainer`` with ``predict_with_generate=True``: sacreBLEU of the corpus, 0..100.

    Evaluation in several processes repeats sentences to fill the last batches. They are dropped, so ``size`` is
    required. The evaluation *loss* of a trainer that generates is the model's own cross-entropy, not the training loss:
    choose checkpoints with ``metric_for_best_model="bleu"``.

    Args:
        tokenizer: decodes token ids, without special tokens.
        size: number of sentences of the evaluation data, ``len(eval_dataset)``.
        references: reference texts, one list per sentence, instead of the decoded labels.
        tokenize: sacreBLEU's tokenizer: "13a", "none", "intl", "char".
        lowercase: ignore case.

    After a call, ``signature`` is sacreBLEU's signature. Report it with the score.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        size: int,
        references: Sequence[Sequence[str]] | None = None,
        tokenize: str = "13a",
        lowercase: bool = False,
    ) -> None:
        if references is not None and len(references) != size:
            raise ValueError(f"references has {len(references)} sentences; expected {size}, the size")
        self.tokenizer = tokenizer
        self.size = size
        self.references = references
        # told to take the text as it is, sacreBLEU need not warn that it looks tokenised
        self.scorer = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
        self.signature = ""

    def __call__(self, prediction: Any) -> dict[str, float]:
        """``bleu`` (0..100), ``brevity_penalty`` and ``length_ratio`` of predictions and label ids."""
        outputs = self._texts("predictions", _token_ids(prediction.predictions))
        if self.references is None:
            references = [[text] for text in self._texts("label_ids", prediction.label_ids)]
        else:
            references = [list(texts) for texts in self.references]
        streams: list[Any] = list(zip_longest(*references))
        score = self.scorer.corpus_score(outputs, streams)
        self.signature = str(self.scorer.get_signature())
        return {"bleu": score.score, "brevity_penalty": score.bp, "length_ratio": score.ratio}

    def _texts(self, name: str, ids: Any) -> list[str]:
        if len(ids) < self.size:
            raise ValueError(f"{name} has {len(ids)} sentences; expected at least {self.size}, the size")
        pad = self.tokenizer.pad_token_id
        kept = np.asarray(ids)[: self.size]
        texts = self.tokenizer.batch_decode(np.where(kept < 0, pad, kept), skip_special_tokens=True)
        return [text.strip() for text in texts]


def _token_ids(predictions: Any) -> Any:
    ids = predictions[0] if isinstance(predictions, tuple) else predictions
    if np.ndim(ids) != 2 or not np.issubdtype(np.asarray(ids).dtype, np.integer):
        raise ValueError(
            f"predictions have shape {np.shape(ids)}; expected generated token ids (B, T): "
            "train with predict_with_generate=True"
        )
    return ids


class BLEUReward:
    """Sentence BLEU of completions, 0..1, as a reward function of TRL's GRPO and RLOO trainers.

    Args:
        column: column of the data with a reference text, or a list of them, per prompt.
        tokenize: sacreBLEU's tokenizer.
        smooth_method: sacreBLEU's smoothing; with "exp" and "floor" short and early outputs have rewards above 0.
        max_order: highest n-gram order.

    Example:
        >>> reward = BLEUReward()
        >>> reward(["p"], ["the cat sat on the mat"], reference=["the cat sat on the mat"])
        [1.0]
    """

    def __init__(
        self, column: str = "reference", tokenize: str = "13a", smooth_method: str = "exp", max_order: int = 4
    ) -> None:
        self.__name__ = "bleu_reward"  # what TRL logs it as
        self.column = column
        self.scorer = BLEU(
            tokenize=tokenize, smooth_method=smooth_method, max_ngram_order=max_order, effective_order=True
        )

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """One reward per completion, a text or a conversation whose messages are joined. Prompts are not used."""
        if self.column not in columns:
            found = ", ".join(sorted(columns)) or "none"
            raise ValueError(f"the data has no column {self.column!r} of references; found {found}")
        return [self._score(_text(one), them) for one, them in zip(completions, columns[self.column], strict=True)]

    def _score(self, completion: str, references: str | Sequence[str]) -> float:
        several = [references] if isinstance(references, str) else list(references)
        return min(self.scorer.sentence_score(completion, several).score / 100, 1.0)


def _text(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    return " ".join(str(message["content"]) for message in completion)


bleu_reward = BLEUReward()
"""BLEU against the column ``reference`` with sacreBLEU's default tokenizer."""
