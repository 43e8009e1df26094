"""Damaged or modified checkpoints are refused with a one-line error, and no saved file is changed."""

import hashlib
import json
import random
import shutil
from dataclasses import replace

import pytest
import torch

from bleugrad.lab.commands.main import main
from bleugrad.lab.errors import FailureError
from bleugrad.lab.training.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from bleugrad.lab.training.run import train_run
from tests.lab.training.corpora import small_config

LAST, BEST = "checkpoints/last.safetensors", "checkpoints/best.safetensors"


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_refused(corpus, run, message):
    """Resume says one line that matches, and leaves every file as it was."""
    before = contents(run)
    with pytest.raises(FailureError, match=message) as caught:
        train_run(small_config(corpus, optimizer__epochs=3), run, resume=True)
    assert "\n" not in str(caught.value)
    assert contents(run) == before


def change_optimizer(run, change):
    path = run / LAST
    checkpoint = read_checkpoint(path)
    write_checkpoint(path, replace(checkpoint, optimizer=change(dict(checkpoint.optimizer))))


def shrink(key):
    return lambda tensors: {name: torch.zeros(1) if name.startswith(key) else tensors[name] for name in tensors}


def shrink_one(tensors):
    return tensors | {"exp_avg.output.weight": torch.zeros(1)}


def without(name):
    return lambda tensors: {key: value for key, value in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            shrink("exp_avg_sq."),
            r"exp_avg_sq\.\S+ is 1 of float32 in the checkpoint and \d+x\d+ of float32 in",
        ),
        (shrink_one, r"exp_avg\.output\.weight is 1 of float32 in the checkpoint and 11x6 of float32 in the model"),
        (shrink("step."), r"step\.\S+ is 1 of float32 in the checkpoint and a number of float32"),
        (lambda tensors: tensors | {"step.output.bias": torch.tensor(3)}, "is a number of int64 in the checkpoint"),
        (
            lambda tensors: tensors | {"exp_avg.output.bias": tensors["exp_avg.output.bias"].double()},
            r"exp_avg\.output\.bias is 11 of float64 in the checkpoint and 11 of float32 in the model",
        ),
        (without("exp_avg.output.bias"), r"exp_avg\.output\.bias is absent in the checkpoint"),
        (lambda tensors: {}, r"exp_avg\.\S+ is absent in the checkpoint"),
        (lambda tensors: tensors | {"exp_avg.new": torch.zeros(1)}, r"exp_avg\.new is .* and absent in the model"),
        (lambda tensors: tensors | {"output": torch.zeros(1)}, "output is .* and absent in the model"),
    ],
)
def test_optimizer_tensors_have_the_names_shapes_and_types_of_the_model(corpus, run, change, message):
    change_optimizer(run, change)
    check_refused(corpus, run, message)


def test_weights_of_another_type_are_refused(corpus, run):
    checkpoint = read_checkpoint(run / LAST)
    checkpoint.weights["output.bias"] = checkpoint.weights["output.bias"].bfloat16()
    write_checkpoint(run / LAST, checkpoint)
    check_refused(corpus, run, r"output\.bias is 11 of bfloat16 in the checkpoint and 11 of float32 in the model")


def test_a_tensor_of_neither_part_is_refused(run):
    from safetensors.torch import load_file, save_file

    seal(run / LAST, read_header(run / LAST), load_file(run / LAST) | {"other": torch.zeros(1)}, save_file)
    with pytest.raises(FailureError, match="holds 'other', which is no tensor of a checkpoint"):
        read_checkpoint(run / LAST)


def read_header(path):
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    return json.loads(metadata["bleugrad checkpoint"])


def seal(path, header, tensors, save_file):
    """Write a file whose checksum is right, as its definition says: that of the file with zeros in its place."""
    zeros = "0" * 64
    save_file(tensors, path, {"bleugrad checkpoint": json.dumps(header | {"checksum": zeros})})
    content = path.read_bytes()
    path.write_bytes(content.replace(zeros.encode(), hashlib.blake2b(content, digest_size=32).hexdigest().encode(), 1))


def set_at(state, path, value):
    *tables, last = path
    for table in tables:
        state = state[table]
    state[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["position"], [], r"state\.position is \[\]; expected a table"),
        (["position", "step"], "10", r"state\.position\.step is '10'; expected a whole number from 0"),
        (["position", "step"], True, r"state\.position\.step is True; expected a whole number"),
        (["position", "step"], 3, r"state\.position\.step is 3; expected 10"),
        (["position", "step"], 12, r"state\.position\.step is 12; expected 10"),
        (["position", "done"], -1, r"state\.position\.done is -1; expected a whole number from 0"),
        (["position", "epoch"], 2, r"state\.position\.epoch is 2; expected 3 after epoch 2"),
        (["position", "epoch"], 3.0, r"state\.position\.epoch is 3\.0; expected a whole number"),
        (["position", "loss"], None, r"state\.position\.loss is None; expected a finite number"),
        (["position", "extra"], 1, r"state\.position\.extra is unknown"),
        (["schedule", "learning_rate"], 0.0, r"learning_rate is 0\.0; expected a finite number above 0"),
        (["schedule", "best"], "high", r"state\.schedule\.best is 'high'; expected a finite number"),
        (["schedule", "best_epoch"], 7, r"best_epoch is 7; expected at most 2"),
        (["history"], {}, r"state\.history is \{\}; expected a list"),
        (["history"], None, r"state\.history is None; expected a list"),
        (["history", 0], 1, r"state\.history\[0\] is 1; expected a table"),
        (["history", 1, "bleu"], None, r"state\.history\[1\]\.bleu is None; expected a finite number"),
        (["history", 1, "precisions"], [0.5, "x"], r"history\[1\]\.precisions\[1\] is 'x'"),
        (["records_end"], "0", r"state\.records_end is '0'; expected a whole number"),
        (["records_end"], -1, r"state\.records_end is -1; expected a whole number"),
        (["records_end"], 10**9, r"metrics\.jsonl has \d+ bytes, and 1000000000 when"),
        (["records_end"], 5, r"no record of .*metrics\.jsonl ends at byte 5"),
        (["vocabularies"], {"source": "x"}, r"state\.vocabularies\.target is missing"),
        (["data"], 3, r"state\.data is 3; expected text"),
        (["processes"], "1", r"state\.processes is '1'; expected a whole number"),
    ],
)
def test_the_state_has_the_right_keys_types_and_ranges(corpus, run, path, value, message):
    checkpoint = read_checkpoint(run / LAST)
    set_at(checkpoint.state, path, value)
    write_checkpoint(run / LAST, checkpoint)
    check_refused(corpus, run, message)


