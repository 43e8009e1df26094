"""BLEU as a reward, for comparison with sampling methods on the same data."""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU


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
        """One reward per completion.

        Args:
            prompts: not used.
            completions: texts, or conversations, whose messages are joined.
            **columns: the columns of the data, with the references, as TRL passes them.
        """
        if self.column not in columns:
            found = ", ".join(sorted(columns)) or "none"
            raise ValueError(f"the data has no column {self.column!r} of references; found {found}")
        references = columns[self.column]
        return [self._score(_text(one), them) for one, them in zip(completions, references, strict=True)]

    def _score(self, completion: str, references: str | Sequence[str]) -> float:
        several = [references] if isinstance(references, str) else list(references)
        return min(self.scorer.sentence_score(completion, several).score / 100, 1.0)


def _text(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    return " ".join(str(message["content"]) for message in completion)


bleu_reward = BLEUReward()
"""BLEU against the column ``reference`` with sacreBLEU's default tokenizer."""
