"""Draws the content of clauses: verb, subject, tense, adverbs, objects."""

from corpora.grammar.choices import Draws, Translated, Voice, Weighted, words
from corpora.grammar.clauses import Clause, Copula, PassiveClause, Predication
from corpora.grammar.determiners import DER
from corpora.grammar.modifiers import DEGREE, MANNER, Time, adjectives_of, times_of
from corpora.grammar.nouns import ACCUSATIVE, nouns_of
from corpora.grammar.phrases import (
    Nominal,
    NounPhrase,
    Pronoun,
    deny,
    noun_phrase,
    object_of,
    place,
    subject_of,
)
from corpora.grammar.tenses import FUTURE, MODALS, PAST_MODALS, PERFECT, PRESENT, Modal, Tense
from corpora.grammar.verbs import THIRD, VERBS, Verb, verbs_with
from corpora.grammar.word_order import line

_MODAL, _PAST_MODAL = "modal", "past modal"
TENSES = Weighted((PRESENT, PERFECT, _MODAL, FUTURE, _PAST_MODAL), (40.0, 30.0, 15.0, 8.0, 7.0))
DENIAL = 0.16

TIMES = {
    PRESENT: times_of("habit", "now", "later", "any"),
    "state": times_of("habit", "any"),
    "lasting": times_of("since"),
    PERFECT: times_of("before", "done", "any"),
    FUTURE: times_of("later", "any"),
    _PAST_MODAL: times_of("before", "any"),
}

_PERSONAL = Weighted.zipf([verb for verb in VERBS.options if "p" in verb.subjects])
ACTIONS = Weighted.zipf([verb for verb in _PERSONAL.options if not verb.state])


def predication(draws: Draws, subject: Nominal | None = None, adverbs: float = 0.4) -> Predication:
    """Any clause; a given subject is a person."""
    roll = draws.random()
    if roll < 0.15:
        return copula(draws, subject)
    if roll < 0.21 and subject is None:
        return passive(draws)
    said = clause(draws, subject, adverbs=adverbs)
    return negate(said) if draws.chance(DENIAL) else said


def clause(
    draws: Draws, subject: Nominal | None = None, verb: Verb | None = None, tense: Tense = "", adverbs: float = 0.4
) -> Clause:
    """An active clause; missing parts are drawn, and a given subject is a person."""
    verb = verb or draws.pick(_PERSONAL if subject else VERBS)
    subject = subject or _subject(draws, verb.subjects, adverbs)
    tense = tense or _tense(draws)
    time = _time(draws, verb, tense) if draws.chance(adverbs) else None
    lively = not verb.state and verb.frame != "swap"
    manner = draws.pick(MANNER) if lively and draws.chance(adverbs * 0.35) else None
    glad = tense == PRESENT and lively and not time and not manner and draws.chance(0.12) and "p" in verb.subjects
    return _objects(draws, Clause(subject, verb, tense, time, manner, gladly=glad), adverbs)


def negate(said: Clause) -> Clause:
    """The negated clause: ``kein`` before an indefinite object, otherwise ``nicht``."""
    if said.time and said.time.german in ("nie", "schon"):
        return said
    if said.direct and said.verb.frame in ("acc", "both"):
        return said._replace(negative=True, direct=deny(said.direct))
    return said._replace(negative=True)


def action(draws: Draws, subject: Nominal) -> Clause:
    """An action that someone may be asked to do or intend."""
    said = clause(draws, subject, draws.pick(ACTIONS), PRESENT, adverbs=0.1)
    return said._replace(time=None, gladly=False)


def _subject(draws: Draws, kinds: str, adverbs: float) -> Nominal:
    subject = subject_of(draws, kinds)
    if isinstance(subject, NounPhrase) and adverbs > 0.3 and draws.chance(0.1):
        return describe(draws, subject)
    return subject


def _tense(draws: Draws) -> Tense:
    name = draws.pick(TENSES)
    if name == _MODAL:
        return draws.pick(MODALS)
    return draws.pick(PAST_MODALS) if name == _PAST_MODAL else name


def _time(draws: Draws, verb: Verb, tense: Tense) -> Time:
    if isinstance(tense, Modal):
        return draws.pick(TIMES[_PAST_MODAL if tense.past else FUTURE])
    if tense == PRESENT:
        if verb.lasting and draws.chance(0.15):
            return draws.pick(TIMES["lasting"])
        return draws.pick(TIMES["state" if verb.state else PRESENT])
    return draws.pick(TIMES[tense])


