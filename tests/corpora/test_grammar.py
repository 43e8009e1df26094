"""The grammar writes the file of the package, and its sentences are grammatical by independent rules."""

import bz2
import re
from collections import Counter

import pytest

from bleugrad.lab.data.builtin import FILE, builtin_splits
from corpora.grammar.__main__ import text

GENDERS = {
    "mann": "m", "arzt": "m", "hund": "m", "brief": "m", "zug": "m", "garten": "m", "apfel": "m", "mantel": "m",
    "frau": "f", "stadt": "f", "schule": "f", "tür": "f", "katze": "f", "küche": "f", "zeitung": "f",
    "buch": "n", "haus": "n", "auto": "n", "kind": "n", "schloss": "n", "fahrrad": "n",
}  # fmt: skip
ARTICLES = {
    "m": {"der", "den", "dem", "ein", "einen", "einem", "mein", "meinen", "meinem"},
    "f": {"die", "der", "eine", "einer", "meine", "meiner"},
    "n": {"das", "dem", "ein", "einem", "mein", "meinem"},
}
EVERY_ARTICLE = ARTICLES["m"] | ARTICLES["f"] | ARTICLES["n"] | {"des", "eines", "meines"}
ADJECTIVE_AFTER = {
    ("m", "der"): "e", ("m", "den"): "en", ("m", "dem"): "en",
    ("m", "ein"): "er", ("m", "einen"): "en", ("m", "einem"): "en",
    ("f", "die"): "e", ("f", "der"): "en", ("f", "eine"): "e", ("f", "einer"): "en",
    ("n", "das"): "e", ("n", "dem"): "en", ("n", "ein"): "es", ("n", "einem"): "en",
}  # fmt: skip
ADJECTIVE = "(?:alt|neu|groß|gut|klein|schön|jung|kalt|rot)"
IRREGULAR_FIRST_PERSON = {"bin", "war", "kann", "muss", "will", "soll", "darf", "weiß"}


@pytest.fixture(scope="module")
def corpus():
    return [list(zip(split.sources, split.references, strict=True)) for split in builtin_splits(20000, 500, 500)]


@pytest.fixture(scope="module")
def pairs(corpus):
    return [pair for split in corpus for pair in split]


def words_after(pattern, sentences):
    return Counter(found for sentence in sentences for found in re.findall(pattern, sentence))


def test_the_grammar_writes_the_file_of_the_package():
    assert text() == bz2.decompress(FILE.read_bytes()).decode()


def test_references_are_distinct_and_mostly_several(pairs):
    counts = Counter(len(references) for _, references in pairs)
    assert set(counts) == {1, 2, 3, 4}
    assert counts[4] > len(pairs) / 2
    assert all(len(set(references)) == len(references) for _, references in pairs)


def test_text_is_lower_case_tokens_of_moderate_length(pairs):
    lines = [line for german, references in pairs for line in (german, *references)]
    for line in lines:
        assert re.fullmatch(r"[a-zäöüß',.?!]+( [a-zäöüß',.?!]+)*", line), line
        assert 4 <= len(line.split()) <= 20, line
        assert line[-2:] in (" .", " ?", " !"), line
        assert not re.search(r"\w[,.?!]|[,.?!]\w|, [,.?!]", line), line
    for side in ([german for german, _ in pairs], [references[0] for _, references in pairs]):
        assert 9 <= sum(len(line.split()) for line in side) / len(side) <= 11


