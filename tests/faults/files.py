"""Damaged files: a command refuses them in one line, or gives the result of the undamaged files."""

import fcntl
import os
import random
import resource
import shutil
import sys
from functools import partial

import numpy as np
import sacrebleu  # noqa: F401  (and the modules of bleugrad: loaded here, the children need not)
import torch

import bleugrad.explanation.explain
import bleugrad.lab.training.system
from bleugrad.backends.c import library
from bleugrad.lab.commands.main import main
from bleugrad.lab.errors import FailureError
from bleugrad.lab.settings.loading import to_toml
from bleugrad.lab.training import checkpoints
from tests.faults import damage
from tests.faults.sweep import run_child
from tests.lab.training.corpora import small_config, write_corpus

SECONDS, CHILD_SECONDS, MEMORY = 400, 100, 4 * 2**30
READ_DIRECTLY = 20
"""Damaged copies of a checkpoint that are read without a command, for each one that is read by a command."""
ACCEPTED = ("full of NaN", "with another value")
"""Changes of a tensor in a checkpoint that a fitting checksum makes acceptable; all others must be refused."""
SAME, ANY = "the same result", "any result"
"""What a command may give if it accepts the file; text that people may edit can change it."""


def prepare(folder):
    """Make a run and copies of the kernels; the check damages a copy of one of their files."""
    return Files(folder).check


