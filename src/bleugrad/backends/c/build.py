"""Building the kernels with the machine's own C compiler, once for each machine and version of the sources.

Libraries are kept in ``bleugrad/kernels`` of the user's cache directory (``XDG_CACHE_HOME``, or ``~/.cache``). Each is
written under another name and then renamed, so several processes may build at once and none sees half of one.
"""

import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SWITCH = "BLEUGRAD_KERNELS"
"""Set to 0, this environment variable turns the kernels off."""

FLAGS = (
    "-std=c11",
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

SECONDS = 120
"""How long the compiler may take."""

_log = logging.getLogger(__name__)


def switched_off() -> bool:
    """Whether the user wants no kernels."""
    return os.environ.get(SWITCH) == "0"


@functools.cache
def library_path(real: str) -> Path | None:
    """The library for the C type ``real``, built if it is not there yet; None where that cannot be done."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None or os.name != "posix":
        return None
    try:
        path = _cache_folder() / f"{real}-{_fingerprint(compiler)}.so"
        if not path.exists():
            _compile(compiler, real, path)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        _log.info("no compiled kernels, torch operations take their place: %s", error)
        return None
    return path


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "bleugrad" / "kernels"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _sources() -> list[Path]:
    folder = Path(__file__).parent
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def _fingerprint(compiler: str) -> str:
    """Of sources, compiler and processor: a home directory may be shared by machines whose instructions differ."""
    version = _run([compiler, "--version"]).stdout
    described = (" ".join([*FLAGS, PARALLEL]), version, _processor())
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


def _compile(compiler: str, real: str, path: Path) -> None:
    files = [str(source) for source in _sources() if source.suffix == ".c"]
    handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    arguments = [*FLAGS, f"-DREAL={real}", *files, "-o", partial]
    try:
        for flags in ([PARALLEL], []):
            done = _run([compiler, *flags, *arguments])
            if done.returncode == 0:
                break
        else:
            raise RuntimeError(f"{compiler} failed: {done.stderr.strip()[-500:]}")
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS)
