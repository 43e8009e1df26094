"""Clauses: the same content in the word order of each language."""

from typing import NamedTuple

from corpora.grammar import tenses
from corpora.grammar.choices import Translated, Voice
from corpora.grammar.determiners import KEIN
from corpora.grammar.modifiers import Adjective, Adverb, Time
from corpora.grammar.nouns import ACCUSATIVE, DATIVE, NOMINATIVE, Noun
from corpora.grammar.phrases import Nominal, NounPhrase, fuse
from corpora.grammar.verbs import EnglishVerb, Verb
from corpora.grammar.word_order import Field, ask, line, with_time

CASES = {"a": ACCUSATIVE, "d": DATIVE}


def _object(voice: Voice, phrase: Nominal, denied: bool) -> str:
    return phrase.denied(voice) if denied and isinstance(phrase, NounPhrase) else phrase.english(voice)


class Clause(NamedTuple):
    """An active clause with a full verb."""

    subject: Nominal
    verb: Verb
    tense: tenses.Tense
    time: Time | None = None
    manner: Adverb | None = None
    negative: bool = False
    gladly: bool = False
    direct: Nominal | None = None
    indirect: Nominal | None = None
    place: Translated | None = None

    def field(self) -> Field:
        """Pronouns before adverbs before nouns; ``nicht`` before manner and place."""
        forms = tenses.bracket(self.verb, self.subject.person, self.tense)
        return Field(self.subject.german(NOMINATIVE), self._middle(), forms)

    def infinitive(self) -> str:
        """The clause as an infinitive with ``zu``."""
        verb = self.verb
        ending = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
        return line(*self._middle().values(), ending)

    def _middle(self) -> dict[str, str]:
        middle: dict[str, str] = {}
        direct, indirect = self.direct, self.indirect
        preposition, _, case = self.verb.frame.partition("+")
        if direct and direct.light and not case:
            middle["direct"] = direct.german(ACCUSATIVE)
        if indirect and indirect.light:
            middle["indirect"] = indirect.german(DATIVE)
        if self.time:
            middle["time"] = self.time.german
        if indirect and not indirect.light:
            middle["indirect"] = indirect.german(DATIVE)
        if direct and not direct.light and not case:
            middle["direct"] = direct.german(ACCUSATIVE)
        if self.negative and not self.denies():
            middle["not"] = "nicht"
        if self.manner or self.gladly:
            middle["manner"] = self.manner.german if self.manner else "gern"
        if direct and case:
            middle["governed"] = fuse(preposition, direct.german(CASES[case]))
        if self.place:
            middle["place"] = self.place.german
        return middle

    def denies(self) -> bool:
        """Whether German negates the object with ``kein``."""
        return isinstance(self.direct, NounPhrase) and self.direct.determiner is KEIN

    def statement(self, voice: Voice, fronted: float = 0.08) -> str:
        """Subject, verb, objects, manner, place, time."""
        subject, auxiliary, rest, negative = self._english(voice, False)
        if auxiliary and negative:
            auxiliary = tenses.negation(voice, auxiliary)
        return with_time(voice, self.time, line(subject, auxiliary, rest), fronted)

    def question(self, voice: Voice) -> str:
        """The auxiliary before the subject."""
        subject, auxiliary, rest, negative = self._english(voice, True)
        return with_time(voice, self.time, ask(auxiliary, negative, subject, rest, voice), 0.0)

    def command(self, voice: Voice) -> str:
        """The infinitive with objects, manner, place and time."""
        english = voice.say(self.verb.english)
        return with_time(voice, self.time, self._complete(voice, english, english.base, False), 0.0)

    def _english(self, voice: Voice, question: bool) -> tuple[str, str, str, bool]:
        """Subject, auxiliary, the rest, and whether ``not`` is still missing."""
        english = voice.say(self.verb.english)
        swapped = self.indirect if self.verb.frame == "swap" else None
        subject = swapped or self.subject
        negative = self.negative
        denied = self.denies() and negative
        if denied and voice.chance(0.3):
            negative = denied = False
        forms = self._group(voice, english, subject.person, negative, question)
        rest = self._complete(voice, english, forms.rest, denied)
        if self.time and self.time.middle:
            rest = f"{voice.say(self.time.english)} {rest}"
        return subject.english(voice, True), forms.auxiliary, rest, negative

    def _group(self, voice: Voice, english: EnglishVerb, person: int, negative: bool, question: bool) -> tenses.Group:
        if self.gladly:
            return tenses.gladly(voice, english, person, negative or question)
        cue = self.time.cue if self.time else ""
        return tenses.group(voice, self.verb, english, person, self.tense, cue, negative, negative or question)

    def _complete(self, voice: Voice, english: EnglishVerb, verb: str, denied: bool) -> str:
        """The verb with its objects, manner and place."""
        parts = [verb, *self._objects(voice, english, denied)]
        if self.manner:
            parts.append(voice.say(self.manner.english))
        if self.place:
            parts.append(self.place.english(voice))
        return line(*parts)

    def _objects(self, voice: Voice, english: EnglishVerb, denied: bool) -> list[str]:
        if self.verb.frame == "both":
            return self._two_objects(voice, denied)
        patient = {"dat": self.indirect, "swap": self.subject}.get(self.verb.frame, self.direct)
        if patient is None:
            return [english.tail]
        name = _object(voice, patient, denied)
        if english.separable and (patient.light or voice.chance(0.35)):
            return [name, english.tail]
        return [english.tail, name]

    def _two_objects(self, voice: Voice, denied: bool) -> list[str]:
        """Give him a book, or give a book to him."""
        direct = _object(voice, self.direct, denied) if self.direct else ""
        if self.indirect is None:
            return [direct]
        indirect = self.indirect.english(voice)
        if self.direct is None or self.direct.light or voice.chance(0.15 if self.indirect.light else 0.45):
            return [direct, "to", indirect]
        return [indirect, direct]


