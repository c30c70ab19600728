# The everyday commands. `make` alone lists them. All of them need only git, make, bash and Python 3.11 to 3.14.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup system warm demo check lint test test-all test-frameworks test-slurm test-slurm-versions bench campaign docs pictures clean distclean
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
WORKERS ?= 2
# Of all tests many wait for a process, a browser or a clock: one worker more.
TEST_WORKERS ?= $(shell echo $$(($(WORKERS) + 1)))
CAMPAIGN_SECONDS ?= 600
CRASH_ROUNDS ?= 300
# The tests of a file go to one worker; those of one Slurm or Grid Engine, too (tests/conftest.py).
TESTS := $(BIN)/pytest -n $(TEST_WORKERS) --dist loadgroup -rs
# What a change to the rules, the simulator or the formats breaks first; `make test` has everything.
QUICK := $(addprefix tests/,tidy model core policy conformance contract sim trace \
  cli/test_bad_input.py cli/test_output_contract.py)
# Compiled kernels are kept under the home folder; where there is none to write to, beside the virtual environment.
ifeq ($(shell test -w "$${XDG_CACHE_HOME:-$$HOME/.cache}" -o -w "$$HOME" && echo yes),)
export COHABIT_CACHE ?= $(CURDIR)/.venv/cache
endif
# One fresh seed per invocation, shared by everything that wants one; give it to repeat a run.
ifndef COHABIT_CAMPAIGN_SEED
COHABIT_CAMPAIGN_SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
export COHABIT_CAMPAIGN_SEED

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create or refresh .venv with the package and the test tools
	@scripts/setup

system: ## install the system packages some tests need (root and apt), or say which
	@scripts/system-packages

demo: ## measure real programs, run them under three policies, simulate a cluster; out/demo/report.html (under two minutes)
	@scripts/setup --demo
	@$(BIN)/cohabit demo

lint: setup
	@failed=0; for tool in "ruff check --output-format concise ." "ruff format --check src" mypy "lint-imports --no-logo"; do \
	  echo "$${tool%% *}:"; $(BIN)/$$tool || failed=1; done; exit $$failed

check: lint ## lint, types, import rules, tidy and the fast tests of rules, simulator and formats: under a minute
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not wide and not slow and not system and not timing and not cluster" $(QUICK)

warm: setup ## compile every kernel now; without it each is compiled when it is first used (two minutes, once)
	@$(BIN)/cohabit warm-up

test: setup system lint warm ## what a change must not break: lint and every behaviour once, with a real Slurm and a real browser
	@$(TESTS) -m "not wide and not timing" tests

test-all: export COHABIT_WIDE = 1
test-all: setup system lint warm ## everything: wide property tests, all of Slurm and Grid Engine, clock tests, campaigns (hours)
	@echo "campaign seed $(COHABIT_CAMPAIGN_SEED) (same again: make test-all COHABIT_CAMPAIGN_SEED=$(COHABIT_CAMPAIGN_SEED))"
	@$(TESTS) -m "not timing" tests
	@$(BIN)/pytest -m timing -rs tests  # alone: a busy neighbour would spoil the clock
	@$(MAKE) campaign CAMPAIGN_SECONDS=60 CRASH_ROUNDS=30
	@$(MAKE) test-slurm-versions
	@$(BIN)/python -m tests.mutations
	@$(BIN)/python -m tests.core_mutations

test-frameworks: setup system ## launchers with real MPI, Spark, PyTorch and TensorFlow (a gigabyte to download)
	@scripts/frameworks
	@$(BIN)/pytest -rs tests/frameworks

test-slurm: setup system ## steer a real Slurm and a real Grid Engine on this machine (half an hour)
	@$(TESTS) -m "cluster and not timing" tests
	@$(BIN)/pytest -m "cluster and timing" -rs tests

# Debian's suites with Slurm 20.11, 24.11 and the newest; `make test-slurm` has the machine's own.
SLURM_SUITES ?= bullseye trixie sid
SLURM_SHORT := $(addprefix tests/backend/slurm/test_,steering.py deaths.py shadow.py rest.py)
test-slurm-versions: setup ## steer Slurm 20.11, 24.11 and 26.05, unpacked beside this machine's (root and apt, half an hour)
	@for suite in $(SLURM_SUITES); do programs=$$(scripts/slurm-version $$suite); \
	  echo "Debian $$suite: $$($$programs/slurmctld -V)"; PATH=$$programs:$$PATH $(TESTS) -m "cluster and not timing" $(SLURM_SHORT) || failed="$${failed:-} $$suite"; \
	done; test -z "$${failed:-}" || { echo "failed:$$failed"; exit 1; }

campaign: setup ## long randomised runs (CAMPAIGN_SECONDS=600, CRASH_ROUNDS=300)
	@echo "campaign seed $(COHABIT_CAMPAIGN_SEED) (same again: make campaign COHABIT_CAMPAIGN_SEED=$(COHABIT_CAMPAIGN_SEED))"
	@$(BIN)/python -m tests.campaign --seconds $(CAMPAIGN_SECONDS) --seed $(COHABIT_CAMPAIGN_SEED)
	@$(BIN)/python -m tests.campaign_mates --runs 10000 --seed $(COHABIT_CAMPAIGN_SEED)
	@$(BIN)/python -m tests.campaign_live --seed $(COHABIT_CAMPAIGN_SEED)
	@$(BIN)/python -m tests.campaign_crash --rounds $(CRASH_ROUNDS) --seed $(COHABIT_CAMPAIGN_SEED)

bench: setup ## speed and memory, as ratios to a reference measured in the same run
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.placement
	@$(BIN)/python -m benchmarks.joint --quick
	@$(BIN)/python -m benchmarks.contention
	@$(BIN)/python -m benchmarks.shepherd
	@$(BIN)/python -m benchmarks.scheduler_online
	@$(BIN)/python -m benchmarks.colocation
	@$(BIN)/python -m benchmarks.telemetry --quick
	@$(BIN)/python -m benchmarks.variability
	@$(BIN)/python -m benchmarks.gate
	@$(BIN)/python -m benchmarks.run_rate

docs: setup ## the documentation as a site, out/site/index.html
	@$(BIN)/python -m mkdocs build --strict

pictures: setup ## take the pictures of docs/page.md and README.md anew
	@scripts/results cohabit
	@COHABIT_PICTURES=docs/pictures $(BIN)/pytest tests/live/page/test_pictures.py

clean: ## remove caches and outputs, keep .venv
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist out report.html
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	@rm -rf .venv .venv-frameworks src/*.egg-info
