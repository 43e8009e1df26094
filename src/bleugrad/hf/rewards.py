"""Scores of token ids as rewards of TRL: no decoding, on the device of the ids."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from bleugrad.hf.counting import IGNORED
from bleugrad.hf.vocabulary import excluded_ids, length_eos, without, word_starts
from bleugrad.references.sequences import pad_lists
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.score import Score
from bleugrad.scores.token_score import token_rewards, token_score

DEFAULT = BLEU()


class ScoreReward:
    """A score of the completions' token ids as a reward function of TRL's GRPO and RLOO trainers.

    Completions are not decoded. Sequences end before EOS, and other special tokens do not count. The text-based
    :class:`bleugrad.hf.BLEUReward` has sacreBLEU's tokenisation instead.

    Args:
        tokenizer: the tokenizer of the model, which encodes the references. If completions begin with a space that is
            part of their first token, begin the references with it, too.
        score: :class:`bleugrad.BLEU` (smoothed by default), or another score such as :class:`bleugrad.ROUGEL`, of
            the sentence.
        column: column of the data with a reference text, or a list of them, per prompt.
        words: count words instead of tokens, as in :class:`bleugrad.hf.BLEULoss`.
    """

    def __init__(
        self, tokenizer: Any, score: Score = DEFAULT, *, column: str = "reference", words: bool | None = None
    ) -> None:
        self.tokenizer, self.score, self.column = tokenizer, score, column
        self.__name__ = f"{type(score).__name__.lower()}_of_ids"  # what TRL logs it as
        self.eos_id, self.excluded = length_eos(tokenizer, "length"), excluded_ids(tokenizer, "length", "exclude")
        self.word_start = word_starts(tokenizer, len(tokenizer), words)

    def __call__(
        self, prompts: Any, completions: Any, completion_ids: Sequence[Sequence[int]], **columns: Any
    ) -> list[float]:
        """One reward per completion. Prompts and texts are not used."""
        made = without(pad_lists("completion_ids", completion_ids, IGNORED), self.excluded)
        given = (made, self.references(columns, len(made)), self.score)
        rewards = token_score(*given, level="sentence", eos_id=self.eos_id, word_start=self.word_start)
        return [float(reward) for reward in rewards]

    def references(self, columns: dict[str, Any], number: int) -> list[list[list[int]]]:
        """The encoded references of each completion, from the columns of the data."""
        texts, left_out = reference_texts(columns, self.column, number), {*self.excluded.tolist(), self.eos_id}
        encoded = [self.tokenizer(several, add_special_tokens=False)["input_ids"] for several in texts]
        return [[[token for token in ids if token not in left_out] for ids in several] for several in encoded]

    def of_tokens(self, completion_ids: Tensor, references: list[list[list[int]]]) -> Tensor:
        """The reward of each token, (B, T), see :func:`bleugrad.token_rewards`; ids are padded with -100."""
        made = without(completion_ids, self.excluded)
        return token_rewards(made, references, self.score, eos_id=self.eos_id, word_start=self.word_start)


def reference_texts(columns: dict[str, Any], column: str, number: int) -> list[list[str]]:
    """The reference texts of each completion, from a column of the data with a text or a list of texts per prompt."""
    if column not in columns:
        found = ", ".join(sorted(columns)) or "none"
        raise ValueError(f"the data has no column {column!r} of references; found {found}")
    texts = [[one] if isinstance(one, str) else list(one) for one in columns[column]]
    if len(texts) != number:
        raise ValueError(f"the column {column!r} has {len(texts)} entries; expected {number}, the completions")
    return texts
