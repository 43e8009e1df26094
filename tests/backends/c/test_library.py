"""The libraries of the package: the one for the processor is used, or none, and one warning gives the reason."""

import _ctypes
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import bleugrad
from bleugrad.backends.c import library

BUILT = sorted(library.FOLDER.glob("*.so"))
pytestmark = pytest.mark.skipif(not BUILT, reason="no kernels: there was no C compiler")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="ELF files and /proc are those of Linux")
MISSING = r"^no compiled kernels: bleugrad was built without a C compiler; .*; slower torch operations"
UNUSABLE = r"^the compiled kernels cannot be used: .*{}.*; install bleugrad again .*; slower torch operations"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The libraries, copied to a place where they may be damaged."""
    for path in BUILT:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    return tmp_path


def assert_none_is_used(message):
    with pytest.warns(RuntimeWarning, match=message) as said:
        assert library._libraries.__wrapped__() == {}
    assert len(said) == 1
    assert "\n" not in str(said[0].message)


def test_copies_are_used(folder):
    assert library._libraries.__wrapped__().keys() == {"float", "double"}


def test_missing_libraries(folder):
    for path in folder.glob("double_*"):
        path.unlink()
    assert_none_is_used(MISSING)


@on_linux
@pytest.mark.parametrize("share", [0, 1e-4, 0.01, 0.3, 0.6, 0.9, 0.999, 1 - 1e-9])
def test_a_library_that_is_cut_off(folder, share):
    """Any part of it: in the header, in the code, and one byte short."""
    path = library._path("float")
    os.truncate(path, int(share * path.stat().st_size))
    assert_none_is_used(UNUSABLE.format("(is cut off|file too short)"))


@on_linux
def test_a_library_of_another_architecture(folder):
    path = library._path("float")
    content = bytearray(path.read_bytes())
    content[18:20] = (243 if content[18] != 243 else 62).to_bytes(2, "little")  # RISC-V, or x86-64
    path.write_bytes(content)
    assert_none_is_used(UNUSABLE.format(path.name))


def test_another_library(folder):
    shutil.copy(_ctypes.__file__, library._path("double"))
    assert_none_is_used(UNUSABLE.format("fingerprint"))


def test_a_file_that_is_no_library(folder):
    library._path("float").write_text("text")
    assert_none_is_used(UNUSABLE.format(library._path("float").name))


def test_a_library_of_other_sources(monkeypatch):
    monkeypatch.setattr(library, "fingerprint", lambda: "another")
    assert_none_is_used(UNUSABLE.format("was not compiled from these sources"))


def test_kernels_switched_off_on_purpose_are_not_warned_about(folder, monkeypatch):
    monkeypatch.setattr(library, "_libraries", lambda: pytest.fail("it was called"))
    monkeypatch.setenv(library.SWITCH, "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library.library_for(torch.empty(1)) is None


def capability(monkeypatch, name):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: name)


def test_the_capability_of_the_processor_chooses(folder, monkeypatch):
    for name in ("default", "avx2", "avx512"):
        (folder / f"float_{name}.so").touch()
        capability(monkeypatch, name.upper())
        assert library._path("float").name == f"float_{name}.so"
    capability(monkeypatch, "SVE256")
    assert library._path("float").name == "float_default.so"


def test_every_capability_has_the_same_results(rng, monkeypatch):
    """Those that this processor has; the words of a loss use most functions."""
    levels = ["DEFAULT", "AVX2", "AVX512"]
    own = torch.backends.cpu.get_cpu_capability()
    levels = levels[: levels.index(own) + 1] if own in levels else [own]
    logits, labels = torch.from_numpy(rng.normal(size=(4, 23, 57))), torch.from_numpy(rng.integers(0, 57, size=(4, 23)))
    starts = torch.from_numpy(rng.random(57) < 0.6)

    def compute(dtype):
        leaf = logits.to(dtype, copy=True).requires_grad_()
        loss = bleugrad.ExpectedBLEULoss(word_start=starts)(leaf, labels)
        loss.backward()
        return loss.detach(), leaf.grad

    for dtype, atol in ((torch.float64, 1e-13), (torch.float32, 1e-6)):
        monkeypatch.setenv(library.SWITCH, "0")
        wanted = compute(dtype)
        monkeypatch.setenv(library.SWITCH, "1")
        for level in levels:
            capability(monkeypatch, level)
            opened = library._libraries.__wrapped__()
            monkeypatch.setattr(library, "_libraries", lambda opened=opened: opened)
            torch.testing.assert_close(compute(dtype), wanted, rtol=0, atol=atol)
            assert bleugrad.backends.last_used()["exact_matches"] == "c"
            monkeypatch.undo()


LOSS = """
import sys, torch, bleugrad
from bleugrad.backends.c import library
torch.set_num_threads(2)
torch.manual_seed(0)
logits = torch.randn(2, 5, 9, requires_grad=True)
labels = torch.randint(9, (2, 5))
"""
STEP = """
loss = bleugrad.ExpectedBLEULoss(word_start=torch.arange(9) % 2 == 0)(logits, labels)
loss.backward()
print(bleugrad.backends.last_used()["exact_matches"], round(loss.item(), 5), round(logits.grad.norm().item(), 5))
"""


def run(program, **variables):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), library.SWITCH: ""} | variables
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_losses_work_where_kernels_do_not(folder):
    library._path("double").write_text("text")
    done = run(f"{LOSS}\nfrom pathlib import Path\nlibrary.FOLDER = Path({str(folder)!r})\n{STEP}")
    assert done.stderr.count("RuntimeWarning") == 1
    assert done.stdout == run(LOSS + STEP, **{library.SWITCH: "0"}).stdout
    assert done.stdout.startswith("torch")


def test_no_process_is_started():
    """In particular no compiler: whatever starts one raises an audit event."""
    forbidden = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"}
    hook = f"sys.addaudithook(lambda event, _: event in {forbidden} and sys.exit(event))\n"
    assert run(LOSS + hook + STEP).stdout.startswith("c ")
    started = "import os; os.system('true')"
    with pytest.raises(subprocess.CalledProcessError):
        run(LOSS + hook + started)


@on_linux
def test_threads_are_those_of_the_runtime_that_torch_has_loaded():
    """No second OpenMP runtime is loaded for two threads."""
    maps = "runtimes = lambda: {line.split()[-1] for line in open('/proc/self/maps') if 'omp' in line.split('/')[-1]}\n"
    program = f"{maps}{LOSS}\nbefore = runtimes()\nlibrary.THREAD_WORK = 1\n{STEP}\n"
    done = run(f"{program}print(library._team() is not None, len(before), runtimes() == before)")
    assert done.stdout.splitlines()[1].split()[::2] == ["True", "True"]
    linked = [Path(path).read_bytes() for path in BUILT]
    assert not [content for content in linked if b"libgomp" in content or b"libomp" in content]


def test_without_the_runtime_there_is_one_thread(rng, monkeypatch):
    monkeypatch.setattr(library, "_team", lambda: None)
    monkeypatch.setattr(library, "THREAD_WORK", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    logits, labels = torch.from_numpy(rng.normal(size=(4, 6, 9))), torch.from_numpy(rng.integers(0, 9, size=(4, 6)))
    found = bleugrad.expected_bleu(logits, labels).value
    monkeypatch.setenv(library.SWITCH, "0")
    torch.testing.assert_close(found, bleugrad.expected_bleu(logits, labels).value, rtol=0, atol=1e-13)
