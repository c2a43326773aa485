# Two commands: `make demo` and `make test`. Both build what they need in .venv; nothing outside this folder is touched.
PYTHON ?= python3
VENV := .venv
TORCH ?= torch==2.13.0
RUN := $(VENV)/bin

.PHONY: demo test lint install-test bench exhaustive clean
.DEFAULT_GOAL := demo

$(RUN)/python:
	$(PYTHON) -m venv $(VENV)

# The digits CNN under eight operators: accuracy and time of each, next to fp32.
demo: $(RUN)/python
	$(RUN)/python -m pip install --quiet --disable-pip-version-check .
	$(RUN)/python examples/digits/run.py

# Not an editable install: what is tested is what a user gets, and no build folder has to survive. PyTorch comes first, so that
# nothing else picks its version; `make test TORCH=` leaves it and its tests out.
install-test: $(RUN)/python
	$(if $(TORCH),$(RUN)/python -m pip install --quiet --disable-pip-version-check $(TORCH))
	$(RUN)/python -m pip install --quiet --disable-pip-version-check '.[test]'

lint: install-test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy src/numc
	PYTHONPATH=src $(RUN)/lint-imports --no-cache

test: lint
	$(RUN)/python -m pytest -q -m 'not slow' -n 2 --dist loadfile

# Speed next to its peers: benchmarks/results.json, then the tables and plots of docs/performance.md.
bench: $(RUN)/python
	$(RUN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(RUN)/python -m benchmarks run
	$(RUN)/python -m benchmarks render

# Every float32 input of every conversion and function: hours.
exhaustive: install-test
	$(RUN)/python -m pytest -q -m slow

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
