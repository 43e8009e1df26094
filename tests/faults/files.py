"""Damaged files: a command says so in one line, or gives the result of the undamaged files."""

import json
import os
import random
import shutil
from functools import partial

import numpy as np
import sacrebleu  # noqa: F401  (and what follows: loaded here, the children need not)
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import bleugrad.explanation.explain
import bleugrad.explanation.saved
import bleugrad.training.run
import bleugrad.training.system  # noqa: F401
from bleugrad.cli.main import main
from bleugrad.configuration.writing import to_toml
from tests.faults.sweep import run_child
from tests.training.corpora import small_config, write_corpus

SECONDS = 100
WRONG_JSON = (None, True, -1, 2**70, 1e308, "", "x", [], [[]], {}, {"x": 1}, [None] * 9)
LOGITS = ("logits.safetensors", "logits.npy", "logits.npz", "logits.pt")
REFERENCE = ["--reference", "a b a", "--samples", "20"]


class Files:
    """Prepares a run, a kernel cache and saved logits; ``check(seed)`` damages a copy of one of them."""

    def __init__(self, folder):
        torch.set_num_threads(1)
        self.folder = folder
        self.good = folder / "good"
        self.good.mkdir()
        corpus = self.good / "corpus"
        corpus.mkdir()
        write_corpus(corpus)
        self._save_logits()
        config = small_config("corpus", objective__name="exact", optimizer__epochs=1)
        (self.good / "train.toml").write_text(to_toml(config))
        explain = self._commands()[LOGITS[0]]  # here, so that the copies find all kernels compiled
        for words in (["train", "--config", "train.toml", "--output", "run"], explain):
            ended, said = self._run(words, self.good)
            assert ended == "exit code 0", f"{words}: {said}"
        self.expected = {}
        for name in self._commands():
            self.expected[name] = self._result(name, self._copy("undamaged"))
            assert self.expected[name][0] == "exit code 0", f"{name}: {self.expected[name][1]}"
        shutil.rmtree(folder / "undamaged")

    def check(self, seed):
        choose = random.Random(seed)
        target = choose.choice(list(self.targets()))
        name = choose.choice(self.targets()[target])
        place = self._copy(f"damaged-{seed}")
        damage = self._damage(choose, place, target)
        ended, said, *result = self._result(name, place)
        wrong = None
        if ended == "exit code 0":
            if target not in LOGITS and tuple(result) != self.expected[name][2:]:
                wrong = "another result, and no word of it"
        elif ended not in ("exit code 1", "exit code 2"):
            wrong = ended
        elif "Traceback" in said or sum(line.startswith("bleugrad ") for line in said.splitlines()) != 1:
            wrong = f"{ended}, not in one line: {said[-300:]}"
        shutil.rmtree(place)
        return wrong and f"{name}, {target}: {damage}: {wrong}"

    def targets(self):
        """Which commands read each file."""
        kernels = [
            f"cache/bleugrad/kernels/{path.name}" for path in (self.good / "cache/bleugrad/kernels").glob("*.so")
        ]
        return {
            "run/checkpoints/last.safetensors": ["resume"],
            "run/checkpoints/best.safetensors": ["translate"],
            "run/run.json": ["resume", "translate"],
            "run/vocabulary.source.json": ["resume", "translate"],
            "run/vocabulary.target.json": ["resume", "translate"],
            "corpus/train.de": ["resume"],
            "corpus/train.en": ["resume"],
            **{name: [name] for name in LOGITS},
            "tokens.json": list(LOGITS[:1]),
            **{name: list(LOGITS[:1]) for name in kernels},
        }

    def _commands(self):
        explain = {name: ["explain", name, "--vocabulary", "tokens.json", *REFERENCE] for name in LOGITS}
        resume = ["train", "--resume", "--optimizer-epochs", "2", "--output", "run"]
        return {"resume": resume, "translate": ["translate", "run", "--beam", "2"]} | explain

    def _result(self, name, place):
        """How a command ended, what it said, and what must not differ."""
        ended, said = self._run(self._commands()[name], place)
        if name != "resume":
            return ended, said, said if ended == "exit code 0" else ""
        files = [place / "run" / "checkpoints" / file for file in ("last.safetensors", "best.safetensors")]
        return ended, said, [path.read_bytes() if path.exists() else None for path in files]

    def _run(self, words, place):
        return run_child(partial(self._main, words, place), self.folder / f"said-{place.name}", SECONDS)

    @staticmethod
    def _main(words, place):
        os.chdir(place)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        with open("corpus/test.de", "rb") as lines:
            os.dup2(lines.fileno(), 0)
        import sys

        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        return main(words)

    def _copy(self, name):
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.good, self.folder / name)
        return self.folder / name

    def _save_logits(self):
        logits = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3))).float()
        save_file({"logits": logits}, self.good / LOGITS[0])
        np.save(self.good / LOGITS[1], logits.numpy())
        np.savez(self.good / LOGITS[2], logits=logits.numpy())
        torch.save(logits, self.good / LOGITS[3])
        (self.good / "tokens.json").write_text(json.dumps(["a", "b", "c"]))

    def _damage(self, choose, place, target):
        """Damage one file; what was done to it, in words."""
        path = place / target
        ways = [flip_bits, cut_off, overwrite]
        if path.suffix == ".json":
            ways += [change_json] * 3
        if path.suffix == ".safetensors":
            ways += [change_tensor] * 3 + [change_metadata] * 3
        return choose.choice(ways)(choose, path)


