"""Streams of sentence pairs drawn from the grammar, of which the splits of the built-in corpus are made."""

import re

from corpora.grammar.choices import Draws, Voice
from corpora.grammar.sentences import sentence

Pair = tuple[str, tuple[str, ...]]

SHORTEST, LONGEST = 4, 20
MOST_REFERENCES = 4
ATTEMPTS = 5


def streams(train: int, valid: int, test: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """German sentences with up to four English translations each, for the test, validation and training split.

    The first translation is the training target. The others are further draws, all distinct. No German sentence occurs
    twice in test or validation; short training sentences may repeat with other translations. The training stream is so
    long that ``train`` pairs are left without the sentences of the other two, and the validation stream likewise.
    The text is the same on every platform.
    """
    test_pairs = _stream(0, test, set(), distinct=True)
    taken = {german for german, _ in test_pairs}
    valid_pairs = _stream(1, valid, taken, distinct=True)
    return test_pairs, valid_pairs, _stream(2, train, taken | {german for german, _ in valid_pairs}, distinct=False)


def _stream(seed: int, size: int, taken: set[str], distinct: bool) -> list[Pair]:
    """The pairs of a seed, until ``size`` of them are not in ``taken``."""
    draws = Draws(seed)
    pairs: list[Pair] = []
    seen: set[str] = set()
    while size:
        pair = _pair(draws)
        if pair and pair[0] not in seen:
            pairs.append(pair)
            size -= pair[0] not in taken
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