class PassiveClause(NamedTuple):
    """A passive clause with or without an agent; English may use the active voice."""

    active: Clause
    patient: Nominal
    agent: Nominal | None
    past: bool

    def field(self) -> Field:
        """The patient as subject, the agent after ``von``."""
        active = self.active
        middle = {"time": active.time.german} if active.time else {}
        if active.negative:
            middle["not"] = "nicht"
        if self.agent:
            middle["agent"] = fuse("von", self.agent.german(DATIVE))
        tense = tenses.PAST_PASSIVE if self.past else tenses.PASSIVE
        forms = tenses.bracket(active.verb, self.patient.person, tense)
        return Field(self.patient.german(NOMINATIVE), middle, forms)

    def statement(self, voice: Voice, fronted: float = 0.08) -> str:
        """Passive, or sometimes active if there is an agent."""
        if self.agent and voice.chance(0.25):
            return self.active.statement(voice, fronted)
        auxiliary, rest = self._english(voice)
        auxiliary = tenses.negation(voice, auxiliary) if self.active.negative else auxiliary
        return with_time(voice, self.active.time, line(self.patient.english(voice, True), auxiliary, rest), fronted)

    def question(self, voice: Voice) -> str:
        """The auxiliary before the subject."""
        auxiliary, rest = self._english(voice)
        clause = ask(auxiliary, self.active.negative, self.patient.english(voice, True), rest, voice)
        return with_time(voice, self.active.time, clause, 0.0)

    def _english(self, voice: Voice) -> tenses.Group:
        time = self.active.time
        verb = voice.say(self.active.verb.english)
        cue = time.cue if time else ""
        auxiliary, rest = tenses.passive_group(voice, verb, self.patient.person, self.past, cue)
        if time and time.middle:
            rest = f"{voice.say(time.english)} {rest}"
        agent = f"by {self.agent.english(voice)}" if self.agent else ""
        return tenses.Group(auxiliary, line(rest, verb.tail, agent))


class Copula(NamedTuple):
    """A clause with ``sein``. A profession takes an article in English only."""

    subject: Nominal
    past: bool
    negative: bool
    time: Time | None
    degree: Adverb | None
    adjective: Adjective | None
    job: Noun | None

    def field(self) -> Field:
        """The predicate closes the middle field."""
        middle = {"time": self.time.german} if self.time else {}
        if self.adjective:
            degree = self.degree.german if self.degree else ""
            middle["predicate"] = line("nicht" if self.negative else "", degree, self.adjective.german)
        elif self.job:
            forms = self.job.forms[self.subject.person > 2] or self.job.forms[0]
            middle["predicate"] = line("kein" if self.negative else "", forms[NOMINATIVE])
        finite = (tenses.WAR if self.past else tenses.SEIN)[self.subject.person]
        return Field(self.subject.german(NOMINATIVE), middle, tenses.Bracket(finite, "", ""))

    def statement(self, voice: Voice, fronted: float = 0.08) -> str:
        """Subject, ``be``, predicate."""
        auxiliary = tenses.be(self.subject.person, self.past)
        auxiliary = tenses.negation(voice, auxiliary) if self.negative else auxiliary
        clause = line(self.subject.english(voice, True), auxiliary, self._predicate(voice))
        return with_time(voice, self.time, clause, fronted)

    def question(self, voice: Voice) -> str:
        """``be`` before the subject."""
        auxiliary = tenses.be(self.subject.person, self.past)
        clause = ask(auxiliary, self.negative, self.subject.english(voice, True), self._predicate(voice), voice)
        return with_time(voice, self.time, clause, 0.0)

    def _predicate(self, voice: Voice) -> str:
        often = voice.say(self.time.english) if self.time and self.time.middle else ""
        if self.adjective:
            return line(often, voice.say(self.degree.english) if self.degree else "", voice.say(self.adjective.english))
        plural = self.subject.person > 2
        name = voice.say(self.job.english[plural]) if self.job else ""
        return line(often, "" if plural else "a", name)


Predication = Clause | PassiveClause | Copula
