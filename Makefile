# Everything a person or CI runs here. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK_VENV := .venv-lock
UV_VERSION := 0.13.9
MINISTACK_VENV := .venv-ministack
MINISTACK_STAMP := $(MINISTACK_VENV)/.installed
SAM_VENV := .venv-sam
SAM_STAMP := $(SAM_VENV)/.installed
RUNTIME_VENV := .venv-runtime
RUNTIME_STAMP := $(RUNTIME_VENV)/.installed
MUTATION_VENV := .venv-mutation
MUTATION_STAMP := $(MUTATION_VENV)/.installed
FUZZ_VENV := .venv-fuzz
FUZZ_STAMP := $(FUZZ_VENV)/.installed
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
BROWSER_VENV := .venv-browser
BROWSER_STAMP := $(BROWSER_VENV)/.installed
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
# Environments beside .venv, each with a lock of its own, and the Python that it is resolved for.
LOCKED := ministack:3.12 bench:3.11 browser:3.11 docs:3.11 sbom:3.11 sam:3.13 runtime:3.13 fuzz:3.11 mutation:3.11
SBOM_VENV := .venv-sbom
SBOM_STAMP := $(SBOM_VENV)/.installed
SAM_BUILD := build/sam
ARCHITECTURE ?= x86_64
REPORTS := build/reports
WORKERS ?= 2
SEEDS ?= 20000
EXAMPLES ?= 4
# -qq: a closed index or mirror of the reader's own configuration is warned about once a package.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
SOURCES := shared embedded simulator functions scripts benchmarks tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test demo lint format lock env-ministack test-dynamodb simulate clean
.PHONY: env-sam env-runtime build validate rehearse test-runtime
.PHONY: env-bench bench bench-slurm env-docs docs docs-serve pages

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create .venv with the locked requirements and this project (Python 3.11 or newer)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python 3.11 or newer is needed, {sys.executable} is {v[0]}.{v[1]}: make setup PYTHON=...")'
	@echo "Installing the locked requirements into $(VENV) (a minute or two the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

test: $(STAMP) ## Run the default tests (everything except tests/real)
	@mkdir -p $(REPORTS)
	$(BIN)/pytest -n $(WORKERS) --junit-xml=$(REPORTS)/test.xml