class Files:
    """The undamaged files, and what each command makes of them."""

    def __init__(self, folder):
        self.folder, self.good = folder, folder / "good"
        corpus = self.good / "corpus"
        corpus.mkdir(parents=True)
        write_corpus(corpus)
        self._copy_kernels()
        config = small_config("corpus", objective__name="exact", optimizer__epochs=1)
        (self.good / "train.toml").write_text(to_toml(config))
        ended, _, said = self._run(["train", "--config", "train.toml", "--output", "run"], self.good)
        assert ended == "exit code 0", said
        self.targets = self._targets()
        self.expected = {}
        for name in sorted({command for _, command, _, _ in self.targets}):
            ended, said, self.expected[name] = self._result(name, self._copy("undamaged"))
            assert ended == "exit code 0", f"{name}: {said}"

    def check(self, seed):
        target, command, ways, allowed = self.targets[seed % len(self.targets)]
        choose = random.Random(seed)
        place = self._copy(f"damaged-{seed}")
        path = place / target
        wrong = self._read_directly(choose, path, ways) if path.parent.name == checkpoints.FOLDER else None
        if wrong is None:
            words = choose.choice(ways)(choose, path)
            wrong = self._judge(target, command, place, words, allowed)
            wrong = wrong and f"{words}: {wrong}"
        _remove(place)
        return wrong and f"{command}, {target}: {wrong}"

    def _judge(self, target, command, place, words, allowed):
        """What is wrong with how a command takes a damaged file, or None."""
        ended, said, result = self._result(command, place)
        if ended == "exit code 0":
            if words == "held" or (words.startswith("tensor ") and not _is_acceptable(words)):
                return "accepted"
            if allowed is SAME and result != self.expected[command] and "fitting checksum" not in words:
                return "another result without a message"
            return self._judge_warning(said) if target.startswith("kernels/") and words != "removed" else None
        if ended not in ("exit code 1", "exit code 2"):
            return ended
        lines = [line for line in said.splitlines() if line.startswith("bleugrad ")]
        if "Traceback" in said or len(lines) != 1 or "not enough memory" in said:
            return f"{ended}, not in one line: {said[-300:]}"
        return f"refused: {lines[0]}" if target.startswith("kernels/") else None  # torch operations take their place

    @staticmethod
    def _judge_warning(said):
        number = said.count("RuntimeWarning: the compiled kernels cannot be used")
        return None if number == 1 else f"{number} warnings: {said}"

    def _read_directly(self, choose, path, ways):
        """What is wrong with reading damaged copies of a checkpoint: each is refused, or has the same content."""
        content = path.read_bytes()
        good = checkpoints.read_checkpoint(path)
        for _ in range(READ_DIRECTLY):
            words = choose.choice(ways)(choose, path)
            try:
                found = checkpoints.read_checkpoint(path)
            except FailureError as error:
                found = None
                if "\n" in str(error):
                    return f"{words}: not in one line: {error}"
            if found is not None and "fitting checksum" not in words and not _equal(found, good):
                return f"{words}: read with another content"
            path.write_bytes(content)
        return None

    def _targets(self):
        """(file, command that reads it, ways to damage it, what is allowed if the command accepts it)."""
        tensors = (*damage.PLAIN, *[damage.change_tensor] * 4, *[damage.change_header] * 4)
        saved = (*damage.PLAIN, *[damage.change_json] * 4)
        text = (*damage.PLAIN, *[damage.grow_text] * 2)
        kernels = (damage.cut_off, damage.overwrite, damage.remove, damage.foreign_library)
        return [
            ("run/checkpoints/last.safetensors", "resume", tensors, SAME),
            ("run/checkpoints/best.safetensors", "translate", tensors, SAME),
            ("run/run.json", "resume", saved, SAME),
            ("run/run.json", "translate", saved, SAME),
            ("run/vocabulary.source.json", "resume", saved, SAME),
            ("run/vocabulary.target.json", "translate", saved, SAME),
            ("run/config.toml", "resume", (*damage.PLAIN, *[damage.change_toml] * 3), ANY),
            ("run/config.toml", "translate", (*damage.PLAIN, *[damage.change_toml] * 3), ANY),
            ("run/metrics.jsonl", "resume", damage.PLAIN, SAME),
            ("run/timings.jsonl", "resume", (*damage.PLAIN, damage.remove), SAME),
            ("run/.lock", "resume", (damage.spoil_lock, hold_lock), SAME),
            ("corpus/train.de", "resume", text, SAME),
            ("corpus/train.en", "resume", text, SAME),
            ("corpus/valid.de", "resume", text, ANY),
            ("corpus/valid.en", "resume", text, ANY),
            *((f"kernels/{path.name}", "explain", kernels, SAME) for path in self._used_kernels()),
        ]

    def _result(self, name, place):
        """How a command ended, its standard error, and the result: what it printed, or the checkpoints it wrote."""
        resume = ["train", "--resume", "--optimizer-epochs", "2", "--output", "run"]
        commands = {"resume": resume, "translate": ["translate", "run", "--beam", "2"], "explain": None}
        ended, shown, said = self._run(commands[name], place)
        if name == "resume":
            paths = [place / "run" / checkpoints.FOLDER / file for file in (checkpoints.LAST, checkpoints.BEST)]
            return ended, said, [path.read_bytes() if path.exists() else None for path in paths]
        return ended, said, shown

    def _run(self, words, place):
        return run_child(partial(_main, words, place), self.folder / f"said-{place.name}", CHILD_SECONDS)

    def _copy(self, name):
        _remove(self.folder / name)
        shutil.copytree(self.good, self.folder / name)
        return self.folder / name

    def _copy_kernels(self):
        (self.good / "kernels").mkdir()
        for path in library.FOLDER.glob("*.so"):
            shutil.copy2(path, self.good / "kernels")

    @staticmethod
    def _used_kernels():
        """The libraries that a command loads, if there are any and they are not switched off."""
        off = os.environ.get(library.SWITCH) == "0"
        return [path for path in map(library._path, library.REAL.values()) if path.exists() and not off]


def hold_lock(choose, path):
    """Hold the lock as another process would, until this process ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, b"1 host")
    return "held"


def _main(words, place):
    """Run a command; None explains a sentence in Python, with the kernels."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(place)
    library.FOLDER = place / "kernels"
    with open("corpus/test.de", "rb") as lines:
        os.dup2(lines.fileno(), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    return _explain() if words is None else main(words)


def _explain():
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)))
    print(bleugrad.explain(logits, [0, 1, 0], samples=20))
    return 0


def _is_acceptable(words):
    return any(f"{way}, with a fitting checksum" in words for way in ACCEPTED)


def _remove(place):
    shutil.rmtree(place, ignore_errors=True)


def _equal(one, other):
    """Whether two checkpoints hold the same tensors and state."""
    pairs = [(one.weights, other.weights), (one.optimizer, other.optimizer)]
    same = all(
        left.keys() == right.keys()
        and all(left[name].dtype == right[name].dtype and torch.equal(left[name], right[name]) for name in left)
        for left, right in pairs
    )
    return same and one.state == other.state
