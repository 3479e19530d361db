# make demo | test | check | format | test-floor | benchmarks.  Each makes .venv when it is missing; PYTHON chooses its
# interpreter. test-floor runs the tests with the oldest releases that pyproject.toml allows (floor.txt).
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN = .venv/bin
# Numba does not notice that another file of the package has changed: compile anew whenever any has
export NUMBA_CACHE_DIR ?= $(CURDIR)/.cache/numba-$(shell cat softmargin/*.py softmargin/*/*.py softmargin/*/*/*.py 2>/dev/null | cksum | cut -d' ' -f1)

ifeq ($(PYTHON),)
$(error softmargin needs Python 3.11 or later: say where it is, make PYTHON=/path/to/python)
endif

.PHONY: demo test check format test-floor benchmarks

demo: .venv/demo
	$(BIN)/softmargin demo --output demo.png

test: .venv/test
	$(BIN)/python -m pytest

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-floor: | $(BIN)/python
	$(PYTHON) -m venv .venv/floor
	.venv/floor/bin/python -m pip install --quiet --disable-pip-version-check -c floor.txt -e '.[test]'
	NUMBA_CACHE_DIR=$(NUMBA_CACHE_DIR)-floor .venv/floor/bin/python -m pytest

benchmarks: .venv/bench
	cd benchmarks && ../$(BIN)/python run.py && ../$(BIN)/python figures.py

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli,plot]'
	touch $@

.venv/test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[liblinear,libsvm]' || \
	  echo "LIBLINEAR and LIBSVM could not be built (they need a C++ compiler): tests that compare with them are skipped"
	touch $@ .venv/demo

.venv/bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@