# What the record is and what it means: every branch of both must be taken by their own tests.
WHOLE := shared/dispatch/core/*,shared/dispatch/record/*
.PHONY: coverage
coverage: $(STAMP) ## See that the tests of record and core take every branch of them
	@mkdir -p $(REPORTS)
	$(BIN)/pytest tests/core tests/record -n $(WORKERS) -q --cov --cov-report= --junit-xml=$(REPORTS)/coverage.xml
	$(BIN)/coverage report --include='$(WHOLE)' --skip-covered --fail-under=100

demo: $(STAMP) ## Start the embedded stack and tell the stories of three jobs
	$(BIN)/dispatch demo

lint: $(STAMP) ## Check style, format, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: $(LOCK_VENV)/bin/uv ## Resolve all requirements anew and export the layer's and the functions' share
	$(LOCK_VENV)/bin/uv pip compile pyproject.toml --all-extras --group dev --universal \
	  --python-version 3.11 --generate-hashes --custom-compile-command 'make lock' --upgrade --quiet \
	  --output-file requirements.lock
	for one in $(LOCKED); do \
	  $(LOCK_VENV)/bin/uv pip compile requirements-$${one%:*}.in --universal --python-version $${one#*:} \
	    --generate-hashes --custom-compile-command 'make lock' --upgrade --quiet \
	    --output-file requirements-$${one%:*}.lock || exit; \
	done
	$(PYTHON) scripts/requirements.py

$(LOCK_VENV)/bin/uv: Makefile
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python $(PIP_INSTALL) uv==$(UV_VERSION)
	@touch $@

env-ministack: $(MINISTACK_STAMP) ## Create .venv-ministack, the DynamoDB engine that the tests use

# The engine pins botocore, so it can't share .venv. It is tried with Python 3.13; others are said aloud.
$(MINISTACK_STAMP): requirements-ministack.lock
	@python=$$(scripts/find-python 3.13) || { python=$(PYTHON); echo "No Python 3.13 found: the DynamoDB engine runs on $$($(PYTHON) --version) instead."; }; \
	echo "Installing the DynamoDB engine into $(MINISTACK_VENV) with $$python"; \
	"$$python" -m venv $(MINISTACK_VENV)
	@$(MINISTACK_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-ministack.lock
	@touch $@

test-dynamodb: $(STAMP) $(MINISTACK_STAMP) ## Run the tests that need a real DynamoDB engine (it is started by them, on this machine)
	@mkdir -p $(REPORTS)
	DISPATCH_MINISTACK=$(abspath $(MINISTACK_VENV))/bin/ministack \
	  $(BIN)/pytest tests/real/dynamodb --junit-xml=$(REPORTS)/dynamodb.xml

env-sam: $(SAM_STAMP) ## Create .venv-sam, which builds and deploys the template (Python 3.13)

# The functions run on Python 3.13, and `sam build` takes it from PATH: no other will do.
$(SAM_STAMP): requirements-sam.lock
	@python=$$(scripts/find-python 3.13) || { echo "Python 3.13 is needed to build the functions and wasn't found" >&2; exit 1; }; \
	echo "Installing the build tool into $(SAM_VENV) with $$python (a minute or two the first time)"; \
	"$$python" -m venv $(SAM_VENV)
	@$(SAM_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-sam.lock
	@touch $@

env-runtime: $(RUNTIME_STAMP) ## Create .venv-runtime, Amazon's runtime interface client alone (Python 3.13)

$(RUNTIME_STAMP): requirements-runtime.lock
	@python=$$(scripts/find-python 3.13) || { echo "Python 3.13 is needed to run the functions and wasn't found" >&2; exit 1; }; \
	"$$python" -m venv $(RUNTIME_VENV)
	@$(RUNTIME_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-runtime.lock
	@touch $@

.PHONY: env-fuzz
env-fuzz: $(FUZZ_STAMP) ## Create .venv-fuzz, which asks the API whatever its document allows

$(FUZZ_STAMP): requirements-fuzz.lock
	@echo "Installing the fuzzer into $(FUZZ_VENV)"
	@$(PYTHON) -m venv $(FUZZ_VENV)
	@$(FUZZ_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-fuzz.lock
	@touch $@

build: $(SAM_STAMP) ## Build the layer and the functions into build/sam, compiled
	SAM_BUILD_OPTIONS="--parameter-overrides Architecture=$(ARCHITECTURE)" scripts/build-functions $(SAM_VENV) $(SAM_BUILD)

validate: $(SAM_STAMP) ## Check the template with all three checkers
	scripts/validate-template $(SAM_VENV)

rehearse: $(STAMP) $(MINISTACK_STAMP) build validate ## Deploy the build to an engine on this machine and try what it promises
	@mkdir -p $(REPORTS)
	DISPATCH_MINISTACK=$(abspath $(MINISTACK_VENV))/bin/ministack \
	  $(BIN)/pytest tests/real/rehearsal -v --timeout 1800 --junit-xml=$(REPORTS)/rehearsal.xml

test-runtime: $(STAMP) $(RUNTIME_STAMP) $(SBOM_STAMP) build ## Run the built functions under Amazon's own runtime
	@mkdir -p $(REPORTS)
	$(BIN)/pytest tests/real/packaging tests/real/runtime --ignore=$(FUZZ_TEST) --timeout 1800 \
	  --junit-xml=$(REPORTS)/runtime.xml

FUZZ_TEST := tests/real/runtime/test_fuzz.py
.PHONY: test-fuzz
test-fuzz: $(STAMP) $(RUNTIME_STAMP) $(FUZZ_STAMP) build ## Ask the API, under that runtime, whatever its document allows (minutes; EXAMPLES=200 asks more)
	@mkdir -p $(REPORTS)
	DISPATCH_FUZZ_EXAMPLES=$(EXAMPLES) \
	  $(BIN)/pytest $(FUZZ_TEST) --timeout 7200 --junit-xml=$(REPORTS)/fuzz.xml

env-bench: $(BENCH_STAMP) ## Create .venv-bench: the locked requirements and what is measured beside them

$(BENCH_STAMP): requirements.lock requirements-bench.lock pyproject.toml
	@echo "Installing the locked requirements into $(BENCH_VENV) (a minute or two the first time)"
	@$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-bench.lock
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

bench: $(BENCH_STAMP) $(MINISTACK_STAMP) build ## Measure what Dispatch costs, beside what else a user would pick (minutes; BENCH=--quick)
	DISPATCH_MINISTACK=$(abspath $(MINISTACK_VENV))/bin/ministack \
	  $(BENCH_VENV)/bin/python -m benchmarks $(BENCH)

bench-slurm: $(BENCH_STAMP) ## Measure ticks against a real Slurm with thousands of jobs in its queue (needs root)
	benchmarks/with-slurm trixie $(BENCH_VENV)/bin/python -m benchmarks --only slurm --json build/bench-slurm.json $(BENCH)

env-docs: $(DOCS_STAMP) ## Create .venv-docs, which builds the documentation as a site

$(DOCS_STAMP): requirements-docs.lock
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-docs.lock
	@touch $@

docs: $(DOCS_STAMP) ## Build the documentation as a site, into build/site
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html; make docs-serve serves it"

docs-serve: $(DOCS_STAMP) ## Serve the documentation on this machine while it is written
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs serve

pages: $(STAMP) ## Write the pages and pictures that are generated from the code anew
	$(BIN)/python -m scripts.incidents
	$(BIN)/python -m scripts.pages

simulate: $(STAMP) ## Prove the protocol on SEEDS fresh seeds (minutes; make simulate SEEDS=200000)
	$(BIN)/dispatch simulate --seeds $(SEEDS)

.PHONY: env-mutation mutation
env-mutation: $(MUTATION_STAMP) ## Create .venv-mutation: the locked requirements and what changes core under its tests

$(MUTATION_STAMP): requirements.lock requirements-mutation.lock
	@echo "Installing the locked requirements and the mutation tester into $(MUTATION_VENV)"
	@$(PYTHON) -m venv $(MUTATION_VENV)
	@$(MUTATION_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(MUTATION_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-mutation.lock
	@touch $@

mutation: $(MUTATION_STAMP) ## Change core one word at a time and see that a test notices (an hour at most; MUTATION='--only next.py')
	$(MUTATION_VENV)/bin/python scripts/mutation.py $(MUTATION)

clean: ## Remove the environments and everything that was built
	rm -rf $(VENV) $(MUTATION_VENV) $(FUZZ_VENV) $(SBOM_VENV) $(LOCK_VENV) $(MINISTACK_VENV) $(SAM_VENV) $(RUNTIME_VENV) $(BENCH_VENV) $(BROWSER_VENV) .aws-sam build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: wheel sbom release test-packaging env-sbom

wheel: $(STAMP) ## Build the command and its client into build/dist: the same bytes each time
	@rm -rf build/dist
	$(BIN)/python -m hatchling build --directory build/dist

env-sbom: $(SBOM_STAMP) ## Create .venv-sbom, which writes the bills of materials

$(SBOM_STAMP): requirements-sbom.lock
	@$(PYTHON) -m venv $(SBOM_VENV)
	@$(SBOM_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-sbom.lock
	@touch $@

sbom: $(STAMP) $(SBOM_STAMP) ## Write the bills of materials of all that is shipped, into build/sbom
	@rm -rf build/sbom
	$(BIN)/python -m scripts.sbom $(SBOM_VENV)/bin/cyclonedx-py build/sbom

release: wheel sbom ## Gather a release in build/release, or say what stands against it (docs/how-to/release.md)
	$(BIN)/python -m scripts.release build/release

test-packaging: $(STAMP) $(RUNTIME_STAMP) $(SBOM_STAMP) build ## Check what is built, and install the wheel into fresh environments
	@mkdir -p $(REPORTS)
	$(BIN)/pytest tests/real/packaging --timeout 600 --junit-xml=$(REPORTS)/packaging.xml

.PHONY: test-arm64
test-arm64: $(STAMP) $(SAM_STAMP) ## Build for arm64 on any machine and check what is built; nothing of it is run
	@mkdir -p $(REPORTS)
	@# In a folder of its own: what SAM notes of a build stands beside it, and would be taken for this one's.
	$(MAKE) build ARCHITECTURE=arm64 SAM_BUILD=build/arm64/sam
	DISPATCH_BUILD=build/arm64/sam DISPATCH_ARCHITECTURE=arm64 \
	  $(BIN)/pytest tests/real/packaging/test_artifacts.py -k "not imported" --junit-xml=$(REPORTS)/arm64.xml

.PHONY: test-kubernetes
test-kubernetes: $(STAMP) ## Run the suite on the Kubernetes cluster of DISPATCH_TEST_KUBECONFIG
	@test -n "$(DISPATCH_TEST_KUBECONFIG)" || { \
	  echo "DISPATCH_TEST_KUBECONFIG must name the kubeconfig of a cluster that these tests may write to:" >&2; \
	  echo "  DISPATCH_TEST_KUBECONFIG=~/.kube/config make test-kubernetes" >&2; exit 2; }
	@mkdir -p $(REPORTS)
	DISPATCH_TEST_KUBECONFIG="$(DISPATCH_TEST_KUBECONFIG)" \
	  $(BIN)/pytest tests/real/eks --timeout 600 --junit-xml=$(REPORTS)/kubernetes.xml

.PHONY: test-slurm test-slurm-next
SLURM_TESTS := tests/real/slurm

test-slurm: $(STAMP) ## Run the tests that need a real Slurm 24.11 (installed, started and stopped here; root)
	@mkdir -p $(REPORTS)
	$(SLURM_TESTS)/run.sh trixie $(SLURM_TESTS) --ignore=$(SLURM_TESTS)/next $(SLURM) --junit-xml=$(REPORTS)/slurm.xml

test-slurm-next: $(STAMP) ## The same, and in-place requeue, on the newest Slurm (its suite moves)
	@mkdir -p $(REPORTS)
	$(SLURM_TESTS)/run.sh forky $(SLURM_TESTS) --junit-xml=$(REPORTS)/slurm-next.xml

.PHONY: env-browser test-browser screenshots
BROWSER_TESTS := $(BROWSER_VENV)/bin/pytest tests/real/browser --timeout 300

env-browser: $(BROWSER_STAMP) ## Create .venv-browser: the locked requirements, and what drives a browser

$(BROWSER_STAMP): requirements.lock requirements-browser.lock pyproject.toml
	@echo "Installing the locked requirements into $(BROWSER_VENV) (a minute or two the first time)"
	@$(PYTHON) -m venv $(BROWSER_VENV)
	@$(BROWSER_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(BROWSER_VENV)/bin/python $(PIP_INSTALL) --require-hashes -r requirements-browser.lock
	@$(BROWSER_VENV)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

test-browser: $(BROWSER_STAMP) docs ## Try the console and the site in a real Chromium (Debian's is installed if there is none; root then)
	@mkdir -p $(REPORTS)
	@tests/real/browser/chromium
	$(BROWSER_TESTS) --junit-xml=$(REPORTS)/browser.xml

screenshots: $(BROWSER_STAMP) ## Take the console's pictures of docs/images anew
	@tests/real/browser/chromium
	SCREENSHOTS=docs/images $(BROWSER_TESTS) -k screenshots
