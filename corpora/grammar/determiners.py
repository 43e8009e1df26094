"""Articles, possessives and quantities, with the adjective endings they require."""

from typing import NamedTuple

from corpora.grammar.choices import Choice, Weighted, words

# Endings by case (nominative, accusative, dative, genitive) and gender (masculine, feminine, neuter, plural).
Endings = tuple[tuple[str, ...], ...]


def _endings(text: str) -> Endings:
    return tuple(tuple(ending.strip("-") for ending in case.split()) for case in text.split(","))


DER_WORD = _endings("er e es e, en e es e, em er em en, es er es er")
EIN_WORD = _endings("- e - e, en e - e, em er em en, es er es er")
NONE = _endings("- - - -, - - - -, - - - -, - - - -")
WEAK = _endings("e e e en, en e e en, en en en en, en en en en")
MIXED = _endings("er e es en, en e es en, en en en en, en en en en")
STRONG = _endings("er e es e, en e es e, em er em en, en er en er")


class Determiner(NamedTuple):
    """A determiner: German ``forms[case][gender]``, adjective endings, English singular and plural."""

    forms: Endings
    adjective: Endings
    english: tuple[Choice[str], Choice[str]]


def _determiner(stem: str, endings: Endings, adjective: Endings, one: str, many: str = "") -> Determiner:
    forms = tuple(tuple(stem + ending for ending in case) for case in endings)
    return Determiner(forms, adjective, (words(one), words(many or one)))


DER = _determiner("", _endings("der die das die, den die das die, dem der dem den, des der des der"), WEAK, "the")
DIESER = _determiner("dies", DER_WORD, WEAK, "this 7 | that 3", "these 7 | those 3")
JEDER = _determiner("jed", DER_WORD, WEAK, "every 6 | each 4")
EIN = _determiner("ein", EIN_WORD, MIXED, "a")
KEIN = _determiner("kein", EIN_WORD, MIXED, "no")
BARE = _determiner("", NONE, STRONG, "-")
ZWEI = _determiner("zwei", NONE, STRONG, "two")
DREI = _determiner("drei", NONE, STRONG, "three")
VIELE = _determiner("viel", DER_WORD, STRONG, "many 6 | a lot of~ 4")
EINIGE = _determiner("einig", DER_WORD, STRONG, "some 5 | several^ 3 | a few 3")
MEIN, DEIN, SEIN, UNSER, IHR_HER, IHR_THEIR, IHR_YOUR = (
    _determiner(german, EIN_WORD, MIXED, english)
    for german, english in zip(
        "mein dein sein unser ihr ihr ihr".split(), "my your his our her their your".split(), strict=True
    )
)

NAMES = ("anna", "peter", "maria", "thomas", "julia", "paul", "sofia", "jonas")


def _of_name(name: str) -> Determiner:
    return _determiner(name if name.endswith("s") else name + "s", NONE, STRONG, f"{name} 's")


OWNERS = Weighted(
    (MEIN, SEIN, IHR_HER, DEIN, UNSER, IHR_THEIR, IHR_YOUR, *map(_of_name, NAMES)),
    (5.0, 4.0, 3.0, 2.0, 2.0, 2.0, 1.0, *(1 / (rank + 2) for rank in range(len(NAMES)))),
)
QUANTITIES = Weighted((BARE, ZWEI, EINIGE, VIELE, DREI), (4.0, 2.0, 2.0, 2.0, 1.0))
