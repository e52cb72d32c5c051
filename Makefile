# On a fresh machine: `make demo` runs a GEMM, `make quick` checks a change in a few minutes, `make test` checks everything but slow sweeps.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
PROCESSES := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Modules are compiled once, not in each of the processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test test-all lint bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml
	$(PIP) install --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime tests/constraints.txt
	$(PIP) install --constraint tests/constraints.txt --editable ".[test,oracles,assembler,cuda,cute,docs]"
	$(PIP) install --constraint tests/constraints.txt --no-deps nvidia-cutlass  # for pycute and the C++ headers: what the wheel asks for is not needed
	@touch $@

demo: $(VENV)/.runtime
	$(BIN)/python examples/gemm/demo.py

lint: $(VENV)/.test
	$(BIN)/ruff check src tests examples benchmarks docs
	$(BIN)/ruff format --check src tests examples benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: lint
	$(PYTEST) $(PROCESSES) --ignore tests/end_to_end --ignore tests/hardware -m "not slow and not sweep and not compiler and not recording"

test: lint
	$(PYTEST) $(PROCESSES) --durations=25 -m "not slow"

test-all: lint
	$(PYTEST) $(PROCESSES)

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
