"""Settings of the data: the corpus, its tokens and its batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from bleugrad.lab.data.builtin import LARGEST
from bleugrad.lab.data.limits import MOST_WORDS
from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.config import ANY, Config, option

CorpusName = Literal["builtin", "iwslt14", "wmt14", "multi30k", "multi30k_raw", "tatoeba", "tatoeba_tiny", "files"]
RAW = ("multi30k_raw", "files")
"""Corpora that may be ordinary text."""

FILE_SETTINGS = ("train_source", "train_target", "valid_source", "valid_target", "test_source", "test_target")
PLACES = ("directory", *FILE_SETTINGS)
"""Settings that say where a corpus is."""

SUBWORDS = 8000
"""Default size of a BPE vocabulary."""


@dataclass(frozen=True)
class DataConfig(Config):
    """A corpus and its preparation; the defaults need no files."""

    dropped: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"builtin_seed": 0, "cache": ANY, "sentencepiece_source": "", "sentencepiece_target": ""}
    )

    corpus: CorpusName = option("builtin", "named corpus, built-in corpus, or your own files")
    directory: str = option(
        "", "folder of the corpora; empty: $BLEUGRAD_DATA, then the cache; for files: the folder of the splits"
    )
    train_source: str = option("", "for files: training text, plain or .gz")
    train_target: str = option("", "for files: its translation, line by line; tabs separate several translations")
    valid_source: str = option("", "for files: validation text")
    valid_target: str = option("", "for files: its translation")
    test_source: str = option("", "for files: test text")
    test_target: str = option("", "for files: its translation")
    source_language: str = option("de", "source language, also the file name extension")
    target_language: str = option("en", "target language, also the file name extension")
    lowercase: bool = option(False, "lowercase all text; the named corpora except wmt14 are lowercase already")
    raw: bool = option(False, "ordinary sentences: punctuation and case are prepared, and restored in translations")
    units: Literal["words", "bpe"] = option("words", "tokens: words between spaces, or subwords by BPE")
    joint: bool = option(False, "one vocabulary for both languages")
    min_count: int = option(2, "minimum count of a word (rarer words become <unk>); bpe: of a merged pair", minimum=1)
    vocabulary_size: int = option(
        0,
        "maximum vocabulary size per language (of both if joint), including 4 special tokens; "
        f"0: no limit for words, {SUBWORDS} for subwords",
        minimum=0,
    )
    vocabulary_source: str = option("", "file with one source word per line; 'corpus' uses vocab.* of the corpus")
    vocabulary_target: str = option("", "file with one target word per line; 'corpus' uses vocab.* of the corpus")
    max_length: int = option(50, f"maximum words of a training sentence, on either side; 0: {MOST_WORDS}", minimum=0)
    max_ratio: float = option(9.0, "largest length ratio of a training pair; 0: no limit", minimum=0)
    train_limit: int = option(0, "maximum number of training pairs, after the filters; 0: all", minimum=0)
    batch_by: Literal["sentences", "tokens"] = option("sentences", "unit of batch_size; tokens include padding")
    batch_size: int = option(64, "batch size per process, in sentences or tokens", minimum=1)
    builtin_train: int = option(
        LARGEST["train"], "training pairs of the built-in corpus", minimum=1, maximum=LARGEST["train"]
    )
    builtin_valid: int = option(500, "validation pairs of the built-in corpus", minimum=1, maximum=LARGEST["valid"])
    builtin_test: int = option(500, "test pairs of the built-in corpus", minimum=1, maximum=LARGEST["test"])

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in FILE_SETTINGS if getattr(self, name)]
        if given and self.corpus != "files":
            raise UsageError(f"{given[0]} is given and corpus is {self.corpus!r}; expected corpus 'files' with it")
        if self.corpus == "files" and not self.directory:
            self._check_files()
        if self.units != "words" and (self.vocabulary_source or self.vocabulary_target):
            raise UsageError(f"units is {self.units!r} and a word list is given; word lists need units 'words'")
        if self.joint and (self.vocabulary_source or self.vocabulary_target):
            raise UsageError("joint is true with a word list of each language; expected no lists")
        if self.raw and self.corpus not in RAW:
            found = f"raw is true and corpus is {self.corpus!r}, which is tokenised text"
            raise UsageError(f"{found}; expected {' or '.join(map(repr, RAW))}")
        if 0 < self.vocabulary_size < 5:
            raise UsageError(f"vocabulary_size is {self.vocabulary_size}; expected at least 5, or 0")
        if 0 < self.max_ratio < 1:
            raise UsageError(f"max_ratio is {self.max_ratio}; expected at least 1, or 0")
        if not self.source_language or not self.target_language:
            raise UsageError("a language is empty; expected the file name extension, such as 'de'")
        if self.source_language == self.target_language:
            raise UsageError(
                f"target_language is {self.target_language!r}, the same as source_language; expected another language"
            )

    def _check_files(self) -> None:
        for name in ("train_source", "train_target", "valid_source", "valid_target"):
            if not getattr(self, name):
                raise UsageError(f"corpus is 'files' and {name} is not given; expected it, or directory")
        if bool(self.test_source) != bool(self.test_target):
            missing = "test_target" if self.test_source else "test_source"
            raise UsageError(f"{missing} is not given; expected both sides of the test text, or none")
