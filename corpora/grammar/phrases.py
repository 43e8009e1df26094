"""Noun phrases, pronouns and prepositional phrases."""

from typing import NamedTuple

from corpora.grammar import determiners as det
from corpora.grammar.choices import Choice, Draws, Translated, Voice, Weighted, words
from corpora.grammar.determiners import Determiner
from corpora.grammar.modifiers import Adjective, adjectives_of
from corpora.grammar.nouns import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE, PLURAL, Noun, nouns_of
from corpora.grammar.verbs import FIRST, SECOND, THEY, THIRD, WE


class Pronoun(NamedTuple):
    """A personal or relative pronoun, or a name: one word per case.

    ``person`` is the person and number of the verb it governs, in both languages. ``light`` pronouns move to the front
    in German and avoid the end in English. ``owns`` is the possessive that refers back to it.
    """

    forms: tuple[str, ...]
    one: Choice[str]
    other: Choice[str]
    person: int
    light: bool = True
    owns: Determiner | None = None

    def german(self, case: int) -> str:
        """The form of the case."""
        return self.forms[case]

    def english(self, voice: Voice, subject: bool = False) -> str:
        """The English pronoun."""
        return voice.say(self.one if subject else self.other)


def _pronoun(german: str, one: str, other: str, person: int, owns: Determiner | None = None) -> Pronoun:
    return Pronoun(tuple(german.split()), words(one), words(other), person, owns=owns)


I = _pronoun("ich mich mir", "i", "me", FIRST, det.MEIN)
YOU = _pronoun("du dich dir", "you", "you", SECOND, det.DEIN)
HE = _pronoun("er ihn ihm", "he", "him", THIRD, det.SEIN)
SHE = _pronoun("sie sie ihr", "she", "her", THIRD, det.IHR_HER)
US = _pronoun("wir uns uns", "we", "us", WE, det.UNSER)
THOSE = _pronoun("sie sie ihnen", "they", "them", THEY, det.IHR_THEIR)
SIR = _pronoun("sie sie ihnen", "you", "you", THEY, det.IHR_YOUR)
PERSONS = Weighted((I, HE, SHE, US, THOSE, YOU, SIR), (3.0, 3.0, 2.2, 1.6, 1.5, 1.2, 0.7))
_IT = (_pronoun(german, "it", "it", THIRD) for german in ("es es ihm", "er ihn ihm", "sie sie ihr"))
THINGS = Weighted((*_IT, _pronoun("sie sie ihnen", "they", "them", THEY)), (3.0, 2.0, 2.0, 2.0))
PEOPLE = Weighted.zipf(
    [Pronoun((name, name, name), words(name), words(name), THIRD, light=False) for name in det.NAMES]
)


class NounPhrase(NamedTuple):
    """A noun with its determiner, adjective, owner and relative clause."""

    noun: Noun
    plural: bool
    determiner: Determiner
    adjective: Adjective | None = None
    owner: "NounPhrase | None" = None
    relative: Translated | None = None

    @property
    def person(self) -> int:
        """Third person, singular or plural."""
        return THEY if self.plural else THIRD

    @property
    def light(self) -> bool:
        """False: a full phrase stays in its place."""
        return False

    @property
    def gender(self) -> int:
        """The column of an agreement table."""
        return PLURAL if self.plural else self.noun.gender

    @property
    def owns(self) -> Determiner | None:
        """``ihr`` or ``sein`` of a person, by number and grammatical gender; None for things."""
        if "p" not in self.noun.kinds:
            return None
        return det.IHR_THEIR if self.plural else (det.SEIN, det.IHR_HER, None)[self.noun.gender]

    def german(self, case: int) -> str:
        """The phrase in this case, with agreement of adjective and noun."""
        gender = self.gender
        forms = self.noun.forms[self.plural] or ()
        parts = [self.determiner.forms[case][gender]]
        if self.adjective:
            stem, ending = self.adjective.stem, self.determiner.adjective[case][gender]
            parts.append(stem + (ending[1:] if stem.endswith("e") else ending))
        parts.append(forms[case])
        if self.owner:
            parts.append(self.owner.german(GENITIVE))
        if self.relative:
            parts.append(f", {self.relative.german} ,")
        return " ".join(part for part in parts if part)

    def english(self, voice: Voice, subject: bool = False) -> str:
        """The phrase with one of its determiners and nouns."""
        return self._spell(voice, voice.say(self.determiner.english[self.plural]))

    def denied(self, voice: Voice) -> str:
        """The phrase after ``not``, for German ``kein``."""
        return self._spell(voice, "any" if self.plural or self.noun.forms[1] is None or voice.chance(0.2) else "a")

    def _spell(self, voice: Voice, determiner: str) -> str:
        name = voice.say(self.noun.english[self.plural])
        if self.adjective:
            name = f"{voice.say(self.adjective.english)} {name}"
        if self.owner:
            owner = self.owner.english(voice)
            if voice.chance(0.65):
                determiner = f"{owner} '" if owner.endswith("s") and self.owner.plural else f"{owner} 's"
            else:
                name = f"{name} of {owner}"
        if self.relative:
            name = f"{name} {self.relative.english(voice)}"
        return f"{determiner} {name}" if determiner else name


