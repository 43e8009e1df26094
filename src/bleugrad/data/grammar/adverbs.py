"""Adverbs of time and manner; some determine the English tense."""

from typing import NamedTuple

from bleugrad.data.grammar.choices import Choice, Weighted, rows, words

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


class Time(NamedTuple):
    """An adverb of time."""

    german: str
    cue: str
    middle: bool
    english: Choice[str]


class Manner(NamedTuple):
    """An adverb of manner."""

    german: str
    english: Choice[str]


_TIMES = tuple(
    Time(columns[0].replace("_", " "), columns[1], "mid" in columns, words(english)) for columns, english in rows(TIMES)
)
MANNER = Weighted.zipf([Manner(columns[0], words(english)) for columns, english in rows(MANNERS)])


def times_of(*cues: str) -> Weighted[Time]:
    """The adverbs of time with one of these cues."""
    return Weighted.zipf([time for time in _TIMES if time.cue in cues])
