# Every command a person needs; `make help` lists them. Each does its own set-up.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODULES := node_modules/.ready
ANGULAR := clients/angular
# pip shows its progress to a person, and is quiet otherwise
PIP := $(BIN)/pip install --disable-pip-version-check $(shell test -t 2 || echo --quiet)
.DEFAULT_GOAL := help
.PHONY: help demo test coverage faults check audit lint types types-page page angular imports setup browser provider bench bench-swap bench-pipeline bench-generation bench-parsing bench-tables bench-page lock wheel pictures clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## run everything on this machine: broker, Spark, sample data, the page
	@$(BIN)/livejoin demo

# Four at a time: the tests wait a lot, for elections, JVMs and the browser.
SECOND := $(patsubst %,tests/scenarios/test_%.py,serve swap topics) $(patsubst %,tests/%,pipeline locks kafka delivery)
THIRD := $(patsubst %,tests/%,core tables client web docs cli config app rig runtime) \
	$(patsubst %,tests/scenarios/test_%.py,limited_broker older_broker orders_demo your_kafka)
FOURTH := $(patsubst %,tests/%,browser doctor control)
FIRST := $(filter-out $(SECOND) $(THIRD),$(wildcard tests/scenarios/test_*.py))
PYTEST = $(BIN)/pytest $(2) -o cache_dir=.pytest_cache/$(1)
AGAIN = $(call PYTEST,$(1),--last-failed --last-failed-no-failures none)