def test_vocabularies_have_several_hundred_words_with_a_long_tail(corpus):
    german = Counter(word for sentence, _ in corpus[0] for word in sentence.split())
    english = Counter(word for _, references in corpus[0] for word in references[0].split())
    assert 400 <= len(german) <= 800
    assert 300 <= len(english) <= 700
    for counts in (german, english):
        ordered = [count for _, count in counts.most_common()]
        assert sum(ordered[: len(ordered) // 10]) > 0.5 * sum(ordered)
        assert ordered[len(ordered) // 2] < 0.001 * sum(ordered)


def test_articles_agree_with_the_gender_of_the_noun(pairs):
    seen = Counter()
    for german, _ in pairs:
        for article, noun in re.findall(rf"(?<!\S)(\w+) (?=(?:{ADJECTIVE}(?:e|en|er|es|em) )?(\w+))", german):
            if noun in GENDERS and article in EVERY_ARTICLE:
                assert article in ARTICLES[GENDERS[noun]], german
                seen[GENDERS[noun]] += 1
    assert min(seen[gender] for gender in "mfn") > 500


def test_adjectives_agree_with_article_gender_and_case(pairs):
    seen = Counter()
    for german, _ in pairs:
        tokens = german.split()
        for article, adjective, noun in zip(tokens, tokens[1:], tokens[2:], strict=False):
            ending = ADJECTIVE_AFTER.get((GENDERS.get(noun, ""), article))
            if ending and re.fullmatch(rf"{ADJECTIVE}(e|en|er|es|em)", adjective):
                assert re.fullmatch(rf"{ADJECTIVE}{ending}", adjective), german
                seen[ending] += 1
    assert min(seen[ending] for ending in ("e", "en", "er", "es")) > 30


def test_prepositions_govern_their_case(pairs):
    germans = [german for german, _ in pairs]
    dative = words_after(r"(?<!\S)(?:mit|von|zu) (der|die|das|den|dem|ein|eine|einen|einem|einer)(?!\S)", germans)
    assert set(dative) <= {"der", "den", "dem", "einem", "einer"}
    assert sum(dative.values()) > 200
    waiting = words_after(
        r"(?<!\S)wart(?:e|est|et|en) auf (der|die|das|den|dem|ein|eine|einen|einem|einer)(?!\S)", germans
    )
    assert set(waiting) <= {"die", "das", "den", "ein", "eine", "einen"}
    assert sum(waiting.values()) > 20


def test_case_tells_where_from_whither(pairs):
    seen = Counter()
    for german, references in pairs:
        for where, expected in (("im", r"\b(in|inside)"), ("ins", r"\b(to|into)")):
            if re.search(rf"(?<!\S){where} haus [^d]", german):
                assert all(re.search(rf"{expected} the (house|home)", line) for line in references), german
                seen[where] += 1
    assert min(seen["im"], seen["ins"]) > 20


def is_first_person(verb):
    return verb.endswith("e") or verb in IRREGULAR_FIRST_PERSON


def test_the_verb_is_second_in_main_clauses_and_last_in_subordinate_ones(pairs):
    main, subordinate, inverted = 0, 0, 0
    for german, _ in pairs:
        if found := re.match(r"ich (\w+)", german):
            assert is_first_person(found[1]), german
            main += 1
        if found := re.search(r", (?:weil|dass|obwohl|wenn|bevor) ich [^,]*?(\w+) [.]$", german):
            assert is_first_person(found[1]), german
            subordinate += 1
        if found := re.match(r"(?:heute|gestern|morgen|bald|jetzt) (\w+) ich(?!\S)", german):
            assert is_first_person(found[1]), german
            inverted += 1
    assert min(main, subordinate, inverted) > 30


def test_separable_prefixes_leave_the_verb_in_main_clauses_only(pairs):
    apart = [
        german for german, _ in pairs if re.match(r"(ich rufe|er ruft|sie ruft|wir rufen) .*(?<!\S)an [.]$", german)
    ]
    joined = [german for german, _ in pairs if re.search(r"(weil|dass|ob|wenn) .* anruf(e|st|t|en) ", german)]
    infinitive = [german for german, _ in pairs if re.search(r" um .* anzurufen [.]$", german)]
    assert len(apart) > 5
    assert len(joined) > 20
    assert len(infinitive) > 5
    assert not [german for german, _ in pairs if re.match(r"(ich|er|wir) anruf", german)]


def test_german_subjects_agree_with_their_verbs(pairs):
    second = words_after(r"^du (\w+)", [german for german, _ in pairs])
    assert all(re.search(r"[sßz]t$", verb) for verb in second)
    third = words_after(r"^(?:er|der mann|die frau) (\w+)", [german for german, _ in pairs])
    assert all(not verb.endswith("en") for verb in third)
    many = words_after(r"^wir (\w+)", [german for german, _ in pairs])
    assert all(verb.endswith("en") or verb == "sind" for verb in many)
    assert min(len(second), len(third), len(many)) > 30


def test_english_subjects_agree_with_their_verbs(pairs):
    english = [line for _, references in pairs for line in references]
    one = words_after(r"^(?:he|she|the man|the woman) ([\w']+)", english)
    assert not {"am", "are", "have", "haven't", "do", "don't", "were", "see", "buy", "go", "think", "want"} & set(one)
    many = words_after(r"^(?:we|they|you|the men|the women) ([\w']+)", english)
    assert not {"am", "is", "has", "hasn't", "does", "doesn't", "was", "sees", "buys", "goes", "thinks"} & set(many)
    assert {"is", "has", "sees", "buys"} <= set(one)
    assert {"are", "have", "see", "buy"} <= set(many)
    assert not [line for line in english if re.search(r"(?<!\S)(a [aeiou]|an [^aeiou])", line)]


def test_words_with_several_meanings(pairs):
    openings = Counter(references[0].split()[0] for german, references in pairs if german.startswith("sie "))
    assert min(openings[pronoun] for pronoun in ("she", "they", "you")) > 50
    for german, left, right in (("bank", "bank", "bench"), ("schloss", "lock", "(?:castle|palace)")):
        targets = [references[0] for source, references in pairs if re.search(rf"(?<!\S){german}(?!\S)", source)]
        assert min(sum(bool(re.search(word, line)) for line in targets) for word in (left, right)) > 20
    hired = [references[0] for german, references in pairs if re.search(r"eingestellt", german)]
    assert any(re.search("hired|employed", line) for line in hired)
    assert any("adjusted" in line for line in hired)


def test_gender_and_company_settle_a_meaning(pairs):
    for german, references in pairs:
        if german.count("leiter") == 1 and re.search(r"(?<!\S)(den|einen) leiter(?!\S)", german):
            assert not any("ladder" in line for line in references), german
        if re.search(r"(?<!\S)auf der bank(?!\S)", german):
            assert all("bench" in line for line in references), german
        if re.search(r"(?<!\S)in der bank(?!\S)", german):
            assert all("bank" in line for line in references), german


def test_the_dative_becomes_the_subject_of_like(pairs):
    likes = {"mir": "i like ", "dir": "you like ", "ihm": "he likes ", "uns": "we like "}
    seen = 0
    for german, references in pairs:
        if (found := re.match(r"[^,]* gefällt (mir|dir|ihm|uns) [.]$", german)) and "jeden tag" not in german:
            assert all(likes[found[1]] in english for english in references), german
            seen += 1
    assert seen > 5
