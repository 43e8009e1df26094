"""Tense: the German verb forms and their English translations."""

from typing import NamedTuple

from corpora.grammar.choices import Choice, Voice, Weighted, read_choice, words
from corpora.grammar.verbs import FIRST, THIRD, EnglishVerb, Verb, read_english

HABEN = ("habe", "hast", "hat", "haben", "haben")
SEIN = ("bin", "bist", "ist", "sind", "sind")
WAR = ("war", "warst", "war", "waren", "waren")
WERDEN = ("werde", "wirst", "wird", "werden", "werden")
WURDE = ("wurde", "wurdest", "wurde", "wurden", "wurden")

_CONTRACTED = "aren't couldn't didn't don't doesn't hasn't haven't isn't shouldn't wasn't weren't wouldn't"
CONTRACTIONS = {word[:-3]: word for word in _CONTRACTED.split()} | {"can": "can't", "will": "won't"}


class Expression(NamedTuple):
    """English for a modal: an auxiliary, ``be`` with words after it, or a full verb."""

    auxiliary: str
    verb: EnglishVerb | None
    tail: str


class Modal(NamedTuple):
    """A German modal verb in one tense, with its English forms in affirmed and in negated clauses."""

    forms: tuple[str, ...]
    past: bool
    affirmed: Choice[Expression]
    negated: Choice[Expression]


class Bracket(NamedTuple):
    """The German verb bracket: the finite form, and the words that close the clause."""

    finite: str
    prefix: str
    closing: str


class Group(NamedTuple):
    """The English verb: an auxiliary, which may be empty, and the rest."""

    auxiliary: str
    rest: str


def _expression(text: str) -> Expression:
    head, _, tail = text.partition(" ")
    if head == "be":
        return Expression("be", None, tail)
    if tail:
        return Expression("", read_english(head), tail)
    return Expression(head, None, "")


def _modal(forms: str, past: bool, affirmed: str, negated: str = "") -> Modal:
    one, two, three, many = forms.split()
    choices = (read_choice(text, _expression) for text in (affirmed, negated or affirmed))
    return Modal((one, two, three, many, many), past, *choices)


MODALS = Weighted(
    (
        _modal("kann kannst kann können", False, "can 7 | be able to^ 3"),
        _modal("muss musst muss müssen", False, "must^ 4 | have/had/had to 6", "have/had/had to 7 | need to 3"),
        _modal("will willst will wollen", False, "want to 9 | be going to 1"),
        _modal("möchte möchtest möchte möchten", False, "would_like_to 8 | want to 3"),
        _modal("soll sollst soll sollen", False, "should 6 | be supposed to 4"),
        _modal("darf darfst darf dürfen", False, "may^ 4 | be allowed to 5 | can 2", "must 3 | be allowed to 6"),
    ),
    (6.0, 4.0, 3.0, 2.5, 2.0, 1.5),
)
PAST_MODALS = Weighted(
    (
        _modal("konnte konntest konnte konnten", True, "could 7 | be able to^ 4"),
        _modal("musste musstest musste mussten", True, "have/had/had to"),
        _modal("wollte wolltest wollte wollten", True, "want to"),
        _modal("durfte durftest durfte durften", True, "be allowed to"),
    ),
    (4.0, 3.0, 3.0, 1.0),
)

PRESENT, PERFECT, FUTURE, PASSIVE, PAST_PASSIVE = "present", "perfect", "future", "passive", "past passive"
Tense = str | Modal

GLADLY = words("to 4 | like_ing 3 | enjoy_ing 3")
UNMARKED = words("simple 55 | progressive 45")
LATER = words("will 5 | going 3 | progressive 2")
FUTURES = words("will 6 | going 4")
UNMARKED_PAST = words("past 65 | perfect 35")
SINCE = words("perfect 5 | perfect progressive 5")
BEING = words("being 5 | simple 5")


def bracket(verb: Verb, person: int, tense: Tense) -> Bracket:
    """The German verb forms of a clause."""
    if tense == PRESENT:
        return Bracket(verb.present[person], verb.prefix, "")
    if isinstance(tense, Modal):
        return Bracket(tense.forms[person], "", verb.prefix + verb.infinitive)
    if tense == PERFECT:
        return Bracket((HABEN if verb.auxiliary == "haben" else SEIN)[person], "", verb.participle)
    if tense == FUTURE:
        return Bracket(WERDEN[person], "", verb.prefix + verb.infinitive)
    return Bracket((WERDEN if tense == PASSIVE else WURDE)[person], "", verb.participle)


