"""The vocabularies of a run, saved with it; checkpoints hold their fingerprints."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.vocabulary import Vocabulary, read_vocabulary
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import write_text

FILES = {"source": "vocabulary.source.json", "target": "vocabulary.target.json"}


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides."""

    source: Vocabulary
    target: Vocabulary

    def fingerprints(self) -> dict[str, str]:
        """Size and digest of both, for checkpoints."""
        sides = {"source": self.source, "target": self.target}
        return {
            side: f"{len(words)} tokens, {fingerprint(json.dumps(words.to_json()))}" for side, words in sides.items()
        }

    def write(self, run: Path) -> None:
        """Save both vocabularies into a run."""
        for side, name in FILES.items():
            write_text(run / name, json.dumps(getattr(self, side).to_json(), ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def read(cls, run: Path) -> "Vocabularies":
        """Read the vocabularies of a run."""
        return cls(*(_read(run / name) for name in FILES.values()))

    def check_fit(self, state: Mapping[str, Any], run: Path, checkpoint: Path) -> None:
        """Raise unless a checkpoint was trained with these vocabularies."""
        for side, found in self.fingerprints().items():
            wanted = state["vocabularies"][side]
            if found != wanted:
                raise FailureError(
                    f"{run / FILES[side]} does not fit {checkpoint}: it has {found}, the checkpoint was trained with "
                    f"{wanted}"
                )


def fingerprint(text: str) -> str:
    """A short digest.

    Example:
        >>> fingerprint("a")
        '433911c6eb0d'
    """
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def split_fingerprint(split: Split) -> str:
    """The digest of a training text, for checkpoints."""
    return fingerprint("\n".join(["\n".join(split.sources), *("\t".join(choices) for choices in split.references)]))


def _read(path: Path) -> Vocabulary:
    try:
        return read_vocabulary(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FailureError(f"{path} is missing; the run cannot be used without it") from None
    except OSError as error:
        raise FailureError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FailureError(f"{path} is not a vocabulary: {error}") from None
