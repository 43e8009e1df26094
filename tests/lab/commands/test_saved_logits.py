"""Saved logits and vocabularies are read; an error message names what is wrong with a file."""

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bleugrad.lab.commands.saved_logits import read_logits, read_vocabulary_list, token_ids
from bleugrad.lab.errors import FailureError, UsageError

LOGITS = torch.arange(24, dtype=torch.float32).view(2, 3, 4)


def write(path, value):
    if path.suffix == ".npy":
        np.save(path, value.numpy())
    elif path.suffix == ".npz":
        np.savez(path, logits=value.numpy(), other=np.zeros(3))
    elif path.suffix == ".safetensors":
        save_file({"logits": value, "other": torch.zeros(3)}, path)
    else:
        torch.save(value, path)
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors", "a.pt", "a.pth"])
def test_every_format_gives_the_tensor_back(tmp_path, name):
    checkpoints = read_logits(write(tmp_path / name, LOGITS))
    assert len(checkpoints) == 2
    assert torch.equal(torch.stack(checkpoints), LOGITS)
    (alone,) = read_logits(write(tmp_path / name, LOGITS[0].contiguous()))
    assert torch.equal(alone, LOGITS[0])


def test_one_tensor_of_several_is_chosen_by_name(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"first": LOGITS, "second": LOGITS + 1, "note": "text"}, path)
    assert torch.equal(torch.stack(read_logits(path, "second")), LOGITS + 1)
    with pytest.raises(UsageError, match="holds several tensors; choose one with --name: first, second"):
        read_logits(path)
    with pytest.raises(UsageError, match="holds no tensor 'third'"):
        read_logits(path, "third")


class Executed:
    def __reduce__(self):
        return (print, ("executed",))


def test_nothing_in_a_file_is_executed(tmp_path, capsys):
    path = tmp_path / "a.pt"
    path.write_bytes(pickle.dumps(Executed(), protocol=2))
    with pytest.raises(FailureError, match="holds more than tensors"):
        read_logits(path)
    path = tmp_path / "a.npy"
    np.save(path, np.array([Executed()]), allow_pickle=True)
    with pytest.raises(FailureError, match="holds no plain numbers"):
        read_logits(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors", "a.pt"])
def test_a_file_that_is_cut_off_is_said_to_be(tmp_path, name):
    path = write(tmp_path / name, LOGITS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FailureError, match="truncated"):
        read_logits(path)


def test_what_is_no_logits_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"expected floating logits \(T, V\)"):
        read_logits(write(tmp_path / "a.npy", torch.zeros(3)))
    with pytest.raises(UsageError, match=r"holds torch.int64 of shape \(2, 2\)"):
        read_logits(write(tmp_path / "b.npy", torch.zeros(2, 2, dtype=torch.long)))
    with pytest.raises(UsageError, match="there is no file"):
        read_logits(tmp_path / "none.npy")
    with pytest.raises(UsageError, match=r"ends in '.txt'"):
        read_logits(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.txt", "a\nb b\n\nd\n"),
        ("v.json", json.dumps(["a", "b b", "", "d"])),
        ("v.json", json.dumps({"d": 3, "a": 0, "": 2, "b b": 1})),
        ("v.json", json.dumps({"kind": "words", "tokens": ["a", "b b", "", "d"]})),
    ],
)
def test_a_vocabulary_is_read_in_every_form(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_vocabulary_list(path) == ["a", "b b", "", "d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"a": 0, "b": 0}', "does not give each token an id of its own from 0 to 1"),
        ('{"a": true}', "does not give each token an id"),
        ("[1]", "holds no list of tokens"),
        ("3", "holds no list of tokens"),
    ],
)
def test_what_is_no_vocabulary_is_refused(tmp_path, content, message):
    path = tmp_path / "v.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_vocabulary_list(path)


def test_references_are_tokens_or_ids():
    assert token_ids("b a b", ["a", "b"]) == [1, 0, 1]
    assert token_ids("5 0", None) == [5, 0]
    with pytest.raises(UsageError, match="holds 'c', which is not in the vocabulary"):
        token_ids("a c", ["a", "b"])
    with pytest.raises(UsageError, match="holds '-1'; expected token ids"):
        token_ids("-1", None)


def test_a_damaged_header_of_numpy_is_told(tmp_path):
    path = write(tmp_path / "a.npy", torch.zeros(2, 2))
    path.write_bytes(path.read_bytes().replace(b"}", b"("))  # a bracket that is never closed
    with pytest.raises(FailureError, match="truncated, damaged, or holds no plain numbers"):
        read_logits(path)
