"""Verbs: German inflection, objects, and English translations.

Frames: ``none`` no object, ``acc`` and ``dat`` one object, ``both`` dative and accusative, ``swap`` a dative that is
the subject in English, ``place`` a place, ``toward`` a direction, or a preposition and its case (``auf+a``, ``mit+d``).
Verbs with the same spelling and different objects are ambiguous until their object is known.
"""

from functools import cache
from typing import NamedTuple

from corpora.grammar.choices import Choice, Weighted, read_choice, rows

FIRST, SECOND, THIRD, WE, THEY = range(5)
DOUBLING = ("get", "shut", "sit")

# Prefix-verb, third person, participle, auxiliary, frame, kinds of the subject, kinds of the object, then flags:
# s for a state (no progressive), l for a lasting action (goes with "since"). Most frequent first.
TABLE = """
sehen sieht gesehen haben acc pa paxtvcmikfno s = see/saw/seen
gehen geht gegangen sein toward p ikn = go/went/gone 7 | walk 3
kaufen kauft gekauft haben acc p txfdvcma = buy/bought/bought 8 | purchase^ 3
lesen liest gelesen haben acc p x = read/read/read
arbeiten arbeitet gearbeitet haben place p ikn l = work
essen isst gegessen haben acc pa f = eat/ate/eaten 8 | have/had/had 2
wohnen wohnt gewohnt haben place p in ls = live
suchen sucht gesucht haben acc p paxtvcmio l = look for 8 | search for^ 3
schlafen schläft geschlafen haben none pa - l = sleep/slept/slept
trinken trinkt getrunken haben acc p d = drink/drank/drunk 8 | have/had/had 2
gefallen gefällt gefallen haben swap xtvcimka p s = like
an-rufen ruft angerufen haben acc p p = call 6 | phone 3
helfen hilft geholfen haben dat p p = help 8 | assist^ 2
brauchen braucht gebraucht haben acc p ptxvcmfd s = need
geben gibt gegeben haben both p txfdc = give/gave/given 8 | hand 2
warten wartet gewartet haben auf+a p pvx l = wait for
kennen kennt gekannt haben acc p pxik ls = know/knew/known
finden findet gefunden haben acc pa atxcfmio s = find/found/found
schreiben schreibt geschrieben haben acc p x = write/wrote/written
ab-holen holt abgeholt haben acc p pxt = pick +up 7 | collect^ 3
öffnen öffnet geöffnet haben acc p m = open
fahren fährt gefahren sein toward p ikn = drive/drove/driven 6 | go/went/gone 4
lieben liebt geliebt haben acc p paxfd s = love
sprechen spricht gesprochen haben mit+d p p = talk to 5 | speak/spoke/spoken to 3 | speak/spoke/spoken with^ 3
verstehen versteht verstanden haben acc p px s = understand/understood/understood
treffen trifft getroffen haben acc p p = meet/met/met
auf-stehen steht aufgestanden sein none p - = get/got/got up
verkaufen verkauft verkauft haben acc p xfvcmta = sell/sold/sold
besuchen besucht besucht haben acc p pin = visit
tragen trägt getragen haben acc p c = wear/wore/worn
tragen trägt getragen haben acc p tfx = carry
schließen schließt geschlossen haben acc p m = close 6 | shut/shut/shut 4
reparieren repariert repariert haben acc p vmt = repair^ 5 | fix 6
an-kommen kommt angekommen sein none pv - = arrive
mit-bringen bringt mitgebracht haben acc p fdtxa = bring/brought/brought 7 | bring/brought/brought along 3
sitzen sitzt gesessen haben place pa on l = sit/sat/sat
denken denkt gedacht haben an+a p pxvikn = think/thought/thought about 6 | think/thought/thought of 4
kochen kocht gekocht haben acc p f = cook
kochen kocht gekocht haben acc p d = make/made/made
ein-laden lädt eingeladen haben acc p p = invite
ein-stellen stellt eingestellt haben acc p pj = hire 7 | employ^ 4
ein-stellen stellt eingestellt haben acc p m = adjust
auf-heben hebt aufgehoben haben acc p xct = pick +up 5 | keep/kept/kept 5
ein-schlafen schläft eingeschlafen sein none pa - = fall/fell/fallen asleep
gehören gehört gehört haben dat txvcma p s = belong to
aus-ziehen zieht ausgezogen sein none p - = move out
fehlen fehlt gefehlt haben swap pa p s = miss
an-schauen schaut angeschaut haben acc p paxvcimo = look at 7 | watch 3
"""


class EnglishVerb(NamedTuple):
    """Principal parts and a particle or preposition; a separable particle may follow the object."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str
    tail: str
    separable: bool


class Verb(NamedTuple):
    """A German verb in one of its senses; ``present`` by person."""

    prefix: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    auxiliary: str
    frame: str
    subjects: str
    objects: str
    state: bool
    lasting: bool
    english: Choice[EnglishVerb]


def read_english(text: str) -> EnglishVerb:
    """Read ``get/got/got up`` or ``pick +up``; a regular verb is its base form."""
    head, _, tail = text.partition(" ")
    base, *parts = head.split("/")
    stem = base + base[-1] if base in DOUBLING else base
    silent = base.endswith("e") and not base.endswith("ee")
    sibilant = base.endswith(("s", "sh", "ch", "x", "z", "go"))
    consonant_y = base.endswith("y") and base[-2] not in "aeiou"
    third = base[:-1] + "ies" if consonant_y else base + ("es" if sibilant else "s")
    regular = base[:-1] + "ied" if consonant_y else stem + ("d" if silent else "ed")
    past, participle = parts or (regular, regular)
    gerund = (base[:-1] if silent else stem) + "ing"
    third = "has" if base == "have" else third
    return EnglishVerb(base, third, past, participle, gerund, tail.lstrip("+"), tail.startswith("+"))


def _present(infinitive: str, third: str) -> tuple[str, ...]:
    stem = third[:-1]
    second = third if stem[-1] in "sßz" else stem + "st"
    return (infinitive[:-1], second, third, infinitive, infinitive)


def _read() -> list[Verb]:
    verbs = []
    for columns, english in rows(TABLE):
        lemma, third, participle, auxiliary, frame, subjects, objects = columns[:7]
        prefix, _, infinitive = lemma.rpartition("-")
        flags = columns[7] if len(columns) > 7 else ""
        present = _present(infinitive, third)
        forms = (prefix, infinitive, present, participle, auxiliary, frame, subjects, objects)
        verbs.append(Verb(*forms, "s" in flags, "l" in flags, read_choice(english, read_english)))
    return verbs


VERBS = Weighted.zipf(_read())


@cache
def verbs_with(frame: str, subjects: str = "", objects: str = "") -> Weighted[Verb]:
    """The verbs of a frame that fit a subject and an object; "" fits all."""
    fit = [
        verb
        for verb in VERBS.options
        if verb.frame == frame
        and (not subjects or any(kind in verb.subjects for kind in subjects))
        and (not objects or any(kind in verb.objects for kind in objects))
    ]
    return Weighted.zipf(fit)
