# The two main commands are `make demo` and `make test`. They build what they need in .venv and touch nothing outside of this folder.
PYTHON ?= python3
VENV := .venv
TORCH ?= torch==2.13.0
RUN := $(VENV)/bin
# pip with a line that says what it does.
INSTALL = $(RUN)/python tools/install.py
# The tests run in two processes; equal programs are compiled by one of them only.
PYTEST := $(RUN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: demo quick test test-all lint install-test bench exhaustive fuzz mutants sdist wheel release matrix clean
.DEFAULT_GOAL := demo

$(RUN)/python:
	$(PYTHON) -m venv $(VENV)

# The digits CNN under eight operators: accuracy and time of each, next to fp32, and a page of them.
demo: $(RUN)/python
	$(INSTALL) . jinja2
	$(RUN)/python examples/digits/run.py --page demo.html

# Not an editable install: what is tested is what a user gets, and no build folder has to survive. PyTorch comes first, so that
# nothing else picks its version; `make test TORCH=` leaves it and its tests out.
install-test: $(RUN)/python
	$(if $(TORCH),$(INSTALL) $(TORCH))
	$(INSTALL) '.[test]'

lint: install-test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy src/numc
	PYTHONPATH=src $(RUN)/lint-imports --no-cache
	$(RUN)/python -m tools.house
	$(RUN)/python -m tools.ratchet

# What a person runs while working, without lint: the definition and the passes, two minutes on two cores.
quick: install-test
	$(PYTEST) tests/arithmetic tests/passes

# The default tier: all that can break a bit.
test: lint
	$(PYTEST)

# The default tier with documentation, examples, training and light models: half an hour on two fast cores. One run, because what it compiles more than once comes from its cache.
test-all: lint
	$(PYTEST) -m 'not slow'

# Speed next to its peers: benchmarks/results.json, then the tables and plots of the pages.
bench: $(RUN)/python
	$(INSTALL) '.[bench]'
	$(RUN)/python -m benchmarks run
	$(RUN)/python -m benchmarks render

# The documentation as a site in site/: read site/index.html, or `python -m http.server -d site` to search it, too.
.PHONY: docs
docs: $(RUN)/python
	$(INSTALL) '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(RUN)/python -m mkdocs build --strict

# Every float32 input of every conversion and function, every operator on every target, full products of parameters: hours.
exhaustive: install-test
	$(RUN)/python -m pytest -q -m slow

# Random models against other runtimes, and damaged texts and files: docs/checking.md. KINDS chooses some of the fuzzers.
SECONDS ?= 600
fuzz: install-test
	PYTHONPATH=tests:tests/shared $(RUN)/python -m fuzz --seconds $(SECONDS) $(KINDS)

# The faults of tests/mutants.toml, one at a time in a copy of the sources: the default tier has to find each of them.
mutants: install-test
	$(RUN)/python -m tools.mutants

RELEASE := $(INSTALL) '.[release]'

# The source archive, dist/numc-VERSION.tar.gz. Its bytes depend on the commit alone.
sdist: $(RUN)/python
	$(RELEASE)
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(RUN)/python -m build --sdist

# The source archive and the wheels, each built twice to the same bytes; then a wheel does its job where no compiler is.
wheel: $(RUN)/python
	$(RELEASE)
	rm -rf dist
	$(RUN)/python tools/build_wheel.py --to dist
	NUMC_DIST=dist $(RUN)/python -m pytest -q -m slow tests/install/test_wheel.py

# What `make wheel` built goes to the package index: TWINE_PASSWORD is its token.
release:
	@test -n "$$TWINE_PASSWORD" || { echo "make release: TWINE_PASSWORD is empty: want the token of the package index" >&2; exit 2; }
	$(MAKE) wheel
	$(RUN)/python -m twine check --strict dist/*
	TWINE_USERNAME=__token__ $(RUN)/python -m twine upload --non-interactive dist/*

# The wheel in dist/ with the oldest and the newest allowed versions of its dependencies, for each Python that is there.
matrix: $(RUN)/python
	$(RELEASE)
	PATH=$$PWD/$(RUN):$$PATH $(RUN)/python tools/matrix.py

clean:
	rm -rf $(VENV) demo.html build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
