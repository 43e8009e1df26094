"""IWSLT'14 German-English, prepared as for the systems that the paper compares with.

Titles, descriptions and transcripts of the training talks are tokenised. Pairs with more than 50 tokens or a length
ratio above 1.5 are dropped. Every 23rd pair goes to validation. The test set combines five evaluation sets. Moses
escapes (``&apos;``) stay in the text, as in the paper's files. The word lists hold the words that occur at least three
times in the training text.
"""

import re
import tarfile
from pathlib import Path

from bleugrad.lab.data.corpus import reason_to_drop
from bleugrad.lab.data.limits import MOST_BYTES
from bleugrad.lab.data.named.files import tokenise, write_lines
from bleugrad.lab.data.text import too_large
from bleugrad.lab.data.vocabulary import WordVocabulary
from bleugrad.lab.errors import FailureError

MAX_LENGTH, MAX_RATIO = 50, 1.5
VALID_EVERY = 23
MIN_COUNT = 3
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
CURLY_APOSTROPHE = "\u2019"
LEFT_OUT = ("<url>", "<talkid>", "<keywords>")
SHOWN_TAGS = re.compile(r"</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="\d+">\s*(.*?)\s*</seg>')


def prepare_iwslt14(downloads: Path, folder: Path) -> None:
    """Write the three splits and the word lists from the published archive."""
    archive = downloads / "de-en.tgz"
    sides = {language: tokenise(_transcripts(archive, language), language, escape=True) for language in ("de", "en")}
    if len(sides["de"]) != len(sides["en"]):
        raise FailureError(f"{archive} has {len(sides['de'])} German and {len(sides['en'])} English training lines")
    lengths = [(len(german.split()), len(english.split())) for german, english in zip(*sides.values(), strict=True)]
    kept = [place for place, pair in enumerate(lengths) if not reason_to_drop(*pair, MAX_LENGTH, MAX_RATIO)]
    for language, lines in sides.items():
        chosen = [lines[place] for place in kept]
        valid = chosen[VALID_EVERY - 1 :: VALID_EVERY]
        del chosen[VALID_EVERY - 1 :: VALID_EVERY]
        write_lines(folder / f"train.{language}.gz", chosen)
        write_lines(folder / f"vocab.{language}.gz", WordVocabulary.build(chosen, MIN_COUNT).tokens)
        write_lines(folder / f"valid.{language}.gz", valid)
        tests = [_member(archive, f"IWSLT14.{name}.de-en.{language}.xml") for name in TEST_SETS]
        lines = [line.replace(CURLY_APOSTROPHE, "'") for text in tests for line in SEGMENT.findall(text)]
        write_lines(folder / f"test.{language}.gz", tokenise(lines, language, escape=True))


def _transcripts(archive: Path, language: str) -> list[str]:
    text = _member(archive, f"train.tags.de-en.{language}")
    lines = [line for line in text.rstrip("\n").split("\n") if not any(tag in line for tag in LEFT_OUT)]
    return [SHOWN_TAGS.sub("", line).strip() for line in lines]


def _member(archive: Path, name: str) -> str:
    """The text of a file in the archive, which is not unpacked."""
    try:
        with tarfile.open(archive) as tar:
            file = tar.extractfile(f"de-en/{name}")
            if file is None:
                raise KeyError(name)
            content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise too_large(f"{archive}, {name}", MOST_BYTES)
            return content.decode("utf-8")
    except KeyError:
        raise FailureError(f"{archive} holds no de-en/{name}; expected the archive of IWSLT'14") from None
    except (tarfile.TarError, EOFError, OSError, UnicodeDecodeError) as error:
        raise FailureError(f"{archive} cannot be read: {error}") from None
