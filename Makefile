# Every target sets up what it needs: `make demo` and `make test` are the only commands to remember.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes, which would compile everything anew
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --compile -c constraints.txt

.PHONY: help demo test test-all mutants lint format venv bench-classes bench-convex bench-explore bench-learn bench-lock bench-mppi bench-solve bench-price bench-regulators bench-rivals bench-runs bench-sweep clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(RUNTIME)  ## learn the rover from scratch, say what is certain, draw it (half a minute)
	@$(BIN)/bidual demo

test: $(DEV)  ## the tests of the gate, with their CPU time
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(DEV)  ## the tests and the long statistical and fuzz runs
	BIDUAL_TESTS=all $(BIN)/python -m pytest -n 2 --dist worksteal

mutants: $(DEV)  ## mutation testing of the checker: 60 mutants drawn at random
	$(BIN)/python -m tests.mutants

lint: $(DEV)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(DEV)  ## put the code in its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

venv: $(DEV)  ## set everything up and do nothing else

bench-classes: $(DEV)  ## planning over classes of laws and their likelihoods, against dense laws and loops
	$(BIN)/python -m benchmarks.classes

bench-convex: $(DEV)  ## convex problems over visits, against cone solvers
	$(BIN)/python -m benchmarks.convex

bench-explore: $(DEV)  ## ways of exploring and sets of laws
	$(BIN)/python -m benchmarks.explore

bench-learn: $(DEV)  ## values, certified gaps and CPU time of learning
	$(BIN)/python -m benchmarks.learn

bench-lock: $(DEV)  ## episodes until the lock with rich observations is open
	$(BIN)/python -m benchmarks.lock

bench-mppi: $(DEV)  ## one step of MPPI against pytorch-mppi, which it installs with torch
	$(PIP_INSTALL) -e ".[bench]"
	$(BIN)/python -m benchmarks.mppi

bench-solve: $(DEV)  ## speed and memory of solve against HiGHS on the occupancy program
	$(BIN)/python -m benchmarks.solve

bench-rivals: $(DEV)  ## solve beside Storm, interior points, PDLP and QuantEcon, which it installs
	$(PIP_INSTALL) -e ".[bench]"
	$(BIN)/python -m benchmarks.rivals

bench-price: $(DEV)  ## a price curve of twenty limits, in cold solves
	$(BIN)/python -m benchmarks.price

bench-regulators: $(DEV)  ## learned dynamics: cosines, and rollouts with and without optimism
	$(BIN)/python -m benchmarks.regulators

bench-runs: $(DEV)  ## what storing a run costs
	$(BIN)/python -m benchmarks.runs

bench-sweep: $(DEV)  ## a sweep on two processes against one
	$(BIN)/python -m benchmarks.sweep

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bidual needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing."; \
	    echo "On Debian and Ubuntu: apt install python3-venv. Or name another Python: make PYTHON=/path/to/python3 ..."; exit 2; }
	@echo "setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(PIP_INSTALL) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(RUNTIME)
