"""From text to ids: the vocabularies of a corpus and its encoded splits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from bleugrad.lab.data.config import SUBWORDS, DataConfig
from bleugrad.lab.data.corpus import Corpus, Split
from bleugrad.lab.data.locations import corpus_folder, find_text
from bleugrad.lab.data.raw_text import Casing, RawVocabulary, split_words
from bleugrad.lab.data.text import read_lines
from bleugrad.lab.data.vocabulary import Vocabulary, WordVocabulary
from bleugrad.lab.errors import FailureError, UsageError

OWN_LIST = "corpus"


class Sentences(Protocol):
    """Ids of sentences."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> list[int]: ...


class ReferenceLists(Protocol):
    """Ids of all references of each sentence."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> list[list[int]]: ...


@dataclass(frozen=True)
class EncodedSplit:
    """A split as ids, without BOS and EOS; ``targets`` are the first references. In memory or mapped from a file."""

    sources: Sentences
    targets: Sentences
    references: ReferenceLists

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def has_more(self) -> bool:
        """Whether any sentence has several references."""
        known = getattr(self.references, "has_more", None)
        return any(len(self.references[place]) > 1 for place in range(len(self))) if known is None else bool(known)


def encode_split(split: Split, source: Vocabulary, target: Vocabulary) -> EncodedSplit:
    """Encode each side with its vocabulary."""
    targets = target.encode_lines(split.targets)
    others = iter(target.encode_lines([text for choices in split.references for text in choices[1:]]))
    references = [
        [ids, *(next(others) for _ in choices[1:])] for ids, choices in zip(targets, split.references, strict=True)
    ]
    return EncodedSplit(source.encode_lines(split.sources), targets, references)


def build_vocabularies(corpus: Corpus, config: DataConfig) -> tuple[Vocabulary, Vocabulary]:
    """The source and target vocabularies, from the training text, from word lists, or from SentencePiece models."""
    if len(corpus.train) == 0:
        raise FailureError(f"no training pair of {corpus.name} passed the filters; expected at least one")
    train = corpus.train
    return vocabularies_of(lambda: train.sources, lambda: chain.from_iterable(train.references), config)


def vocabularies_of(
    sources: Callable[[], Iterable[str]], targets: Callable[[], Iterable[str]], config: DataConfig
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of two texts; each call of ``sources`` or ``targets`` reads its text again.

    A SentencePiece model reads and writes ordinary text itself.
    """
    if not config.raw or config.units == "sentencepiece":
        return _both(sources, targets, config)
    casings = [Casing.learn(map(split_words, text())) for text in (sources, targets)]

    def prepared(text: Callable[[], Iterable[str]], casing: Casing) -> Callable[[], Iterable[str]]:
        return lambda: (casing.lower(split_words(line)) for line in text())

    source, target = _both(prepared(sources, casings[0]), prepared(targets, casings[1]), config)
    return RawVocabulary(source, casings[0]), RawVocabulary(target, casings[1])


def _both(
    sources: Callable[[], Iterable[str]], targets: Callable[[], Iterable[str]], config: DataConfig
) -> tuple[Vocabulary, Vocabulary]:
    if config.joint:
        shared = _vocabulary(chain(sources(), targets()), config, "source")
        return shared, shared
    return _vocabulary(sources(), config, "source"), _vocabulary(targets(), config, "target")


def _vocabulary(lines: Iterable[str], config: DataConfig, side: str) -> Vocabulary:
    if config.units != "words":
        return _subwords(lines, config, side)
    listed = getattr(config, f"vocabulary_{side}")
    if not listed:
        return WordVocabulary.build(lines, config.min_count, config.vocabulary_size)
    path = _own_list(config, side) if listed == OWN_LIST else Path(listed)
    words = read_lines(path)
    try:
        return WordVocabulary.from_list(words, config.vocabulary_size)
    except ValueError as error:
        raise FailureError(f"{path}: {error}") from None


def _subwords(lines: Iterable[str], config: DataConfig, side: str) -> Vocabulary:
    size = config.vocabulary_size or SUBWORDS
    try:
        if config.units == "bpe":
            from bleugrad.lab.data.bpe import BPEVocabulary

            return BPEVocabulary.build(lines, size, config.min_count)
        from bleugrad.lab.data.sentencepiece import SentencePieceVocabulary

        model = getattr(config, f"sentencepiece_{side}")
        return SentencePieceVocabulary.read(Path(model)) if model else SentencePieceVocabulary.build(lines, size)
    except ValueError as error:
        raise UsageError(f"vocabulary_{error}") from None


def _own_list(config: DataConfig, side: str) -> Path:
    folder, language = corpus_folder(config), getattr(config, f"{side}_language")
    found = find_text(folder, f"vocab.{language}") if folder is not None else None
    if found is None:
        raise UsageError(
            f"vocabulary_{side} is {OWN_LIST!r} and {config.corpus} has no vocab.{language} of its own; expected a "
            "file, or '' to count the words of the training text"
        )
    return found