def _objects(draws: Draws, draft: Clause, adverbs: float) -> Clause:
    """The draft with the objects and the place that its verb requires."""
    verb, subject = draft.verb, draft.subject
    frame, kinds = verb.frame, verb.objects
    if frame in ("place", "toward"):
        if frame == "place" and draws.chance(0.15):
            return draft
        return draft._replace(place=place(draws, kinds, frame == "toward", subject))
    where = place(draws, "ikn", False, subject) if not verb.state and draws.chance(adverbs * 0.3) else None
    if frame == "none":
        return draft._replace(place=where)
    if frame in ("dat", "swap"):
        return draft._replace(indirect=object_of(draws, kinds, subject, 0.45))
    direct = object_of(draws, kinds, subject)
    if isinstance(direct, NounPhrase) and adverbs > 0.3 and draws.chance(0.07):
        direct = describe(draws, direct)
    if frame == "both":
        return draft._replace(direct=direct, indirect=object_of(draws, "p", subject, 0.45))
    return draft._replace(direct=direct, place=where if frame == "acc" else None)


def passive(draws: Draws) -> PassiveClause:
    """A passive clause of a verb with an accusative object."""
    verb = draws.pick(verbs_with("acc"))
    agent = noun_phrase(draws, "p", plain=True)
    patient = noun_phrase(draws, verb.objects)
    past = draws.chance(0.55)
    tense = PERFECT if past else PRESENT
    time = _time(draws, verb, tense) if draws.chance(0.35) else None
    negative = draws.chance(0.1) and not (time and time.german in ("nie", "schon"))
    active = Clause(agent, verb, tense, time, negative=negative, direct=patient)
    return PassiveClause(active, patient, agent if draws.chance(0.6) else None, past)


def copula(draws: Draws, subject: Nominal | None = None) -> Copula:
    """A clause with ``sein`` and an adjective or a profession."""
    kinds = "p" if subject or draws.chance(0.6) else "atxfdvcmi"
    subject = subject or subject_of(draws, kinds)
    if isinstance(subject, NounPhrase):
        subject, kinds = subject._replace(adjective=None), subject.noun.kinds
    past = draws.chance(0.35)
    cues = TIMES[_PAST_MODAL] if past else TIMES["state"]
    time = draws.pick(cues) if draws.chance(0.25) else None
    negative = draws.chance(0.18) and not (time and time.german == "nie")
    person = isinstance(subject, Pronoun) and kinds == "p"
    if person and draws.chance(0.2):
        return Copula(subject, past, negative and subject.person <= THIRD, time, None, None, draws.pick(nouns_of("j")))
    degree = draws.pick(DEGREE) if not negative and draws.chance(0.4) else None
    return Copula(subject, past, negative, time, degree, draws.pick(adjectives_of(kinds)), None)


WHO = words("who 7 | that 3")
WHICH = words("that 5 | which^ 3 | - 4")
WHOM = words("- 5 | that 3 | whom^ 2 | who 2")


def describe(draws: Draws, phrase: NounPhrase) -> NounPhrase:
    """The phrase with a relative clause; it is the subject or object of that clause."""
    person = "p" in phrase.noun.kinds
    forms = tuple(DER.forms[case][phrase.gender] for case in range(3))
    if person and draws.chance(0.6):
        subject = Pronoun(forms, WHO, WHO, phrase.person, light=False, owns=phrase.owns)
        inner = clause(draws, subject, adverbs=0.1)
        relative = Translated(inner.field().verb_last(), lambda voice: inner.statement(voice, 0.0))
        return phrase._replace(relative=relative)
    verbs = verbs_with("acc", "p", "p" if person else phrase.noun.kinds)
    inner = clause(draws, plain_person(draws), verb=draws.pick(verbs), adverbs=0.1)._replace(direct=None)

    def translate(voice: Voice) -> str:
        return line(voice.say(WHOM if person else WHICH), inner.statement(voice, 0.0))

    return phrase._replace(relative=Translated(f"{forms[ACCUSATIVE]} {inner.field().verb_last()}", translate))


def plain_person(draws: Draws) -> Nominal:
    """A person without adjectives or clauses."""
    person = subject_of(draws, "p")
    return person._replace(adjective=None) if isinstance(person, NounPhrase) else person