def be(person: int, past: bool) -> str:
    """The form of ``be``."""
    if past:
        return "was" if person in (FIRST, THIRD) else "were"
    return "am" if person == FIRST else "is" if person == THIRD else "are"


def finite(verb: EnglishVerb, person: int, past: bool, support: bool) -> Group:
    """A verb without auxiliary, or with ``do`` (``support``) in questions and before ``not``."""
    if past:
        return Group("did", verb.base) if support else Group("", verb.past)
    if support:
        return Group("does" if person == THIRD else "do", verb.base)
    return Group("", verb.third if person == THIRD else verb.base)


def _aspect(voice: Voice, verb: Verb, tense: Tense, cue: str) -> str:
    """The English tense for a German tense and the cue of its adverb."""
    if tense == FUTURE:
        return voice.say(FUTURES)
    if tense == PERFECT:
        return {"before": "past", "done": "perfect"}.get(cue) or voice.say(UNMARKED_PAST)
    if cue == "since":
        return "perfect" if verb.state else voice.say(SINCE)
    if cue == "later":
        return "will" if verb.state else voice.say(LATER)
    if verb.state or cue == "habit":
        return "simple"
    return "progressive" if cue == "now" else voice.say(UNMARKED)


def group(
    voice: Voice, verb: Verb, english: EnglishVerb, person: int, tense: Tense, cue: str, negative: bool, support: bool
) -> Group:
    """The English verb forms of an active clause."""
    if isinstance(tense, Modal):
        return _modal_group(voice, english, person, tense, negative, support)
    aspect = _aspect(voice, verb, tense, cue)
    if aspect == "progressive":
        return Group(be(person, False), english.gerund)
    if aspect == "will":
        return Group("will", english.base)
    if aspect == "going":
        return Group(be(person, False), f"going to {english.base}")
    if aspect.startswith("perfect"):
        rest = f"been {english.gerund}" if aspect == "perfect progressive" else english.participle
        return Group("has" if person == THIRD else "have", rest)
    return finite(english, person, aspect == "past", support)


def _modal_group(voice: Voice, english: EnglishVerb, person: int, modal: Modal, negative: bool, support: bool) -> Group:
    expression = voice.say(modal.negated if negative else modal.affirmed)
    if expression.auxiliary == "would_like_to":
        return Group("would", f"like to {english.base}")
    if expression.auxiliary == "be":
        return Group(be(person, modal.past), f"{expression.tail} {english.base}")
    if expression.verb:
        auxiliary, rest = finite(expression.verb, person, modal.past, support)
        return Group(auxiliary, f"{rest} {expression.tail} {english.base}")
    return Group(expression.auxiliary, english.base)


LIKE, ENJOY = read_english("like"), read_english("enjoy")


def gladly(voice: Voice, english: EnglishVerb, person: int, support: bool) -> Group:
    """The verb forms for German ``gern``: likes to read, likes reading, enjoys reading."""
    manner = voice.say(GLADLY)
    auxiliary, rest = finite(ENJOY if manner == "enjoy_ing" else LIKE, person, False, support)
    return Group(auxiliary, f"{rest} to {english.base}" if manner == "to" else f"{rest} {english.gerund}")


def passive_group(voice: Voice, english: EnglishVerb, person: int, past: bool, cue: str) -> Group:
    """The English verb forms of a passive clause."""
    if past:
        return Group(be(person, True), english.participle)
    if cue == "later":
        return Group("will", f"be {english.participle}")
    if cue == "since":
        return Group("has" if person == THIRD else "have", f"been {english.participle}")
    being = cue != "habit" and (cue == "now" or voice.say(BEING) == "being")
    return Group(be(person, False), f"being {english.participle}" if being else english.participle)


def negation(voice: Voice, auxiliary: str) -> str:
    """The auxiliary with ``not``, contracted more often in plain English."""
    if auxiliary in CONTRACTIONS and voice.chance(0.1 if voice.formal else 0.55):
        return CONTRACTIONS[auxiliary]
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"
