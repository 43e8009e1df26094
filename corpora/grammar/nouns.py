"""Nouns: inflection, English translations, and the kinds of things they name.

A kind is a letter: p person, a animal, t small thing, x something to read, f food, d drink, v vehicle, c clothing,
m something to open or set, j job; places by their preposition: i ``in``, k ``auf`` (at), n ``an``, o ``auf`` (on).
Nouns with the same spelling and different kinds are ambiguous; only the context may tell them apart.
"""

from functools import cache
from typing import NamedTuple

from corpora.grammar.choices import Choice, Weighted, read_choice, rows

MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
VOWELS = "aeiouyäöü"

# Lemma, gender, plural, kinds; then the oblique singular of weak nouns or an irregular genitive. Most frequent first.
TABLE = """
mann m männer p = man/men 9 | guy~ 3
frau f frauen p = woman/women 8 | lady/ladies^ 3
kind n kinder p = child/children 8 | kid~ 4
freund m freunde p = friend 8 | boyfriend 3
buch n bücher x = book
haus n häuser i = house 8 | home 3
auto n autos v = car
hund m hunde a = dog
lehrer m lehrer pj = teacher
stadt f städte i = city/cities 5 | town 5
brief m briefe x = letter
bank f bänke o = bench/benches
bank f banken i = bank
schule f schulen i = school
arzt m ärzte pj = doctor 8 | physician^ 3
schloss n schlösser i = castle 8 | palace^ 3
schloss n schlösser m = lock
tür f türen m = door
student m studenten pj studenten = student
kaffee m - d kaffees = coffee
katze f katzen a = cat
apfel m äpfel f = apple
garten m gärten i = garden 7 | yard 3
zug m züge v = train
brot n - f = bread
schwester f schwestern p = sister
nachbar m nachbarn p nachbarn = neighbor
karte f karten x = map 4 | card 4 | ticket 3
fenster n fenster m = window
bruder m brüder p = brother
wasser n - d = water
küche f küchen i = kitchen
junge m jungen p jungen = boy
mädchen n mädchen p = girl
leiter m leiter pj = leader 4 | director^ 4 | head 3
leiter f leitern t = ladder
park m parks i parks = park
mutter f mütter p = mother 7 | mom~ 3
chef m chefs pj chefs = boss/bosses 7 | manager^ 4
tasche f taschen t = bag 7 | pocket 3
uhr f uhren t = watch/watches 5 | clock 5
see m seen n sees = lake
see f - n = sea
bahnhof m bahnhöfe n = station
jacke f jacken c = jacket
zeitung f zeitungen x = newspaper 6 | paper 4
mantel m mäntel c = coat
kuchen m kuchen f = cake
milch f - d = milk
fahrrad n fahrräder v = bicycle^ 4 | bike 7
markt m märkte k = market
schlüssel m schlüssel t = key
gericht n gerichte f = dish/dishes 6 | meal 4
gericht n gerichte i = court
stuhl m stühle o = chair
kirche f kirchen i = church/churches
tochter f töchter p = daughter
sohn m söhne p = son
geschichte f geschichten x = story/stories
vogel m vögel a = bird
hut m hüte c = hat
wald m wälder i = forest
schlange f schlangen a = snake
schlange f schlangen i = queue 5 | line 5
bus m busse v busses = bus/buses
birne f birnen f = pear
birne f birnen t = bulb 6 | light bulb 4
strand m strände n = beach/beaches
maschine f maschinen m = machine
gast m gäste p = guest
tee m - d tees = tea
hahn m hähne a = rooster
hahn m hähne m = tap 6 | faucet 4
tisch m tische o = table
schiff n schiffe v = ship
"""


class Noun(NamedTuple):
    """A noun in one of its senses; ``forms[plural][case]`` is its German inflection."""

    gender: int
    kinds: str
    forms: tuple[tuple[str, ...], tuple[str, ...] | None]
    english: tuple[Choice[str], Choice[str]]


def _syllables(word: str) -> int:
    return sum(here in VOWELS and before not in VOWELS for before, here in zip(" " + word, word, strict=False))


def _singular(lemma: str, gender: int, oblique: str) -> tuple[str, ...]:
    if gender == FEMININE:
        return (lemma,) * 4
    if oblique.endswith("n"):
        return (lemma, oblique, oblique, oblique)
    return (lemma, lemma, lemma, oblique or lemma + ("es" if _syllables(lemma) == 1 else "s"))


def _plural(nominative: str) -> tuple[str, ...]:
    dative = nominative if nominative[-1] in "ns" else nominative + "n"
    return (nominative, nominative, dative, nominative)


def _read() -> list[Noun]:
    nouns = []
    for columns, english in rows(TABLE):
        lemma, letter, plural, kinds = columns[:4]
        gender = "mfn".index(letter)
        singular = _singular(lemma, gender, columns[4] if len(columns) > 4 else "")
        names = (
            read_choice(english, lambda name: name.partition("/")[0]),
            read_choice(english, lambda name: name.partition("/")[2] or name + "s"),
        )
        nouns.append(Noun(gender, kinds, (singular, None if plural == "-" else _plural(plural)), names))
    return nouns


NOUNS = tuple(_read())


@cache
def nouns_of(kinds: str) -> Weighted[Noun]:
    """The nouns of any of these kinds."""
    return Weighted.zipf([noun for noun in NOUNS if any(kind in kinds for kind in noun.kinds)])
