# Development commands; `make help` lists them.
PYTHON      ?= python3
DIST        ?= dist
PYTEST_ARGS ?=

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

# The kernels of an editable install, rebuilt when their sources change.
C_FOLDER := src/bleugrad/backends/c
KERNELS  := $(VENV)/.kernels

# The build backend is installed into an environment of its own. Both names hold it to the same versions: older
# releases of pip read the first, newer ones the second.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup kernels test faults reproduce lint format types docs package clean distclean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## create .venv with the pinned development set

# Redone only when the requirements change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "make: bleugrad needs Python 3.10 or newer, and PYTHON=$(PYTHON) is not; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@touch $@

kernels: $(KERNELS)  ## compile the C kernels into the package, as an installation does

$(KERNELS): $(STAMP) hatch_build.py $(wildcard $(C_FOLDER)/*.[ch])
	$(BIN)/python hatch_build.py
	@touch $@

test: $(KERNELS)  ## run the tests and the docstring examples (PYTEST_ARGS="-m 'not slow'" and the like)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 $(PYTEST_ARGS)

faults: $(KERNELS)  ## fault injection: 30,000 calls, 10,000 enumerated cases, 60 kills, 250 damaged files (at most about 40 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

reproduce: $(KERNELS)  ## rerun the README's example, the toy study, the paper's protocol and a one-pass model on a built-in corpus, into runs/
	$(BIN)/python examples/first_loss.py
	$(BIN)/bleugrad toy --output runs/toy --overwrite
	$(BIN)/bleugrad reproduce --preset builtin --jobs 2 --output runs/paper
	$(BIN)/bleugrad reproduce --preset builtin-nat --seeds 1 --branches ce,exact --base-epochs 12 --tuning-epochs 3 --tuning-factors 2 --jobs 2 --output runs/one-pass

lint: $(STAMP)  ## check style, formatting and the workflows of GitHub
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.readthedocs .readthedocs.yaml
	$(BIN)/zizmor -q --offline --min-severity medium .github

format: $(STAMP)  ## fix style and formatting automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)  ## check types
	$(BIN)/mypy

docs: $(KERNELS)  ## build the documentation into build/docs, warnings are errors
	$(BIN)/sphinx-build -q -W -n --keep-going -d build/doctrees docs build/docs

package: $(STAMP)  ## build sdist and wheel into dist, and check them
	$(BIN)/python -m build --outdir "$(DIST)"
	$(BIN)/twine check --strict "$(DIST)"/bleugrad-*
	$(BIN)/check-wheel-contents "$(DIST)"/bleugrad-*.whl

clean:  ## remove build products and caches
	rm -rf $(C_FOLDER)/*.so $(KERNELS) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests docs examples corpora -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## and .venv
	rm -rf $(VENV)
