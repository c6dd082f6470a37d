# On a fresh machine with Python 3.11–3.13: `make report` builds the report, `make test` runs the tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: report snapshot golden worlds test test-slow test-long coverage docs notebooks describe smoke fuzz clusters mutants robustness format clean

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

test: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/codespell && $(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m "not slow"

test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m "slow and not long"

test-long: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m long

# Lines of thermostats/ that the tests run, the slow ones left out; fails below what pyproject.toml asks for.
coverage: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m "not slow" --cov --cov-report=term

# The documentation site, into site/: reference pages from the code, then the build; a warning or dead link fails.
docs: $(VENV)/.test
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Notebooks from their scripts, with what they print.
notebooks: $(VENV)/.test
	$(BIN)/python notebooks/run.py

# What describes the tables in data/, made anew when they change: codebook and data package.
describe: $(VENV)/.report
	$(BIN)/python -m thermostats.tables.describe data

# The wheel alone, without torch, in an empty folder, on every interpreter; needs the registry.
smoke: $(VENV)/.test
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	$(BIN)/python scripts/smoke_wheel.py dist/*.whl python3.11 python3.12 python3.13

# Harnesses, each of minutes to hours; again with another SEED to go on. What kills, writers and clusters find is added to
# build/*.jsonl, and `make robustness` writes benchmarks/results/{faults,clusters}.md from it.
SEED ?= 1
HARNESS = OMP_NUM_THREADS=1 PYTHONPATH=tests:tests/reporting:tests/measurement:tests/faults $(BIN)/python

# 2,000 damaged files for each reader; a failure is shown as the smallest file that brings it about.
fuzz: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/fuzz -n auto --hypothesis-profile=many --hypothesis-seed=$(SEED)

clusters: $(VENV)/.test
	PYTHONPATH=tests:tests/measurement OMP_NUM_THREADS=1 $(BIN)/python tests/measurement/clusters.py

# One mutant in ten, those whose number ends in SEED, or those named: make mutants MUTANTS='thermostats.tables.mapping.*'.
# `mutmut results` then lists the survivors, `mutmut show NAME` what was changed.
MUTANTS ?= *__mutmut_*$(SEED)
mutants: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/mutmut run '$(MUTANTS)' && $(BIN)/mutmut export-cicd-stats
	$(BIN)/python -c 'import json; n = json.load(open("mutants/mutmut-cicd-stats.json")); alive = n["survived"] + n["no_tests"]; dead = n["killed"] + n["timeout"]; print(f"{dead} of {dead + alive} killed: {dead / (dead + alive):.1%}")'

robustness: $(VENV)/.test
	$(BIN)/python scripts/robustness.py build benchmarks/results

format: $(VENV)/.test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# Installed once, and again when pyproject.toml changes.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(f"Python 3.11 to 3.13 is needed, {sys.executable} is %d.%d; try make PYTHON=python3.11" % v if not (3, 11) <= v <= (3, 13) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.report: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

# torch comes first and exactly (constraints.txt), so that no other build of it is pulled; without a build for this
# interpreter the tests that need it are skipped.
$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then \
	  $(PIP) -c constraints.txt torch && $(PIP) -c constraints.txt --editable '.[dev,measure]'; \
	else \
	  $(PIP) --editable '.[dev]'; \
	fi
	touch $@ $(VENV)/.report

clean:
	rm -rf $(VENV) build dist mutants
