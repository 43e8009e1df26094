"""Recipes of corpora that are published tokenised: files are compressed and renamed."""

from pathlib import Path

from bleugrad.data.named.catalogue import LANGUAGES
from bleugrad.data.named.files import compress


def prepare_multi30k(downloads: Path, folder: Path) -> None:
    """Training, validation and the test set of 2016."""
    for split, part in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for language in LANGUAGES:
            compress(downloads / f"{part}.lc.norm.tok.{language}", folder / f"{split}.{language}.gz")


def prepare_wmt14(downloads: Path, folder: Path) -> None:
    """Training text, newstest2013 (validation), newstest2014 (test), and lists of the 50,000 most frequent words."""
    for name, part in (("train", "train"), ("valid", "newstest2013"), ("test", "newstest2014"), ("vocab", "vocab.50K")):
        for language in LANGUAGES:
            compress(downloads / f"{part}.{language}", folder / f"{name}.{language}.gz")
