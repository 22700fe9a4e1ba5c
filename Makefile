# make demo [SECONDS=n] [SPEED=x] [JOBS=file.jsonl] [EMBEDDED=1]   the whole thing, live; docs in README.md
# make test [ARGS="-k name"]                                       all checks and the whole suite
# make test-embedded                                               the main job's tests with the embedded services
# make chaos [SECONDS=n] [SEED=s] [ONLY=9,16] [REPORT=1]           faults on real services, its own; docs/reliability.md
# make sim [SEEDS=n] [SEED=first]                                  the deterministic simulation, at length
# make bench [QUICK=1] [ONLY=name,name]                            measure it beside its peers; make bench-report: docs
# make native, make pure                                           the fair queue compiled (a C compiler), or in Python
# make lint                                                        style, types, direction of imports, migrations
#
# Each sets up `.venv` first, once. It needs Python 3.11 or later; PYTHON=… names one that is not found by itself.

.DELETE_ON_ERROR:
.PHONY: demo test test-embedded chaos sim bench bench-report native pure lint
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
OURSELVES := $(PIP) --no-deps --no-build-isolation --editable .  # for the entry points; without a download
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

PARALLEL := -n 4 --dist worksteal  # many tests wait for processes: twice the cores

PEERS := .venv-bench/bin/python
PEERS_PIP := $(PEERS) -m pip --disable-pip-version-check --quiet install

export SECONDS SPEED JOBS EMBEDDED QUICK ONLY SEED REPORT

demo: .venv/runtime.stamp
	@$(BIN)/python -m project.demo

test: lint
	@$(BIN)/python -m project.environment run --run-dir .run/test --fresh --provision -- \
		$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-embedded: .venv/dev.stamp
	@$(BIN)/python -m project.environment run --run-dir .run/test --fresh --embedded -- \
		$(BIN)/python -m pytest $(PARALLEL) -m "main_job and not rabbitmq" $(ARGS)

chaos: .venv/runtime.stamp
	@$(BIN)/python -m tests.chaos

sim: .venv/runtime.stamp
	@$(BIN)/python -m scheduling.testing.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED))

bench: .venv/runtime.stamp .venv-bench/peers.stamp
	@$(BIN)/python -m benchmarks.suite

bench-report: .venv-bench/peers.stamp
	@$(PEERS) -m benchmarks.report

native: .venv/dev.stamp
	@$(BIN)/python -m fairness.native

pure: .venv/dev.stamp
	@$(BIN)/python -m fairness.native --remove

lint: .venv/dev.stamp
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run  # no database is needed

.venv/bin/python:
	@for python in $(PYTHONS); do \
		if $$python -c '$(USABLE)' 2>/dev/null; then \
			echo "Setting up .venv with $$($$python --version)"; \
			exec $$python -m venv .venv; \
		fi; \
	done; \
	echo "No Python 3.11 or later with the modules venv and ensurepip was found among: $(PYTHONS)." \
		"Install one (on Debian: apt-get install python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

.venv/runtime.stamp: requirements.txt pyproject.toml | .venv/bin/python
	@echo "Installing packages"
	@$(PIP) -r requirements.txt
	@$(OURSELVES)
	@touch $@

.venv/dev.stamp: requirements.txt requirements-dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing packages"
	@$(PIP) -r requirements-dev.txt
	@$(OURSELVES)
	@touch $@

# A peer that cannot be had does not keep the others from being measured: the suite says which, and why.
.venv-bench/peers.stamp: benchmarks/requirements-peers.txt | .venv/bin/python
	@echo "Installing the peers" >&2
	@$(BIN)/python -m venv .venv-bench
	@$(PEERS_PIP) -r $< || sed 's/#.*//' $< | while read -r peer; do [ -z "$$peer" ] || $(PEERS_PIP) "$$peer" || true; done
	@touch $@
