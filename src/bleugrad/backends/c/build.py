"""Building the kernels with the machine's own C compiler, once for each machine and version of the sources.

Libraries are kept in ``bleugrad/kernels`` of the user's cache directory (``XDG_CACHE_HOME``, or ``~/.cache``), each
beside its SHA-256 checksum. A library is code that will run: it is used only if folder and files belong to this user,
nobody else may write to them, and the checksum fits. Otherwise it is built again, where the folder is at fault in a
temporary one. Each file is written under another name and then renamed, so several processes may build at once and none
sees half of one.
"""

import atexit
import contextlib
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import warnings
from pathlib import Path

SWITCH = "BLEUGRAD_KERNELS"
"""Set to 0, this environment variable turns the kernels off."""

FLAGS = (
    "-std=c11",
    "-Werror=implicit-function-declaration",
    "-O3",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
)
"""Nothing that reorders sums or supposes that there is no NaN."""

PARALLEL = "-fopenmp"
"""Left out where the compiler does not know it."""

SECONDS = 60
"""How long the compiler may take; it needs about 4."""

_warned = False


def switched_off() -> bool:
    """Whether the user wants no kernels."""
    return os.environ.get(SWITCH) == "0"


def warn_once(message: str) -> None:
    """Give the user the first message of this process about the kernels, as a Python warning, and no other."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"{message}; set {SWITCH}=0 to do without compiled kernels", RuntimeWarning, stacklevel=2)


@functools.cache
def library_path(real: str) -> Path | None:
    """The library for the C type ``real``, built unless a whole one is there; None, with a warning, if that fails."""
    try:
        compiler = _compiler()
        name = f"{real}-{_fingerprint(compiler)}.so"
        try:
            path = _cache_folder() / name
            if not _is_whole(path):
                _compile(compiler, real, path)
        except OSError as error:
            path = _private_folder(str(error)) / name
            _compile(compiler, real, path)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        warn_once(f"no compiled kernels, slower torch operations take their place: {error}")
        return None
    return path


def _compiler() -> list[str]:
    """The words of ``CC``, which may hold options, with the full path of the first; ``cc`` by default."""
    given = os.environ.get("CC", "").strip() or "cc"
    try:
        name, *options = shlex.split(given)
    except ValueError as error:
        raise RuntimeError(f"CC is {given!r}: {error}") from None
    found = shutil.which(name)
    if found is None or os.name != "posix":
        raise RuntimeError(f"there is no C compiler {name!r}; install one, or name it in CC")
    return [found, *options]


def _cache_folder() -> Path:
    """The folder of the libraries, if no other user can put files into it or exchange it."""
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache").absolute() / "bleugrad" / "kernels"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not _is_private(status):
        raise PermissionError(f"{folder} is a link, belongs to another user, or may be written to by others")
    for parent in folder.resolve().parents:
        if parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            raise PermissionError(f"{parent} may be written to by every user")
    return folder


@functools.cache
def _private_folder(reason: str) -> Path:
    """A new folder for this process, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="bleugrad-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warn_once(
        f"the kernels cannot be kept, and every process compiles them again: {reason}; make the folder yours alone "
        "(chmod go-w), or set XDG_CACHE_HOME to another"
    )
    return Path(folder)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_whole(path: Path) -> bool:
    """Whether a library is there, is this user's, and has the checksum beside it."""
    try:
        return hashlib.sha256(_private_content(path)).hexdigest().encode() == _private_content(_sum(path))
    except OSError:
        return False


def _private_content(path: Path) -> bytes:
    """The bytes of a regular file of this user. No link is followed, and a FIFO is not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_private(status):
            raise PermissionError(f"{path} is not a file of this user alone")
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def _sum(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _sources() -> list[Path]:
    folder = Path(__file__).parent
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def _fingerprint(compiler: list[str]) -> str:
    """Of sources, compiler and processor: a home directory may be shared by machines whose instructions differ."""
    version = _run([*compiler, "--version"]).stdout
    described = (" ".join([*compiler[1:], *FLAGS, PARALLEL]), version, _processor())
    parts = [*(path.read_bytes() for path in _sources()), *map(str.encode, described)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _processor() -> str:
    """The kind of processor and its instructions."""
    described = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
        described += [line for line in lines if line.lower().startswith(("model name", "flags", "features"))]
    except OSError:
        pass  # not Linux: what platform knows has to do
    return "\n".join(described)


def _compile(compiler: list[str], real: str, path: Path) -> None:
    files = [str(source) for source in _sources() if source.suffix == ".c"]
    with tempfile.TemporaryDirectory(dir=path.parent, suffix=".part") as folder:
        partial = Path(folder) / path.name
        arguments = [*FLAGS, f"-DREAL={real}", *files, "-o", str(partial)]
        for flags in ([PARALLEL], []):
            done = _run([*compiler, *flags, *arguments])
            if done.returncode == 0:
                break
        else:
            raise RuntimeError(f"{compiler[0]} failed: {done.stderr.strip()[-500:]}")
        _sum(partial).write_text(hashlib.sha256(partial.read_bytes()).hexdigest())
        for made in (partial, _sum(partial)):
            made.chmod(0o600)
            _sync(made)
            os.replace(made, path.with_name(made.name))
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a process group of its own, which is ended as a whole when the time is over."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, complaints = process.communicate(timeout=SECONDS)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, complaints)
