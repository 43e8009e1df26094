"""Word order: the places of the verb, its auxiliary and the adverb of time."""

from typing import NamedTuple

from corpora.grammar.choices import Voice
from corpora.grammar.modifiers import Time
from corpora.grammar.tenses import Bracket, negation


class Field(NamedTuple):
    """The parts of a German clause: subject, named middle field, verb bracket."""

    subject: str
    middle: dict[str, str]
    bracket: Bracket

    def verb_second(self, front: str = "") -> str:
        """Main clause; ``front`` names a part of the middle field that comes first."""
        finite, prefix, closing = self.bracket
        if not front:
            return line(self.subject, finite, *self.middle.values(), closing, prefix)
        rest = [part for name, part in self.middle.items() if name != front]
        return line(self.middle[front], finite, self.subject, *rest, closing, prefix)

    def verb_first(self) -> str:
        """Question or command; also after a question word or a fronted clause."""
        finite, prefix, closing = self.bracket
        return line(finite, self.subject, *self.middle.values(), closing, prefix)

    def verb_last(self) -> str:
        """Subordinate clause; the prefix is joined to its verb."""
        finite, prefix, closing = self.bracket
        return line(self.subject, *self.middle.values(), closing, prefix + finite)


def line(*parts: str) -> str:
    """The parts that are not empty, separated by spaces."""
    return " ".join(part for part in parts if part)


def ask(auxiliary: str, negative: bool, subject: str, rest: str, voice: Voice) -> str:
    """English question; ``not`` follows the subject unless contracted."""
    if not negative:
        return line(auxiliary, subject, rest)
    denied = negation(voice, auxiliary)
    return line(denied, subject, rest) if denied.endswith("n't") else line(auxiliary, subject, "not", rest)


def with_time(voice: Voice, time: Time | None, clause: str, fronted: float) -> str:
    """The English clause with its adverb of time, which comes first with probability ``fronted``."""
    if time is None or time.middle:
        return clause
    adverb = voice.say(time.english)
    if voice.chance(fronted):
        return f"{adverb} , {clause}" if voice.chance(0.7) else f"{adverb} {clause}"
    return f"{clause} {adverb}"
