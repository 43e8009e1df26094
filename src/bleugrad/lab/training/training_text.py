"""The encoded training text of a run with its vocabularies: in memory, or mapped from the cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from bleugrad.lab.data.cache import cached_train
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Corpus
from bleugrad.lab.data.encoding import EncodedSplit, build_vocabularies, encode_split
from bleugrad.lab.errors import FailureError
from bleugrad.lab.training.vocabularies import Vocabularies, split_fingerprint


@dataclass(frozen=True)
class TrainingText:
    """Encoded training text; ``fingerprint`` identifies it in checkpoints, ``dropped`` counts pairs by reason."""

    encoded: EncodedSplit
    vocabularies: Vocabularies
    fingerprint: str
    dropped: Mapping[str, int]


def training_text(config: DataConfig, corpus: Corpus, given: Vocabularies | None) -> TrainingText:
    """The training text of the settings, encoded with ``given`` vocabularies or with new ones.

    ``corpus`` has the text, unless the settings name a cache.
    """
    if config.cache:
        cached = cached_train(config, None if given is None else (given.source, given.target))
        found = TrainingText(cached.encoded, Vocabularies(*cached.vocabularies), cached.text, cached.dropped)
    else:
        if len(corpus.train) == 0:
            raise FailureError(f"no training pair of {corpus.name} passed the filters: there is no text to learn from")
        vocabularies = given or Vocabularies(*build_vocabularies(corpus, config))
        encoded = encode_split(corpus.train, vocabularies.source, vocabularies.target)
        found = TrainingText(encoded, vocabularies, split_fingerprint(corpus.train), corpus.dropped)
    if len(found.encoded) == 0:
        raise FailureError(f"no training pair of {corpus.name} passed the filters: there is no text to learn from")
    return found