# What failed beside the other groups runs once more by itself (decision 34): failing again, it has failed.
test: setup browser provider ## run all tests
	@rm -rf .pytest_cache; \
	$(call PYTEST,2,$(SECOND)) > .pytest-2.log 2>&1 & second=$$!; \
	$(call PYTEST,3,$(THIRD)) > .pytest-3.log 2>&1 & third=$$!; \
	$(call PYTEST,4,$(FOURTH)) > .pytest-4.log 2>&1 & fourth=$$!; \
	$(call PYTEST,1,$(FIRST)); first=$$?; \
	wait $$second; second=$$?; wait $$third; third=$$?; wait $$fourth; fourth=$$?; \
	cat .pytest-2.log .pytest-3.log .pytest-4.log; \
	case $$first$$second$$third$$fourth in 0000) exit 0;; *[!01]*) exit 1;; esac; \
	echo 'These tests failed beside others; they run again by themselves:'; \
	grep -h '": true' .pytest_cache/*/v/cache/lastfailed; \
	test $$first = 0 || $(call AGAIN,1) || exit; \
	test $$second = 0 || $(call AGAIN,2) || exit; \
	test $$third = 0 || $(call AGAIN,3) || exit; \
	test $$fourth = 0 || $(call AGAIN,4)

coverage: $(READY) ## check that the tests of the core take every branch of it
	@$(BIN)/coverage run -m pytest -q -p no:cacheprovider tests/core --deselect tests/core/test_simulation.py --deselect tests/core/test_mutations.py
	@$(BIN)/coverage report

# A case is a test by its name, or one of `ELSEWHERE` in tests/rig/cases.py.
faults: setup browser provider ## run the long fault tests, or one case (CASE=A6; storm: SEED=7 MINUTES=5); AUTO_CREATE=1: over brokers that make missing topics; REPORT=1 writes docs/reliability.md
	@tests=$$(PYTHONPATH=tests $(BIN)/python -m rig.cases $(CASE)) && \
	FAULTS_REPORT=$(REPORT) FAULTS_SEED=$(SEED) FAULTS_MINUTES=$(MINUTES) FAULTS_SECONDS=$(SECONDS) FAULTS_AUTO_CREATE=$(AUTO_CREATE) LIVEJOIN_SEEDS=10000 \
	$(BIN)/pytest $$tests -p no:cacheprovider -rP --timeout 3600

check: lint types imports audit test ## lint, types, import direction, locked files, tests

audit: $(READY) ## check locked packages and jars: checksums, known weaknesses
	@$(BIN)/python tests/locks/audit.py

lint: $(READY) ## check style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY) types-page ## check types, of Python and of the page
	@$(BIN)/mypy

page: $(MODULES) ## compile web/ into the served page, after a change there
	@find src/livejoin/tables/static -name '*.js' -delete
	@node_modules/.bin/tsc -p web

# The compiled page is committed, so that running livejoin does not need Node.js. It must match web/, with no stale .js file left.
types-page: $(MODULES)
	@rm -rf .web && node_modules/.bin/tsc -p web --outDir .web
	@diff -rq -x '*.html' -x '*.css' -x '*.svg' -x '*.d.ts' .web src/livejoin/tables/static || { \
	  echo "livejoin: the compiled page does not match web/; run make page and commit the result" >&2; exit 1; }

$(MODULES): package.json package-lock.json .npmrc
	@command -v npm > /dev/null || { \
	  echo "livejoin: the page's types are checked with Node.js 20 or later and npm, which are not here; install them" >&2; exit 1; }
	@npm ci --silent
	@touch $@

angular: $(ANGULAR)/node_modules/.ready ## compile the Angular example into clients/angular/dist/
	@npm run build --silent --prefix $(ANGULAR)

$(ANGULAR)/node_modules/.ready: $(addprefix $(ANGULAR)/,package.json package-lock.json .npmrc)
	@npm ci --silent --prefer-offline --prefix $(ANGULAR)
	@touch $@

imports: $(READY) ## check that imports go one way
	@$(BIN)/lint-imports

setup: $(READY) ## install what is locked: packages, jars, archives of classes
	@$(BIN)/python -m livejoin.prepare

browser: $(READY) ## have a browser for the tests
	@$(BIN)/python tests/browser/install.py

provider: $(READY) ## have an identity provider for the tests
	@$(BIN)/python -c 'from livejoin.runtime import jars; jars.jars("oidc")'

bench: setup browser ## measure: start to first row, then latency to a viewer (SECONDS=300 RATE=200)
	@$(BIN)/python bench/first_row.py
	@$(BIN)/python bench/latency.py --seconds $(or $(SECONDS),300) --rate $(or $(RATE),200)

bench-swap: setup ## measure: control message to cutover at a viewer, rollback, deciding, folding
	@$(BIN)/python bench/swap.py

bench-pipeline: setup ## measure the pipeline: latency, new generations, catch-up, state, crash (PARTS="catch-up state")
	@$(BIN)/python bench/pipeline.py $(PARTS)

bench-generation: setup ## measure builds beside a live generation, phase by phase
	@$(BIN)/python bench/new_generation.py

bench-parsing: setup ## measure parsing: flat, nested and typed records, and the strict parser
	@$(BIN)/python bench/parsing.py

bench-tables: setup ## measure the table server: latency, viewers, cutover, ingest (PARTS="viewers cutover")
	@$(BIN)/python bench/tables.py $(PARTS)

bench-page: setup browser ## measure the page: opening it, many changes (PARTS="opening")
	@$(BIN)/python bench/page.py $(PARTS)

# The wheel needs neither this Makefile nor the clone. Built from an empty folder: setuptools would add what is left of an older build.
wheel: $(READY) ## build the wheel, with the locked packages that it needs, into dist/
	@rm -rf build dist/livejoin-*.whl
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@cp requirements-build.lock requirements-run.lock dist/
	@rm -rf build
	@ls dist/livejoin-*.whl

pictures: setup browser ## take the pictures of the page anew, which README and docs show
	@$(BIN)/python tests/browser/pictures.py

lock: $(READY) ## lock packages and jars anew
	@$(BIN)/pip install --quiet uv
	@$(BIN)/uv pip compile --quiet $(COMPILE) --extra dev --extra build pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet $(COMPILE) -c requirements.lock pyproject.toml -o requirements-run.lock
	@echo 'setuptools' | $(BIN)/uv pip compile --quiet $(COMPILE) -c requirements.lock - -o requirements-build.lock
	@$(BIN)/python -c 'from livejoin.runtime import jars; jars.lock()'

# no addresses in the lock files: they work behind any mirror
COMPILE := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links

clean: ## remove what set-up made here; the caches of the user stay
	rm -rf $(VENV) node_modules $(addprefix $(ANGULAR)/,node_modules out dist) build dist .web .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("livejoin needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@PYTHONPATH=src $(PYTHON) -m livejoin.runtime.processes
	@$(PYTHON) -m venv $(VENV)
	@echo 'Installing the locked packages (Spark alone is 400 MB) …' >&2
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@