Nominal = Pronoun | NounPhrase
"""A subject or an object."""


def noun_phrase(draws: Draws, kinds: str, context: Nominal | None = None, plain: bool = False) -> NounPhrase:
    """A noun of these kinds; its possessive usually refers to ``context``."""
    noun = draws.pick(nouns_of(kinds))
    countable = noun.forms[1] is not None
    plural = countable and draws.chance(0.22)
    determiner = _determiner(draws, noun, plural, context)
    adjective = draws.pick(adjectives_of(noun.kinds)) if not plain and draws.chance(0.25) else None
    owner = None
    if determiner is det.DER and not plain and draws.chance(0.07):
        owner = NounPhrase(draws.pick(nouns_of("p")), draws.chance(0.25), det.DER)
    return NounPhrase(noun, plural, determiner, adjective, owner)


def _determiner(draws: Draws, noun: Noun, plural: bool, context: Nominal | None) -> Determiner:
    roll = draws.random()
    if roll < 0.48:
        return det.DER
    if roll < 0.64:
        if context and context.owns and draws.chance(0.75):
            return context.owns
        return draws.pick(det.OWNERS)
    if roll < 0.70:
        return det.DIESER
    if plural:
        return draws.pick(det.QUANTITIES)
    if noun.forms[1] is None:
        return det.BARE if noun.kinds in "df" else det.DER
    return det.JEDER if roll < 0.73 else det.EIN


def subject_of(draws: Draws, kinds: str) -> Nominal:
    """A subject of these kinds: pronoun, name or noun phrase."""
    if "p" in kinds:
        roll = draws.random()
        if roll < 0.45:
            return draws.pick(PERSONS)
        if roll < 0.53:
            return draws.pick(PEOPLE)
    return noun_phrase(draws, kinds)


def object_of(draws: Draws, kinds: str, context: Nominal, pronouns: float = 0.17) -> Nominal:
    """An object, a pronoun with probability ``pronouns``; never the first or second person of the subject."""
    if draws.chance(pronouns):
        pronoun = draws.pick(PERSONS if "p" in kinds else THINGS)
        if "p" not in kinds or pronoun.person in (THIRD, THEY) or pronoun.person != context.person:
            return pronoun
    if "p" in kinds and draws.chance(0.06):
        return draws.pick(PEOPLE)
    return noun_phrase(draws, kinds, context)


def deny(phrase: Nominal) -> Nominal:
    """The phrase with ``kein`` if it has an indefinite article or none; otherwise unchanged."""
    if isinstance(phrase, NounPhrase) and phrase.determiner in (det.EIN, det.BARE):
        return phrase._replace(determiner=det.KEIN)
    return phrase


def is_marked(phrase: Nominal) -> bool:
    """Whether nominative and accusative differ."""
    if isinstance(phrase, NounPhrase):
        forms = phrase.determiner.forms
        return forms[NOMINATIVE][phrase.gender] != forms[ACCUSATIVE][phrase.gender]
    return phrase.german(NOMINATIVE) != phrase.german(ACCUSATIVE)


CITIES = Weighted.zipf([("berlin", "berlin"), ("wien", "vienna"), ("münchen", "munich"), ("köln", "cologne")])
IN, TO = words("in"), words("to")
# By kind of noun: German preposition, English for a place, English for a direction.
PREPOSITIONS = {
    "i": ("in", words("in 8 | inside 2"), words("to 6 | into 5")),
    "k": ("auf", words("at 7 | in 4"), words("to")),
    "n": ("an", words("at 6 | by 5"), words("to")),
    "o": ("auf", words("on"), words("onto 6 | on 4")),
}
_FUSED = "in dem im, in das ins, an dem am, an das ans, zu dem zum, zu der zur, von dem vom"
FUSED = {pair: fused for pair, _, fused in (entry.rpartition(" ") for entry in _FUSED.split(", "))}


def fuse(preposition: str, phrase: str) -> str:
    """A preposition and a phrase; German contracts some prepositions with the article."""
    article, _, rest = phrase.partition(" ")
    fused = FUSED.get(f"{preposition} {article}")
    return f"{fused} {rest}" if fused else f"{preposition} {phrase}"


def place(draws: Draws, kinds: str, toward: bool, context: Nominal | None = None) -> Translated:
    """A place (dative) or a direction (accusative)."""
    if "i" in kinds and draws.chance(0.12):
        city, name = draws.pick(CITIES)
        to = TO if toward else IN
        return Translated(f"{'nach' if toward else 'in'} {city}", lambda voice: f"{voice.say(to)} {name}")
    phrase = noun_phrase(draws, kinds, context, plain=draws.chance(0.6))
    kind = next(kind for kind in phrase.noun.kinds if kind in kinds)
    german, where, whither = PREPOSITIONS[kind]
    english = whither if toward else where
    nearby = toward and kind in "in" and draws.chance(0.35)
    if nearby:
        german, english = "zu", TO

    def translate(voice: Voice) -> str:
        what = phrase.english(voice)
        return f"{voice.say(english)} {what}"

    return Translated(fuse(german, phrase.german(ACCUSATIVE if toward and not nearby else DATIVE)), translate)