def test_more_steps_than_an_epoch_has_are_refused(corpus, run):
    checkpoint = read_checkpoint(run / LAST)
    checkpoint.state["position"] |= {"done": 5, "step": 15}
    write_checkpoint(run / LAST, checkpoint)
    check_refused(corpus, run, "does not fit the run: 5 steps of an epoch of 5 are done")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{", r"no checkpoint at all \(.*\); it was left as it is"),
        ("[" * 100_000, "no checkpoint at all"),
        ("3", "its header is not a table"),
        ("{}", "has format None; this version of bleugrad reads format 2"),
        ('{"version": 1, "state": {}}', "has format 1, which has no checksum; this version of bleugrad reads format 2"),
        ('{"version": 2, "state": {}}', "its checksum is wrong"),
        ('{"version": 2, "checksum": 3, "state": {}}', "its checksum is wrong"),
        ('{"version": 2, "checksum": "", "state": {}}', "its checksum is wrong"),
    ],
)
def test_a_header_that_is_none_is_refused(corpus, run, header, message):
    from safetensors.torch import load_file, save_file

    save_file(load_file(run / LAST), run / LAST, {"bleugrad checkpoint": header})
    check_refused(corpus, run, message)


def test_a_sealed_header_without_state_is_refused(corpus, run):
    from safetensors.torch import load_file, save_file

    seal(run / LAST, {"version": 2}, load_file(run / LAST), save_file)
    check_refused(corpus, run, r"state\.position is missing")


@pytest.mark.parametrize("name", [LAST, BEST])
def test_no_changed_bit_passes(run, name):
    """Random bits of the header and of the tensors after it."""
    path = run / name
    content = path.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    choice = random.Random(0)
    places = [*choice.sample(range(data), 300), *choice.sample(range(data, len(content)), 300)]
    passed = []
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << choice.randrange(8)
        path.write_bytes(flipped)
        try:
            read_checkpoint(path)
        except FailureError:
            continue
        passed.append(place)
    assert passed == []


def test_the_command_says_one_line_and_keeps_the_run(corpus, run, tmp_path, capsys):
    content = bytearray((run / LAST).read_bytes())
    content[-1] ^= 1
    (run / LAST).write_bytes(content)
    (run / BEST).write_bytes((run / BEST).read_bytes()[:-4] + b"\0\0\0\0")
    before = contents(run)
    tuned = ["tune", str(run), "--output", str(tmp_path / "tuned")]
    for words in (["train", "--resume", "--output", str(run)], ["evaluate", str(run)], tuned):
        assert main(words) == 1
        shown = capsys.readouterr().err.splitlines()
        assert len(shown) == 1
        assert "damaged" in shown[0]
        assert "its checksum is wrong" in shown[0]
    assert contents(run) == before
    assert not (tmp_path / "tuned").exists()


def test_a_checkpoint_before_the_first_step_has_no_optimizer(corpus, finished, tmp_path, monkeypatch):
    from bleugrad.lab.training.trainer import Trainer

    config = small_config(corpus, objective__name="exact")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", lambda trainer: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train_run(config, tmp_path / "tuned", initial=finished, study="tune")
    assert read_checkpoint(tmp_path / "tuned" / LAST).optimizer == {}
    assert train_run(config, tmp_path / "tuned", initial=finished, study="tune", resume=True)["epochs"] == 2


def test_a_checkpoint_reads_back_as_it_was_written(finished, tmp_path):
    written = read_checkpoint(finished / LAST)
    path = tmp_path / "copy.safetensors"
    write_checkpoint(path, written)
    assert path.read_bytes() == (finished / LAST).read_bytes()
    found = read_checkpoint(path)
    assert isinstance(found, Checkpoint)
    assert found.state == written.state
    for part in ("weights", "optimizer"):
        one, other = getattr(found, part), getattr(written, part)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": 3}, r"run\.json is damaged: run\.json\.status is 3; expected one of running, finished"),
        ({"status": "done"}, r"run\.json\.status is 'done'; expected one of running"),
        ({"study": ["train"]}, r"run\.json\.study is \['train'\]; expected text"),
        ({"resumed": 5}, r"run\.json\.resumed is 5; expected a list"),
        ({"resumed": [None]}, r"run\.json\.resumed\[0\] is None; expected text"),
        ({"seconds": "12"}, r"run\.json\.seconds is '12'; expected a finite number"),
        ({"versions": []}, r"run\.json\.versions is \[\]; expected a table of text"),
    ],
)
def test_wrong_types_in_run_json_are_refused(corpus, run, change, message):
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | change))
    check_refused(corpus, run, message)


def test_a_run_json_nested_without_end_is_refused(corpus, run):
    (run / "run.json").write_text("[" * 100_000)
    check_refused(corpus, run, r"run\.json cannot be read")
