"""Ways to damage a file. Each takes a ``random.Random`` and a path, and says in words what it did."""

import gzip
import hashlib
import json
import os
import re
import shutil

import torch
from safetensors import safe_open
from safetensors.torch import save

NO_CHECKSUM = b"0" * 64
WRONG_JSON = (None, True, -1, 2**70, 1e308, "", "x", [], [[]], {}, {"x": 1}, [None] * 9)
WRONG_TOML = ("nan", "-1", "1e400", '"x"', "[]", "9" * 30, "{}", "true", '"' + "x" * 10**6 + '"')


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


def remove(choose, path):
    path.unlink()
    return "removed"


PLAIN = (flip_bits, cut_off, overwrite)


def change_json(choose, path):
    words, content = change_inside(choose, json.loads(path.read_text()))
    path.write_text(json.dumps(content))
    return words


def change_toml(choose, path):
    """A setting gets a wrong value, is left out or comes twice."""
    lines = path.read_text().splitlines()
    number = choose.choice([place for place, line in enumerate(lines) if " = " in line])
    name = lines[number].split(" = ")[0]
    values = [f"{name} = {value}" for value in WRONG_TOML]
    lines[number] = choose.choice([*values, "", f"{lines[number]}\n{lines[number]}"])
    path.write_text("\n".join(lines) + "\n")
    return f"line {number + 1} is {lines[number][:60]!r}"


def grow_text(choose, path):
    """A very long word or line, or a gzip file that expands to 256 MB."""
    way = choose.choice(["long word", "long line", "gzip bomb"])
    if way == "gzip bomb":
        path.write_bytes(gzip.compress(b"a " * 2**20, 1) * 128)
    else:
        lines = path.read_text().splitlines()
        lines[choose.randrange(len(lines))] = "x" * 2 * 10**6 if way == "long word" else "ich " * 300_000
        path.write_text("\n".join(lines) + "\n")
    return way


def change_tensor(choose, path):
    """One tensor is left out, or replaced by another of a wrong shape, type or value."""
    metadata, tensors = read_tensors(path)
    name = choose.choice(sorted(tensors))
    value = tensors.pop(name)
    ways = {
        "left out": None,
        "replaced by torch.zeros(2)": torch.zeros(2),
        "of float64": value.double(),
        "of int64": value.long(),
        "with one more dimension": value[None].clone(),
        "longer": torch.cat([value.flatten(), torch.ones(1)]),
        "full of NaN": value * torch.nan,
        "with another value": value + 1,
    }
    way = choose.choice(list(ways))
    if ways[way] is not None:
        tensors[name] = ways[way]
    return f"tensor {name} {way}{_write_tensors(choose, path, tensors, metadata)}"


def change_header(choose, path):
    """The metadata is replaced, is not JSON, or holds another value somewhere."""
    metadata, tensors = read_tensors(path)
    words, new = "another header", {"x": "y"}
    if metadata and choose.random() < 0.9:
        key = next(iter(metadata))
        words, content = change_inside(choose, json.loads(metadata[key]))
        new = {key: choose.choice([json.dumps(content)] * 9 + ["not JSON"])}
    return f"header: {words}{_write_tensors(choose, path, tensors, new)}"


def _write_tensors(choose, path, tensors, metadata):
    """Write a safetensors file, in two of three cases with the checksum that a checkpoint of this content has."""
    content = save(tensors, metadata)
    old = re.search(rb'checksum\\": \\"([0-9a-f]{64})', content)
    if old is None or choose.random() < 1 / 3:
        path.write_bytes(content)
        return ""
    blank = content.replace(old[1], NO_CHECKSUM, 1)
    new = hashlib.blake2b(blank, digest_size=32).hexdigest().encode()
    path.write_bytes(blank.replace(NO_CHECKSUM, new, 1))
    return ", with a fitting checksum"


def read_tensors(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def change_inside(choose, content):
    """A value somewhere in nested JSON is replaced or left out; words for it, and the whole."""
    if not isinstance(content, dict | list) or not content or choose.random() < 0.15:
        value = choose.choice(WRONG_JSON)
        return f"{str(content)[:30]} is {str(value)[:30]}", value
    key = choose.choice(sorted(content)) if isinstance(content, dict) else choose.randrange(len(content))
    if choose.random() < 0.15:
        del content[key]
        return f"{key} left out", content
    words, content[key] = change_inside(choose, content[key])
    return f"{key}.{words}", content


def foreign_library(choose, path):
    """Another library, which lacks the functions."""
    import _ctypes

    shutil.copyfile(_ctypes.__file__, path)
    return "another library"


def spoil_lock(choose, path):
    """A lock that a killed process left, or something else in its place."""
    way = choose.choice(["stale", "FIFO", "directory", "link", "not text"])
    {
        "stale": lambda: path.write_text("1 host"),
        "FIFO": lambda: os.mkfifo(path),
        "directory": path.mkdir,
        "link": lambda: path.symlink_to("absent/absent"),
        "not text": lambda: path.write_bytes(b"\xff\0" * 999),
    }[way]()
    return way
