"""Compiles the C kernels into ``src/bleugrad/backends/c``, when a package is built and by ``python hatch_build.py``.

The compiler is ``cc`` or that of the environment variable CC; CFLAGS, ARCHFLAGS and LDFLAGS are added.
"""

import os
import runpy
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "src" / "bleugrad" / "backends" / "c"

FLAGS = "-std=c11 -Werror=implicit-function-declaration -Wno-psabi -fPIC -shared"
OPTIMISATION = "-O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math"
"""Nothing that reorders sums or supposes that there is no NaN."""

LEVELS = {
    "default": "",
    "avx2": "-mavx2 -mfma",
    "avx512": "-mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl",
}
"""Capabilities of x86-64 processors under torch's names, with the instructions that torch has looked for then."""


def build() -> list[Path]:
    """Compile one library per capability and C type; returns none where there is no compiler."""
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if os.name != "posix" or shutil.which(compiler[0]) is None:
        return []
    compiler += _flags("CFLAGS") + _flags("ARCHFLAGS")
    target = subprocess.run([*compiler, "-dumpmachine"], check=True, capture_output=True, text=True).stdout
    levels = LEVELS if target.startswith("x86_64") and "linux" in target else ["default"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: _compile(compiler, *pair), product(levels, ("float", "double"))))


def _flags(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))


def _compile(compiler: list[str], level: str, real: str) -> Path:
    path = FOLDER / f"{real}_{level}.so"
    fingerprint = runpy.run_path(str(FOLDER / "fingerprint.py"))["fingerprint"]()
    macros = [f"-DREAL={real}", f'-DFINGERPRINT="{fingerprint}"']
    options = [*f"{FLAGS} {OPTIMISATION} {LEVELS[level]}".split(), *macros]
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".") as folder:
        made = Path(folder, path.name)
        sources = sorted(map(str, FOLDER.glob("*.c")))
        subprocess.run([*compiler, *options, *sources, "-o", str(made), "-lm", *_flags("LDFLAGS")], check=True)
        made.replace(path)  # a process that has loaded the old library keeps it
    return path


def get_build_hook() -> type:
    """The hook that hatchling calls for a wheel; hatchling is imported here, since the command does without it."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class KernelHook(BuildHookInterface):
        def initialize(self, version: str, build_data: dict) -> None:
            try:
                made = build()
                reason = "there is no C compiler"
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                made, reason = [], str(error)
            if not made:
                self.app.display_warning(f"bleugrad is built without compiled kernels and will be slower: {reason}")
                return
            platform = self.build_config.builder.get_best_matching_tag().split("-")[-1]
            build_data["tag"], build_data["pure_python"] = f"py3-none-{platform}", False
            build_data["artifacts"] += [f"/{path.relative_to(self.root)}" for path in made]

    return KernelHook


if __name__ == "__main__":
    print(*([path.name for path in build()] or ["no C compiler: no kernels were built"]))
