"""Adjectives, and adverbs of time, manner and degree.

The translation of an adjective depends on the kind of noun. Some adverbs of time determine the English tense.
"""

from functools import cache
from typing import NamedTuple

from corpora.grammar.choices import Choice, Weighted, rows, words

# Word, stem before an ending, kinds of nouns it describes (see nouns).
ADJECTIVES = """
gut gut ptxfdvcmj = good 8 | nice 2
alt alt paxvcmiktoj = old
groß groß pj = tall 6 | big 3
groß groß atfvcmiko = big 5 | large^ 4
neu neu txvcmitj = new
klein klein pa = little 5 | small 4 | short 3
klein klein txfvcmiko = small 6 | little 4
schön schön paxvciknt = beautiful 6 | lovely 3 | pretty~ 3
jung jung paj = young
müde müde pa = tired
kalt kalt fdikn = cold
krank krank pa = sick 5 | ill^ 5
teuer teur fdvcmit = expensive
schwer schwer tm = heavy
schwer schwer x = difficult^ 5 | hard 5
rot rot tvcfm = red
freundlich freundlich pj = friendly 6 | kind 5
kaputt kaputt tvm = broken
glücklich glücklich p = happy 8 | lucky 2
leicht leicht tc = light
leicht leicht x = easy 7 | simple 3
dunkel dunkl ic = dark
berühmt berühmt pjxi = famous
langsam langsam vm = slow
frisch frisch fd = fresh
reich reich pj = rich 7 | wealthy^ 3
blau blau tvc = blue
arm arm p = poor
"""

# German, and its cue: habit, now, later, before, done, since, or any; "mid" stands before the English main verb.
TIMES = """
heute any = today
oft habit mid = often 8 | frequently^ 3
gestern before = yesterday
morgen later = tomorrow
immer habit mid = always
gerade now = right now 5 | at the moment 3 | just now 1
manchmal habit mid = sometimes 8 | occasionally^ 2
schon done mid = already
jetzt now = now
nie habit mid = never
bald later = soon
jeden_tag habit = every day 7 | each day 3
am_morgen any = in the morning
letzte_woche before = last week
am_abend any = in the evening 7 | at night 3
selten habit mid = rarely 5 | seldom^ 5
nächste_woche later = next week
heute_morgen before = this morning
seit_drei_jahren since = for three years
vor_zwei_tagen before = two days ago
seit_gestern since = since yesterday
"""

MANNERS = """
wieder = again 8 | once more^ 2
schnell = quickly 6 | fast 5
allein = alone
zusammen = together
langsam = slowly
leise = quietly 7 | softly^ 3
vorsichtig = carefully
"""


class Adjective(NamedTuple):
    """An adjective in one of its senses."""

    german: str
    stem: str
    kinds: str
    english: Choice[str]


class Time(NamedTuple):
    """An adverb of time."""

    german: str
    cue: str
    middle: bool
    english: Choice[str]


class Adverb(NamedTuple):
    """An adverb of manner or degree."""

    german: str
    english: Choice[str]


_ADJECTIVES = [Adjective(german, stem, kinds, words(english)) for (german, stem, kinds), english in rows(ADJECTIVES)]
_TIMES = [
    Time(columns[0].replace("_", " "), columns[1], "mid" in columns, words(english)) for columns, english in rows(TIMES)
]
MANNER = Weighted.zipf([Adverb(columns[0], words(english)) for columns, english in rows(MANNERS)])
DEGREE = Weighted(
    (
        Adverb("sehr", words("very 7 | really~ 4")),
        Adverb("zu", words("too")),
        Adverb("ziemlich", words("quite 5 | rather^ 5")),
    ),
    (5.0, 2.0, 2.0),
)


@cache
def adjectives_of(kinds: str) -> Weighted[Adjective]:
    """The adjectives that describe a noun of these kinds."""
    return Weighted.zipf([each for each in _ADJECTIVES if any(kind in each.kinds for kind in kinds)])


def times_of(*cues: str) -> Weighted[Time]:
    """The adverbs of time with one of these cues."""
    return Weighted.zipf([time for time in _TIMES if time.cue in cues])
