# Everything runs in .venv, which these targets create from the locked versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := kernel producer worker compose tests
ARGS ?=

.PHONY: demo test test-all test-slow check docs screenshots golden bench format lock clean help

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("turnfleet needs Python 3.11 or newer; set PYTHON=python3.x")'
	@echo "Setting up $(VENV) with the locked versions (a few minutes on a first run) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## The main job on the shipped sample; ARGS="--yes --invoices FILE --payments FILE"
	@$(BIN)/turnfleet demo $(ARGS)

test: $(READY) ## The tests that a change must pass (about five minutes on two cores)
	$(BIN)/pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-slow: $(READY) ## The long ones: load and faults; most of their time is waiting, so more at once than there are cores
	$(BIN)/pytest -n 4 --dist worksteal -m slow $(ARGS)

test-all: test test-slow ## Everything (under fifteen minutes)

check: $(READY) ## Format, lint, types, architecture
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python tests/tools/contract_table.py --check
	$(BIN)/python tests/tools/reference_pages.py --check
	$(BIN)/python tests/tools/command_line_page.py --check

docs: $(READY) ## Build the documentation site into site/; a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

screenshots: $(READY) ## Take the pictures of Flower in docs/img anew (needs chromium and chromedriver)
	TURNFLEET_SCREENSHOTS=docs/img $(BIN)/pytest -q tests/fleet/test_flower_pages.py

golden: $(READY) ## Record anew what this release leaves behind in Redis (tests/golden), after a change to what is recorded
	$(BIN)/python tests/tools/golden.py

bench: $(READY) ## Measure what a run costs; peers are compared where they are installed (docs/benchmarks.md)
	$(BIN)/python tests/benchmarks/journal_bytes.py
	$(BIN)/python tests/benchmarks/kernel_overhead.py $(ARGS)

format: $(READY) ## Rewrite the sources in the house format
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lock: ## Resolve pyproject.toml anew into requirements.lock (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock
	uv pip compile pyproject.toml --extra worker --extra models --extra monitor --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --quiet \
		--output-file compose/requirements.lock
	uv pip compile compose/build.in --constraint requirements.lock --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --quiet --output-file compose/build.lock

clean: ## Remove the environment and the caches
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
