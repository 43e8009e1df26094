"""Adjectives; their translation depends on the kind of noun."""

from functools import cache
from typing import NamedTuple

from bleugrad.data.grammar.choices import Choice, Weighted, rows, words

# Word, stem before an ending, kinds of nouns it describes (see nouns).
TABLE = """
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


class Adjective(NamedTuple):
    """An adjective in one of its senses."""

    german: str
    stem: str
    kinds: str
    english: Choice[str]


ADJECTIVES = tuple(Adjective(german, stem, kinds, words(english)) for (german, stem, kinds), english in rows(TABLE))


@cache
def adjectives_of(kinds: str) -> Weighted[Adjective]:
    """The adjectives that describe a noun of these kinds."""
    return Weighted.zipf([each for each in ADJECTIVES if any(kind in each.kinds for kind in kinds)])
