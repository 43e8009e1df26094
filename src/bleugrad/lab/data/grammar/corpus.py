"""The built-in corpus: sentence pairs drawn from the grammar, in three splits."""

import re

from bleugrad.lab.data.grammar.choices import Draws, Voice
from bleugrad.lab.data.grammar.sentences import sentence

Pair = tuple[str, tuple[str, ...]]

SHORTEST, LONGEST = 4, 20
MOST_REFERENCES = 4
ATTEMPTS = 5


def builtin_corpus(
    train: int = 20000, valid: int = 500, test: int = 500, seed: int = 0
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """German sentences with up to four English translations each, as training, validation and test split.

    The first translation is the training target. The others are further draws, all distinct. No German sentence occurs
    in two splits, or twice in validation or test; short training sentences may repeat with other translations. The test
    split depends only on its size and the seed. A smaller training split is the beginning of a larger one. The same
    arguments give the same text on every platform. A split is a list of ``(german, references)`` in lower case, with
    spaces between the tokens.

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
    seen: set[str] = set()
    test_pairs, valid_pairs, train_pairs = (
        _split(size, seed * 3 + stream, seen, distinct=stream < 2) for stream, size in enumerate((test, valid, train))
    )
    return train_pairs, valid_pairs, test_pairs


def _split(size: int, seed: int, seen: set[str], distinct: bool) -> list[Pair]:
    """Pairs whose German sentence is not in ``seen``; if ``distinct``, their sentences are added to it."""
    draws = Draws(seed)
    pairs: list[Pair] = []
    while len(pairs) < size:
        pair = _pair(draws)
        if pair and pair[0] not in seen:
            pairs.append(pair)
            if distinct:
                seen.add(pair[0])
    return pairs


def _pair(draws: Draws) -> Pair | None:
    """A sentence with its translations; None if either side is too short or too long."""
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
    """Remove commas before other punctuation."""
    if ", " not in text:
        return text
    return text.replace(" , , ", " , ").replace(" , .", " .").replace(" , ?", " ?").replace(" , !", " !")


def _articles(english: str) -> str:
    """Replace ``a`` before a vowel by ``an``."""
    return re.sub(r"(?<!\S)a(?= [aeiou])", "an", english)
