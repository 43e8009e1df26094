"""The built-in corpus: sentence pairs drawn from the grammar, in three splits."""

from itertools import pairwise

from bleugrad.data.grammar.choices import Draws, Voice
from bleugrad.data.grammar.sentences import sentence

Pair = tuple[str, tuple[str, ...]]

SHORTEST, LONGEST = 4, 20
MOST_REFERENCES = 4
ATTEMPTS = 5
STREAMS = {"test": 0, "valid": 1, "train": 2}
VOWELS = ("a", "e", "i", "o", "u")


def builtin_corpus(
    train: int = 20000, valid: int = 500, test: int = 500, seed: int = 0
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """German sentences with up to four English translations each, as training, validation and test split.

    The first translation is the training target: one drawn by the odds of the grammar. The others are further draws,
    all distinct. No German sentence occurs in two splits, nor twice in validation or test; in training, short ones may
    come again with other translations, as in real text. The test split depends only on its size and the seed, and a
    smaller training split is the beginning of a larger one. The same arguments give the same text everywhere.

    Args:
        train: Pairs in the training split.
        valid: Pairs in the validation split.
        test: Pairs in the test split.
        seed: Chooses another corpus of the same grammar.

    Returns:
        The three splits, lists of ``(german, references)``; lower case, tokens separated by spaces.

    Raises:
        ValueError: A size or the seed is negative.

    Example:
        >>> train, valid, test = builtin_corpus(train=2, valid=1, test=1)
        >>> print(test[0][0])
        er kann am see arbeiten , aber eine frau hat den chef verstanden .
        >>> for reference in test[0][1]:
        ...     print(reference)
        he can work at the lake , but a woman understood the boss .
        he can work at the lake but a woman understood the boss .
        he can work at the lake , but a lady understood the boss .
        he can work by the lake but a woman understood the boss .
    """
    for name, value in (("train", train), ("valid", valid), ("test", test), ("seed", seed)):
        if value < 0:
            raise ValueError(f"{name} is {value}; expected 0 or more")
    held_out: set[str] = set()
    test_pairs = _held_out(test, seed * len(STREAMS) + STREAMS["test"], held_out)
    valid_pairs = _held_out(valid, seed * len(STREAMS) + STREAMS["valid"], held_out)
    draws = Draws(seed * len(STREAMS) + STREAMS["train"])
    train_pairs: list[Pair] = []
    while len(train_pairs) < train:
        pair = _pair(draws)
        if pair and pair[0] not in held_out:
            train_pairs.append(pair)
    return train_pairs, valid_pairs, test_pairs


def _held_out(size: int, seed: int, seen: set[str]) -> list[Pair]:
    """Pairs whose German sentence was not seen, which they are from then on."""
    draws = Draws(seed)
    pairs: list[Pair] = []
    while len(pairs) < size:
        pair = _pair(draws)
        if pair and pair[0] not in seen:
            seen.add(pair[0])
            pairs.append(pair)
    return pairs


def _pair(draws: Draws) -> Pair | None:
    """A sentence with its translations; None where one of the two sides is too short or too long."""
    drawn = sentence(draws)
    german = _tidy(drawn.german)
    if not SHORTEST <= german.count(" ") + 1 <= LONGEST:
        return None
    references: list[str] = []
    for _ in range(ATTEMPTS):
        english = _articles(_tidy(drawn.english(Voice(draws))))
        fits = SHORTEST <= english.count(" ") + 1 <= LONGEST
        if not fits and not references:
            return None
        if fits and english not in references:
            references.append(english)
            if len(references) == MOST_REFERENCES:
                break
    return german, tuple(references)


def _tidy(text: str) -> str:
    """Without the commas that other punctuation swallows."""
    if ", " not in text:
        return text
    return text.replace(" , , ", " , ").replace(" , .", " .").replace(" , ?", " ?").replace(" , !", " !")


def _articles(english: str) -> str:
    """``a`` before a vowel becomes ``an``."""
    if " a " not in english and not english.startswith("a "):
        return english
    tokens = english.split(" ")
    for position, (token, following) in enumerate(pairwise(tokens)):
        if token == "a" and following.startswith(VOWELS):
            tokens[position] = "an"
    return " ".join(tokens)
