"""Whole sentences: statements, questions, commands and joined clauses."""

from collections.abc import Callable

from corpora.grammar.choices import Draws, Translated, Voice, Weighted, read_choice, words
from corpora.grammar.clauses import Clause, Predication
from corpora.grammar.content import DENIAL, action, clause, negate, plain_person, predication
from corpora.grammar.determiners import BARE, DREI, EIN, EINIGE, VIELE, ZWEI
from corpora.grammar.nouns import ACCUSATIVE, NOMINATIVE
from corpora.grammar.phrases import PERSONS, SIR, Pronoun, is_marked, noun_phrase, place
from corpora.grammar.tenses import finite, negation
from corpora.grammar.verbs import THIRD, read_english, verbs_with
from corpora.grammar.word_order import line


def statement(draws: Draws) -> Translated:
    """A main clause; in German the adverb, the place or a marked object may come first."""
    said = predication(draws)
    german, fronted = _verb_second(draws, said)
    return Translated(f"{german} .", lambda voice: f"{said.statement(voice, fronted)} .")


def _verb_second(draws: Draws, said: Predication) -> tuple[str, float]:
    """The German main clause, and the probability that English starts with the adverb of time."""
    field = said.field()
    roll = draws.random()
    if "time" in field.middle and roll < 0.4:
        return field.verb_second("time"), 0.5
    if "place" in field.middle and 0.4 < roll < 0.55:
        return field.verb_second("place"), 0.08
    if isinstance(said, Clause) and 0.55 < roll < 0.75 and _object_may_lead(said) and "direct" in field.middle:
        return field.verb_second("direct"), 0.08
    return field.verb_second(), 0.08


def _object_may_lead(said: Clause) -> bool:
    """Whether the cases show which noun is the subject."""
    direct = said.direct
    return direct is not None and not direct.light and (is_marked(direct) or is_marked(said.subject))


def question(draws: Draws) -> Translated:
    """A yes-no question."""
    asked = predication(draws, adverbs=0.3)
    return Translated(f"{asked.field().verb_first()} ?", lambda voice: f"{asked.question(voice)} ?")


WHY, WHEN, WHERE, WHAT = map(words, ("why", "when", "where", "what"))
WHOM = words("who 7 | whom^ 4")
WHO = Pronoun(("wer", "wen", "wem"), words("who"), WHOM, THIRD, light=False)
FOUND = verbs_with("acc", "p", "p")
TAKEN = verbs_with("acc", "p", "txfdc")
DONE_SOMEWHERE = verbs_with("place", "p")
ANSWERS = Weighted(("warum", "wann", "wo", "was", "wen", "wer"), (3.0, 2.0, 2.5, 3.0, 1.5, 2.0))


def word_question(draws: Draws) -> Translated:
    """A question with a question word in place of one part."""
    word = draws.pick(ANSWERS)
    if word == "wer":
        asked = clause(draws, WHO, adverbs=0.3)
        return Translated(f"{asked.field().verb_second()} ?", lambda voice: f"{asked.statement(voice, 0.0)} ?")
    subject = plain_person(draws)
    if word in ("was", "wen"):
        verb = draws.pick(TAKEN if word == "was" else FOUND)
        asked = clause(draws, subject, verb, adverbs=0.2)._replace(direct=None)
        english = WHAT if word == "was" else WHOM
    elif word == "wo":
        asked = clause(draws, subject, draws.pick(DONE_SOMEWHERE), adverbs=0.2)._replace(place=None)
        english = WHERE
    else:
        asked = clause(draws, subject, adverbs=0.0 if word == "wann" else 0.25)
        english = WHEN if word == "wann" else WHY
    asked = negate(asked) if draws.chance(DENIAL) else asked
    return Translated(
        f"{word} {asked.field().verb_first()} ?", lambda voice: f"{voice.say(english)} {asked.question(voice)} ?"
    )


def command(draws: Draws) -> Translated:
    """A polite request."""
    asked = action(draws, SIR)

    def english(voice: Voice) -> str:
        request = asked.command(voice)
        return f"please {request} !" if voice.chance(0.7) else f"{request} , please !"

    return Translated(f"bitte {asked.field().verb_first()} !", english)


# German, English, odds of the subordinate clause first, odds of a comma before it in English.
CONJUNCTIONS = Weighted(
    (
        ("weil", words("because 7 | since^ 3 | as^ 2"), 0.2, 0.1),
        ("wenn", words("if 6 | when 4"), 0.6, 0.05),
        ("obwohl", words("although^ 5 | though 3 | even though 4"), 0.35, 0.4),
        ("bevor", words("before"), 0.3, 0.0),
        ("während", words("while 8 | as^ 3"), 0.3, 0.1),
        ("damit", words("so that^ 5 | so 5"), 0.0, 0.1),
    ),
    (6.0, 4.0, 3.0, 2.0, 1.5, 1.0),
)


