"""Clauses with ``sein`` and an adjective or a profession."""

from typing import NamedTuple

from bleugrad.data.grammar.adjectives import Adjective
from bleugrad.data.grammar.adverbs import Time
from bleugrad.data.grammar.choices import Choice, Voice, words
from bleugrad.data.grammar.nouns import NOMINATIVE, Noun
from bleugrad.data.grammar.phrases import Nominal
from bleugrad.data.grammar.tenses import SEIN, WAR, Bracket, be, negation
from bleugrad.data.grammar.word_order import Field, ask, line, with_time


class Degree(NamedTuple):
    """An adverb before an adjective."""

    german: str
    english: Choice[str]


class Copula(NamedTuple):
    """A clause with ``sein``. A profession takes an article in English only."""

    subject: Nominal
    past: bool
    negative: bool
    time: Time | None
    degree: Degree | None
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
        return Field(
            self.subject.german(NOMINATIVE), middle, Bracket((WAR if self.past else SEIN)[self.subject.person], "", "")
        )

    def statement(self, voice: Voice, fronted: float = 0.08) -> str:
        """Subject, ``be``, predicate."""
        auxiliary = be(self.subject.person, self.past)
        auxiliary = negation(voice, auxiliary) if self.negative else auxiliary
        clause = line(self.subject.english(voice, True), auxiliary, self._predicate(voice))
        return with_time(voice, self.time, clause, fronted)

    def question(self, voice: Voice) -> str:
        """``be`` before the subject."""
        auxiliary = be(self.subject.person, self.past)
        clause = ask(auxiliary, self.negative, self.subject.english(voice, True), self._predicate(voice), voice)
        return with_time(voice, self.time, clause, 0.0)

    def _predicate(self, voice: Voice) -> str:
        often = voice.say(self.time.english) if self.time and self.time.middle else ""
        if self.adjective:
            return line(often, voice.say(self.degree.english) if self.degree else "", voice.say(self.adjective.english))
        plural = self.subject.person > 2
        name = voice.say(self.job.english[plural]) if self.job else ""
        return line(often, "" if plural else "a", name)


DEGREES = (
    Degree("sehr", words("very 7 | really~ 4")),
    Degree("zu", words("too")),
    Degree("ziemlich", words("quite 5 | rather^ 5")),
)
