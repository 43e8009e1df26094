"""From text to ids: the vocabularies of a corpus and its encoded splits."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bleugrad.lab.data.config import SUBWORDS, DataConfig
from bleugrad.lab.data.corpus import Corpus, Split
from bleugrad.lab.data.locations import corpus_folder, find_text
from bleugrad.lab.data.raw_text import Casing, RawVocabulary, split_words
from bleugrad.lab.data.text import read_lines
from bleugrad.lab.data.vocabulary import Vocabulary, WordVocabulary
from bleugrad.lab.errors import FailureError, UsageError

OWN_LIST = "corpus"


@dataclass(frozen=True)
class EncodedSplit:
    """A split as ids, without BOS and EOS; ``targets`` are the first references."""

    sources: list[list[int]]
    targets: list[list[int]]
    references: list[list[list[int]]]

    def __len__(self) -> int:
        return len(self.sources)


def encode_split(split: Split, source: Vocabulary, target: Vocabulary) -> EncodedSplit:
    """Encode each side with its vocabulary."""
    targets = target.encode_lines(split.targets)
    others = iter(target.encode_lines([text for choices in split.references for text in choices[1:]]))
    references = [
        [ids, *(next(others) for _ in choices[1:])] for ids, choices in zip(targets, split.references, strict=True)
    ]
    return EncodedSplit(source.encode_lines(split.sources), targets, references)


def build_vocabularies(corpus: Corpus, config: DataConfig) -> tuple[Vocabulary, Vocabulary]:
    """The source and target vocabularies, from the training text or from word lists."""
    if len(corpus.train) == 0:
        raise FailureError(f"no training pair of {corpus.name} passed the filters: there is no text to learn from")
    sources, targets = corpus.train.sources, list(chain.from_iterable(corpus.train.references))
    if not config.raw:
        return _both(sources, targets, config)
    sides = [[split_words(line) for line in side] for side in (sources, targets)]
    casings = [Casing.learn(side) for side in sides]
    sources, targets = ([casing.lower(line) for line in side] for casing, side in zip(casings, sides, strict=True))
    source, target = _both(sources, targets, config)
    return RawVocabulary(source, casings[0]), RawVocabulary(target, casings[1])


def _both(sources: list[str], targets: list[str], config: DataConfig) -> tuple[Vocabulary, Vocabulary]:
    if config.joint:
        shared = _vocabulary([*sources, *targets], config, "source")
        return shared, shared
    return _vocabulary(sources, config, "source"), _vocabulary(targets, config, "target")


def _vocabulary(lines: list[str], config: DataConfig, side: str) -> Vocabulary:
    if config.units == "bpe":
        from bleugrad.lab.data.bpe import BPEVocabulary

        try:
            return BPEVocabulary.build(lines, config.vocabulary_size or SUBWORDS, config.min_count)
        except ValueError as error:
            raise UsageError(f"vocabulary_{error}") from None
    listed = getattr(config, f"vocabulary_{side}")
    if not listed:
        return WordVocabulary.build(lines, config.min_count, config.vocabulary_size)
    path = _own_list(config, side) if listed == OWN_LIST else Path(listed)
    words = read_lines(path)
    try:
        return WordVocabulary.from_list(words, config.vocabulary_size)
    except ValueError as error:
        raise FailureError(f"{path}: {error}") from None


def _own_list(config: DataConfig, side: str) -> Path:
    folder, language = corpus_folder(config), getattr(config, f"{side}_language")
    found = find_text(folder, f"vocab.{language}") if folder is not None else None
    if found is None:
        raise UsageError(
            f"vocabulary_{side} is {OWN_LIST!r} and {config.corpus} has no vocab.{language} of its own; expected a "
            "file, or '' to count the words of the training text"
        )
    return found