def subordination(draws: Draws) -> Translated:
    """A main and a subordinate clause, in either order, often with the same subject."""
    conjunction, english, first, comma = draws.pick(CONJUNCTIONS)
    subject = draws.pick(PERSONS) if draws.chance(0.7) else None
    main = predication(draws, subject, adverbs=0.12)
    sub = predication(draws, subject if draws.chance(0.5) else None, adverbs=0.12)
    below = f"{conjunction} {sub.field().verb_last()}"
    leading = draws.chance(first)

    def translate(voice: Voice) -> str:
        above = main.statement(voice, 0.0)
        under = f"{voice.say(english)} {sub.statement(voice, 0.0)}"
        if voice.chance(0.75 if leading else 0.2 * first):
            return f"{under} , {above} ."
        return f"{above} , {under} ." if voice.chance(comma) else f"{above} {under} ."

    german = f"{below} , {main.field().verb_first()} ." if leading else f"{main.field().verb_second()} , {below} ."
    return Translated(german, translate)


# German by person, English, whether negated; "ob" then follows instead of "dass".
OPINIONS = Weighted(
    (
        ("glaube glaubst glaubt glauben glauben", read_choice("think 6 | believe^ 5", read_english), False),
        ("weiß weißt weiß wissen wissen", read_choice("know", read_english), False),
        ("sage sagst sagt sagen sagen", read_choice("say", read_english), False),
        ("hoffe hoffst hofft hoffen hoffen", read_choice("hope", read_english), False),
        ("weiß weißt weiß wissen wissen", read_choice("know", read_english), True),
    ),
    (5.0, 4.0, 3.0, 2.0, 2.5),
)
THAT, WHETHER = words("that 5 | - 5"), words("if 6 | whether^ 5")


def opinion(draws: Draws) -> Translated:
    """Someone thinks, knows, says or hopes something."""
    forms, english, negated = draws.pick(OPINIONS)
    subject = plain_person(draws)
    content = predication(draws, adverbs=0.2)
    opening = f"{subject.german(NOMINATIVE)} {forms.split()[subject.person]}"
    joint = "nicht , ob" if negated else ", dass"

    def translate(voice: Voice) -> str:
        auxiliary, holds = finite(voice.say(english), subject.person, False, negated)
        if negated:
            holds = f"{negation(voice, auxiliary)} {holds}"
        joined = voice.say(WHETHER if negated else THAT)
        return f"{line(subject.english(voice, True), holds, joined)} {content.statement(voice, 0.0)} ."

    return Translated(f"{opening} {joint} {content.field().verb_last()} .", translate)


TO = words("to 7 | in order to^ 4")


def purpose(draws: Draws) -> Translated:
    """Someone does something in order to do something else."""
    subject = plain_person(draws)
    main = clause(draws, subject, adverbs=0.1)
    aim = action(draws, subject)

    def translate(voice: Voice) -> str:
        return f"{main.statement(voice, 0.0)} {voice.say(TO)} {aim.command(voice)} ."

    return Translated(f"{main.field().verb_second()} , um {aim.infinitive()} .", translate)


JOINTS = Weighted(
    (("und", words("and")), ("aber", words("but 8 | yet^ 2")), ("denn", words("because 6 | for^ 4"))), (4.0, 4.0, 2.0)
)


def coordination(draws: Draws) -> Translated:
    """Two main clauses."""
    german, english = draws.pick(JOINTS)
    subject = draws.pick(PERSONS) if draws.chance(0.5) else None
    left = predication(draws, subject, adverbs=0.1)
    right = predication(draws, None, adverbs=0.1)
    comma = "" if german == "und" else ", "

    def translate(voice: Voice) -> str:
        joint = f" , {voice.say(english)} " if voice.chance(0.5) else f" {voice.say(english)} "
        return f"{left.statement(voice, 0.0)}{joint}{right.statement(voice, 0.0)} ."

    return Translated(f"{left.field().verb_second()} {comma}{german} {right.field().verb_second()} .", translate)


def existence(draws: Draws) -> Translated:
    """There is something somewhere; German puts it in the accusative."""
    what = noun_phrase(draws, "paxtvfik")
    if what.determiner not in (EIN, BARE, ZWEI, DREI, VIELE, EINIGE):
        return existence(draws)
    where = place(draws, "ikn", False) if draws.chance(0.7) else None
    german = f"es gibt {what.german(ACCUSATIVE)}{' ' + where.german if where else ''} ."
    first = where is not None and draws.chance(0.3)
    if first and where:
        german = f"{where.german} gibt es {what.german(ACCUSATIVE)} ."

    def translate(voice: Voice) -> str:
        there = f"there {'are' if what.plural else 'is'} {what.english(voice)}"
        if where is None:
            return f"{there} ."
        spot = where.english(voice)
        return f"{spot} , {there} ." if first and voice.chance(0.4) else f"{there} {spot} ."

    return Translated(german, translate)


RULES: Weighted[Callable[[Draws], Translated]] = Weighted(
    (statement, subordination, opinion, question, word_question, coordination, purpose, command, existence),
    (40.0, 18.0, 10.0, 8.0, 8.0, 5.0, 5.0, 4.0, 3.0),
)


def sentence(draws: Draws) -> Translated:
    """Any sentence of the grammar."""
    return draws.pick(RULES)(draws)
