# The only door. Every target sets up what it needs; nothing is installed outside .venv and its like, unless a target says so.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROVIDERS := .venv-providers
RUNTIME := requirements/runtime.txt requirements/embedded.txt
DEV := requirements/dev.txt
ARGS ?=
CORPUS ?=
ONLY ?=
# Tests of faults wait more than they compute: four workers keep two cores busy. Each has servers of its own.
SPREAD := -n 4 --dist loadfile --no-loadscope-reorder
T ?= tests client/tests toolchain/tests
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit("Custody needs Python 3.11 or later; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'

# None of service, client and toolchain is installed: they run from here (docs/decisions/0001-not-packaged.md).
export PYTHONPATH := $(CURDIR):$(CURDIR)/client/src:$(CURDIR)/toolchain/src

.PHONY: help setup demo example up test test-long test-oracles test-providers test-browser check fmt lint types floors spelling bench settings migrate lock clean compose

help:  ## what can be done here
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev  ## the locked requirements in .venv (once; needs Python 3.11 or later, and pip's network)

# What runs comes without what only tests and checks: the demonstration is up sooner.
$(VENV)/.runtime: $(RUNTIME)
	@$(CHECK_PYTHON)
	@echo "Installing the locked requirements into $(VENV) (once, less than a minute) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call install,$(RUNTIME))
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime $(DEV)
	@echo "Installing what tests and checks need besides (once) …"
	@$(call install,$(DEV))
	@touch $@

install = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps $(foreach lock,$(1),-r $(lock))

demo: $(VENV)/.runtime  ## a whole Custody on this machine, shown step by step (CORPUS=file ARGS=…)
	@$(BIN)/python -m demo $(if $(CORPUS),--corpus "$(CORPUS)") $(ARGS)

example: $(VENV)/.runtime  ## the toolchain's example: two reading tasks, one report (ARGS=… for a store, --help)
	@$(BIN)/python -m toolchain.examples.research_batch $(ARGS)

up: $(VENV)/.runtime  ## the service with embedded servers, until Ctrl-C (ARGS=…)
	@$(BIN)/python -m store up $(ARGS)

compose:  ## the service as containers, two apis and two writers behind a proxy (needs docker)
	@deploy/make-secrets
	@CUSTODY_BUILD_COMMIT="$${CUSTODY_BUILD_COMMIT:-$$(test -e .git && git rev-parse HEAD 2>/dev/null || echo unknown)}" docker compose up --build $(ARGS)

test: setup  ## the tests (T=path for some of them)
	@$(BIN)/python -m pytest -q $(SPREAD) -m "not long and not browser and not oracle and not provider" --ignore tests/browser $(T) $(ARGS)

test-long: setup  ## the tests that take more than a few seconds
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "long and not browser and not oracle and not provider" --ignore tests/browser $(T) $(ARGS)
	@CUSTODY_TEST_EXAMPLES=400 $(BIN)/python -m pytest -q -n 2 -m "hypothesis and not long and not provider" toolchain/tests

test-oracles: setup  ## bundles against others' programs (CORPUS=file; installs Go by apt, the rest in .venv-oracles)
	@tests/oracles/install $(BIN)/python
	@$(if $(CORPUS),CUSTODY_TEST_CORPUS="$(CORPUS)") $(BIN)/python -m pytest -q -m oracle tests/oracles $(ARGS)

# Fixtures of the other tests need what is not in that environment.
test-providers: $(PROVIDERS)/.client  ## client and intake against providers' own programs (CORPUS=file; in .venv-providers)
	@for tests in client/tests/providers toolchain/tests/providers; do \
	    $(if $(CORPUS),CUSTODY_TEST_CORPUS="$(CORPUS)") $(PROVIDERS)/bin/python -m pytest -q -m provider --confcutdir $$tests $$tests $(ARGS); \
	done

test-browser: $(VENV)/.browser  ## the console in a real browser (installs chromium by apt; leaves screenshots in var/)
	@tests/browser/install
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m browser tests/browser $(ARGS)

$(VENV)/.browser: $(VENV)/.dev requirements/browser.txt
	@echo "Installing what drives the browser (once) …"
	@$(call install,requirements/browser.txt)
	@touch $@

$(PROVIDERS)/.installed: requirements/providers.txt
	@$(CHECK_PYTHON)
	@echo "Installing the providers' programs into $(PROVIDERS) (once, a few minutes) …"
	@rm -rf $(PROVIDERS)
	@$(PYTHON) -m venv $(PROVIDERS)
	@$(PROVIDERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/providers.txt
	@touch $@

# Its code comes from here (PYTHONPATH) all the same; installed, its entry points are found.
$(PROVIDERS)/.client: $(PROVIDERS)/.installed client/pyproject.toml
	@$(PROVIDERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation ./client
	@touch $@

check: lint types floors spelling  ## everything that needs no server: lint, format, types, floors, spelling

fmt: setup  ## format and mend what can be mended
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

lint: setup  ## ruff, and whether the code is formatted
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --diff .

types: setup  ## mypy, strict
	@$(BIN)/mypy

floors: setup  ## who may import whom
	@$(BIN)/lint-imports

spelling: setup  ## codespell
	@$(BIN)/codespell

bench: setup  ## the measurements, with their rivals (ONLY=name CORPUS=file)
	@$(BIN)/python -m bench $(ONLY) $(if $(CORPUS),--corpus "$(CORPUS)") $(ARGS)

settings: $(VENV)/.runtime  ## write docs/settings.md from the table in store/settings.py
	@$(BIN)/python -c 'from store.config import describe_markdown; print(end=describe_markdown())' > docs/settings.md

migrate: $(VENV)/.runtime  ## bring the database named by the settings to this version
	@$(BIN)/python -m store migrate $(ARGS)

lock: setup  ## make requirements/ from pyproject.toml again
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash requirements/lock

clean:  ## remove what was installed and what the tools cached
	@rm -rf var/screenshots $(VENV) .venv-oracles $(PROVIDERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
