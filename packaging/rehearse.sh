#!/usr/bin/env bash
# Rehearses a release: builds wheel and sdist in a clean clone of HEAD, installs each into an empty environment, and compares what
# the README's first example prints there. Give other constraints and another interpreter to try the oldest versions:
#   packaging/rehearse.sh [CONSTRAINTS [PYTHON]]
set -euo pipefail
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
constraints=$(realpath "${1:-$root/constraints.txt}") python=${2:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH

git clone -q "$root" "$scratch/clone"
"$python" -m venv "$scratch/build"
"$scratch/build/bin/pip" install -q -c "$root/constraints.txt" build
PIP_CONSTRAINT=$root/constraints.txt "$scratch/build/bin/python" -m build --outdir "$scratch/dist" "$scratch/clone" >"$scratch/log" 2>&1 \
  || { cat "$scratch/log"; exit 1; }

cd "$scratch"
for package in dist/*; do
  printf '\n== %s, Python %s\n' "${package#*/}" "$("$python" -c 'import platform; print(platform.python_version())')"
  rm -rf venv && "$python" -m venv venv
  venv/bin/pip install -q -c "$constraints" "$package"
  venv/bin/pip freeze | grep -iE '^(bleugrad|numpy|torch)\b'
  venv/bin/python -W error clone/examples/first_loss.py | tee printed  # kernels that were not built would be a warning
  sed -n '/^## First loss/,$p' clone/README.md | sed -n '/^```text/,/^```$/p' | sed '1d;/^```/,$d' | diff - printed
done
printf '\n== passed\n'