def flip_bits(choose, path):
    content = bytearray(path.read_bytes())
    places = [choose.randrange(8 * len(content)) for _ in range(choose.choice([1, 1, 8]))]
    for bit in places:
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bits {places} flipped"


def cut_off(choose, path):
    size = choose.choice([0, choose.randrange(path.stat().st_size)])
    os.truncate(path, size)
    return f"cut off after {size} bytes"


def overwrite(choose, path):
    path.write_bytes(choose.choice([b"\0" * path.stat().st_size, choose.randbytes(300), b"{}\n", b"null"]))
    return "overwritten"


def change_json(choose, path):
    content = json.loads(path.read_text())
    words, content = _change_inside(choose, content)
    path.write_text(json.dumps(content))
    return words


def change_tensor(choose, path):
    """One tensor is left out, or replaced by another of a wrong shape or type."""
    metadata, tensors = _read(path)
    name = choose.choice(sorted(tensors))
    value = tensors.pop(name)
    ways = {
        "left out": None,
        "replaced by torch.zeros(1)": torch.zeros(1),
        "of float64": value.double(),
        "of int64": value.long(),
        "flattened": value.flatten().clone(),
        "longer": torch.cat([value.flatten(), torch.ones(1)]),
        "full of NaN": value * torch.nan,
        "with another value": value + 1,
    }
    way = choose.choice(list(ways))
    if ways[way] is not None:
        tensors[name] = ways[way]
    save_file(tensors, path, metadata)
    return f"{name} {way}"


def change_metadata(choose, path):
    """The text of the header, or a value of the JSON in it."""
    metadata, tensors = _read(path)
    if not metadata or choose.random() < 0.2:
        save_file(tensors, path, {"x": "y"})
        return "another header"
    key = next(iter(metadata))
    words, content = _change_inside(choose, json.loads(metadata[key]))
    save_file(tensors, path, {key: choose.choice([json.dumps(content)] * 4 + ["not JSON"])})
    return f"header {words}"


def _read(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _change_inside(choose, content):
    """A value somewhere in nested JSON is replaced, or left out; words for it, and the whole."""
    if not isinstance(content, dict | list) or not content or choose.random() < 0.15:
        value = choose.choice(WRONG_JSON)
        return f"{str(content)[:30]} is {str(value)[:30]}", value
    key = choose.choice(sorted(content)) if isinstance(content, dict) else choose.randrange(len(content))
    if choose.random() < 0.15:
        del content[key]
        return f"{key} left out", content
    words, content[key] = _change_inside(choose, content[key])
    return f"{key}.{words}", content
