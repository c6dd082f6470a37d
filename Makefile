# On a fresh machine with Python 3.11–3.13: `make report` builds the report, `make test` runs the tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The versions that were tested, by the interpreter's; `LOCK=` takes the newest.
LOCK = -c constraints/python$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt
LOCKED = pyproject.toml constraints.txt $(wildcard constraints/*.txt)
# Modules and tests are compiled once, also where the environment would have every process do it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: report snapshot golden worlds proofs test lint unit test-slow test-long test-newest lock coverage docs clean

report: $(VENV)/.report
	$(BIN)/thermostats report --all

# Findings held against the frozen ones; `make golden CLAIMS="C04 C07"` for some.
golden: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python tests/golden/golden.py $(CLAIMS)

# What the repository keeps of the report, written anew: findings, index, the first screen of each claim, the models in
# the documentation, the table in the README.
snapshot: $(VENV)/.report
	$(BIN)/thermostats report --all --snapshot
	$(BIN)/python docs/generate.py --snapshot

# Every rule in simulated worlds: data/worlds.csv, which reports read. Resumable; `make worlds CLAIMS="C04 N01"` for some.
worlds: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python scripts/worlds.py $(CLAIMS)

# A tiny model of every class held against itself, under the transformers that is installed: data/proofs.csv, whose rows
# of other versions stay; `make proofs CLASSES="bloom gemma2"` for some.
proofs: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python scripts/proofs.py $(CLASSES)

# Linters and types run while the tests do, and either failing fails.
test: $(VENV)/.test
	$(MAKE) --no-print-directory --jobs=2 lint unit

# What they say comes whole, when they end.
lint: $(VENV)/.test
	@said=$$({ $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/codespell && $(BIN)/mypy; } 2>&1); \
	status=$$?; echo "$$said"; exit $$status

unit: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -m "not slow"

test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -m "slow and not long"

test-long: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -m long

# The tests with the newest versions of what is installed, in an environment of their own; then
# `make lock VENV=build/newest` writes these down as the ones that are tested.
test-newest:
	$(MAKE) --no-print-directory VENV=build/newest LOCK= test

lock:
	$(BIN)/python scripts/lock.py

# Lines of thermostats/ that the tests run, the slow ones left out; fails below what pyproject.toml asks for.
coverage: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -m "not slow" --cov --cov-report=term

# The documentation site, into site/: reference pages from the code, then the build; a warning or dead link fails.
docs: $(VENV)/.test
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Installed once, and again when pyproject.toml or a lock changes.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(f"Python 3.11 to 3.13 is needed, {sys.executable} is %d.%d; try make PYTHON=python3.11" % v if not (3, 11) <= v <= (3, 13) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.report: $(LOCKED) | $(VENV)/bin/python
	$(PIP) $(LOCK) --editable .
	touch $@

# torch comes first and exactly (constraints.txt), so that no other build of it is pulled; without a build for this
# interpreter the tests that need it are skipped.
$(VENV)/.test: $(LOCKED) | $(VENV)/bin/python
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then \
	  $(PIP) $(LOCK) -c constraints.txt torch && $(PIP) $(LOCK) -c constraints.txt --editable '.[dev,measure]'; \
	else \
	  $(PIP) $(LOCK) --editable '.[dev]'; \
	fi
	touch $@ $(VENV)/.report

clean:
	rm -rf $(VENV) build dist
