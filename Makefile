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
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
SAM_BUILD := build/sam
REPORTS := build/reports
WORKERS ?= 2
SEEDS ?= 20000
# -qq: a closed index or mirror of the reader's own configuration is warned about once a package.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
SOURCES := shared embedded simulator functions scripts benchmarks tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test demo lint format lock env-ministack test-dynamodb simulate clean
.PHONY: env-sam env-runtime build validate rehearse test-runtime
.PHONY: env-bench bench bench-slurm

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
	$(LOCK_VENV)/bin/uv pip compile requirements-ministack.in --universal --python-version 3.12 \
	  --generate-hashes --custom-compile-command 'make lock' --upgrade --quiet \
	  --output-file requirements-ministack.lock
	$(LOCK_VENV)/bin/uv pip compile requirements-bench.in --universal --python-version 3.11 \
	  --generate-hashes --custom-compile-command 'make lock' --upgrade --quiet \
	  --output-file requirements-bench.lock
	for name in sam runtime; do \
	  $(LOCK_VENV)/bin/uv pip compile requirements-$$name.in --universal --python-version 3.13 \
	    --generate-hashes --custom-compile-command 'make lock' --upgrade --quiet \
	    --output-file requirements-$$name.lock || exit; \
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

build: $(SAM_STAMP) ## Build the layer and the functions into build/sam, compiled
	scripts/build-functions $(SAM_VENV) $(SAM_BUILD)

validate: $(SAM_STAMP) ## Check the template with all three checkers
	scripts/validate-template $(SAM_VENV)

rehearse: $(STAMP) $(MINISTACK_STAMP) build validate ## Deploy the build to an engine on this machine and try what it promises
	@mkdir -p $(REPORTS)
	DISPATCH_MINISTACK=$(abspath $(MINISTACK_VENV))/bin/ministack \
	  $(BIN)/pytest tests/real/rehearsal -v --timeout 600 --junit-xml=$(REPORTS)/rehearsal.xml

test-runtime: $(STAMP) $(RUNTIME_STAMP) build ## Run the built functions under Amazon's own runtime
	@mkdir -p $(REPORTS)
	$(BIN)/pytest tests/real/packaging tests/real/runtime --timeout 600 --junit-xml=$(REPORTS)/runtime.xml

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

simulate: $(STAMP) ## Prove the protocol on SEEDS fresh seeds (minutes; make simulate SEEDS=200000)
	$(BIN)/dispatch simulate --seeds $(SEEDS)

clean: ## Remove the environments and everything that was built
	rm -rf $(VENV) $(LOCK_VENV) $(MINISTACK_VENV) $(SAM_VENV) $(RUNTIME_VENV) $(BENCH_VENV) .aws-sam build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

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
	$(SLURM_TESTS)/run.sh trixie $(SLURM_TESTS) --ignore=$(SLURM_TESTS)/next --junit-xml=$(REPORTS)/slurm.xml

test-slurm-next: $(STAMP) ## The same, and in-place requeue, on the newest Slurm (its suite moves)
	@mkdir -p $(REPORTS)
	$(SLURM_TESTS)/run.sh forky $(SLURM_TESTS) --junit-xml=$(REPORTS)/slurm-next.xml
