"""The named corpora: title, terms, published files and recipe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bleugrad.lab.data.config import CorpusName
from bleugrad.lab.data.named.files import LANGUAGES, compress_parts
from bleugrad.lab.data.named.iwslt14 import prepare_iwslt14
from bleugrad.lab.data.named.tatoeba import prepare_tatoeba, prepare_tatoeba_tiny

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/7bee46bc74186b4b6254603143610f730d40bf66/data/task1/"
WMT14 = "https://nlp.stanford.edu/projects/nmt/data/wmt14.en-de/"
MULTI30K_PARTS = {
    "train": "train.lc.norm.tok",
    "valid": "val.lc.norm.tok",
    "test": "test_2016_flickr.lc.norm.tok",
}
MULTI30K_RAW_PARTS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
WMT14_PARTS = {"train": "train", "valid": "newstest2013", "test": "newstest2014", "vocab": "vocab.50K"}
TATOEBA = "https://downloads.tatoeba.org/exports/per_language/"
MEGABYTE = 10**6


@dataclass(frozen=True)
class NamedCorpus:
    """A corpus known by name."""

    name: CorpusName
    title: str
    terms: str  # of use, as stated by the publishers
    urls: tuple[str, ...]  # of its files
    most_bytes: int  # maximum size of a file, several times the current size
    recipe: Callable[[Path, Path], None]  # reads downloads from the first folder, writes prepared files to the second
    tokenised: bool = True  # whether the published text is tokenised; if not, preparation needs a library
    counts: Mapping[str, int] = field(default_factory=dict)  # pairs per split, if the publication is fixed
    checksums: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of published files, by name
    md5s: Mapping[str, str] = field(default_factory=dict)  # MD5 of published files without a known SHA-256, by name
    texts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of prepared files before compression, by name. A difference is reported only: a version of the tokeniser
    may cause it."""
    made_from: CorpusName | None = None  # a corpus whose prepared files are used instead of downloads


def _urls(site: str, parts: Mapping[str, str], end: str = "") -> tuple[str, ...]:
    return tuple(f"{site}{part}.{language}{end}" for part in parts.values() for language in LANGUAGES)


CATALOGUE: dict[str, NamedCorpus] = {
    corpus.name: corpus
    for corpus in (
        NamedCorpus(
            name="iwslt14",
            title="IWSLT'14 German-English, TED talks, prepared as for the paper",
            terms="CC BY-NC-ND",
            urls=("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",),
            most_bytes=100 * MEGABYTE,
            recipe=prepare_iwslt14,
            tokenised=False,
            counts={"test": 6750},
            texts={  # of the files that the paper used
                "valid.de": "d58e159cedc9227553ab506bf6113b72eb19ee97631c1b7bdcf5a205ce1dda0d",
                "valid.en": "d9d971e784e37316ece31d9d8e33c2feeaae8543329dfcb8486f07568aea8ce8",
                "test.de": "b899a137e81dc3e3c34f5a2cf16c09880ab33b8d22252483ff9c049b2a34e203",
                "test.en": "1685cc2a0c169051b66957d7f56056341161dc4617a849b649e84cdac5b73e24",
            },
        ),
        NamedCorpus(
            name="wmt14",
            title="WMT'14 German-English, tokenised, 4.5 million pairs; newstest2013 and newstest2014",
            terms="research use",
            urls=_urls(WMT14, WMT14_PARTS),
            most_bytes=2000 * MEGABYTE,
            recipe=partial(compress_parts, WMT14_PARTS),
            counts={"valid": 3000, "test": 2737},
            md5s={  # as stated by the toolkit Sockeye, which downloads the same files
                "train.de": "5873aae4fe517aad42bb29d607b5d2a0",
                "train.en": "7ac0d46a8f6db6dfce476c2a8e54121b",
                "newstest2013.de": "5d48c9300649bfad1300e53ad1334aec",
                "newstest2013.en": "f3ce7816bb0acbd2de0364795e9688b1",
                "newstest2014.de": "06e8840abe90cbfbd45cf2729807605d",
                "newstest2014.en": "4e4663b8de25d19c5fc1c4dab8d61703",
            },
        ),
        NamedCorpus(
            name="multi30k",
            title="Multi30k German-English, image captions, tokenised and lowercased; test_2016_flickr",
            terms="research use",
            urls=_urls(f"{MULTI30K}tok/", MULTI30K_PARTS),
            most_bytes=10 * MEGABYTE,
            recipe=partial(compress_parts, MULTI30K_PARTS),
            counts={"train": 29000, "valid": 1014, "test": 1000},
            checksums={
                "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
                "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
                "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
                "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
                "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
            },
        ),
        NamedCorpus(
            name="multi30k_raw",
            title="Multi30k German-English as people write it, for --data-raw; test_2016_flickr",
            terms="research use",
            urls=_urls(f"{MULTI30K}raw/", MULTI30K_RAW_PARTS, ".gz"),
            most_bytes=10 * MEGABYTE,
            recipe=partial(compress_parts, MULTI30K_RAW_PARTS),
            counts={"train": 29000, "valid": 1014, "test": 1000},
        ),
        NamedCorpus(
            name="tatoeba",
            title="Tatoeba German-English, everyday sentences; the export of the day it is fetched",
            terms="CC BY 2.0 FR",
            urls=(
                f"{TATOEBA}deu/deu_sentences.tsv.bz2",
                f"{TATOEBA}eng/eng_sentences.tsv.bz2",
                f"{TATOEBA}deu/deu-eng_links.tsv.bz2",
            ),
            most_bytes=1000 * MEGABYTE,
            recipe=prepare_tatoeba,
            tokenised=False,
        ),
        NamedCorpus(
            name="tatoeba_tiny",
            title="the short sentences of Tatoeba that need the most frequent words only",
            terms="CC BY 2.0 FR",
            urls=(),
            most_bytes=0,
            recipe=prepare_tatoeba_tiny,
            made_from="tatoeba",
        ),
    )
}
