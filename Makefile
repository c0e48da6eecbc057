# What a person types. `make help` lists it. Everything lands in this folder or in HOME_DIR, nothing elsewhere.

PYTHON ?= python3
OHH ?=
HANDS ?=
GRADE ?=
HOME_DIR ?= $(or $(RANGE_READER_HOME),range_reader_home)
PRESET ?=
TRAIN_MINUTES ?=
RETRAIN ?=
INIT_FROM ?=
FAILED_FILES ?=
PORT ?= 3000
PICTURES ?= docs/img
MINUTES ?= 15
SEEDS ?= 2

BIN := .venv/bin
STAMP := .venv/.installed

# Dagster reads ./dagster.yaml; caches that libraries would put under ~ stay in the clone.
export DAGSTER_HOME := $(CURDIR)
export RANGE_READER_HOME := $(HOME_DIR)
export RANGE_READER_PRESET := $(PRESET)
export RANGE_READER_TRAIN_MINUTES := $(TRAIN_MINUTES)
export RANGE_READER_INIT_FROM := $(INIT_FROM)
export RANGE_READER_FAILED_FILES := $(FAILED_FILES)
export RANGE_READER_RETRAIN := $(RETRAIN)
export XDG_CACHE_HOME := $(CURDIR)/.cache
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
# A training fills the cores, and launching a run beside it can take longer than Dagster's minute.
export DAGSTER_GRPC_TIMEOUT_SECONDS ?= 300
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib
export TORCHINDUCTOR_CACHE_DIR := $(CURDIR)/.cache/torchinductor
export TRITON_CACHE_DIR := $(CURDIR)/.cache/triton
ifneq ($(strip $(OHH)),)
export RANGE_READER_OHH := $(OHH)
endif

.DEFAULT_GOAL := help
.PHONY: help setup run ui test test-ui bench-sensor soak bench-ingest bench-arena bench-read bench-train bench-switches check fast-core fast-pipeline fix clean

help: ## list the targets and the knobs
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  OHH=<folder>        hand histories to read, or s3://bucket/folder, gs://... (default: HOME_DIR/ohh)"
	@echo "  HANDS=<n>           hands to deal where there are none (default: 20000)"
	@echo "  HOME_DIR=<folder>   where everything made is kept (default: range_reader_home)"
	@echo "  PRESET=<name>       tiny, cpu, base, reference, reference_cpu (default: base with a CUDA GPU, else cpu)"
	@echo "  TRAIN_MINUTES=<n>   wall-clock budget of the training (default: the preset's own)"
	@echo "  INIT_FROM=<what>    weights a training begins with: scratch, kept or kept_or_scratch (default: scratch)"
	@echo "  MINUTES=<n> SEEDS=<n>  of each arm of bench-train (default: 15 and 2)"
	@echo "  HELD_OUT=<share>    of all hands, which bench-train grades instead of training on them (default: 0.3)"
	@echo "  FAILED_FILES=<what> block or warn: what a file does that cannot be read (default: block)"
	@echo "  RETRAIN=<when>      at-once, nightly, never, or a share of more reads (default: 10%)"
	@echo "  PORT=<n>            port of the Dagster UI on 127.0.0.1 (default: 3000)"
	@echo "  PICTURES=<folder>   where test-ui leaves its pictures (default: docs/img, the README's own)"

setup: $(STAMP) ## create .venv and install the pinned dependencies

FIND_PIP = if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
	  elif $(PYTHON) -m pip --python $(BIN)/python --version >/dev/null 2>&1; then pip="$(PYTHON) -m pip --python $(BIN)/python"; \
	  else echo "'$(PYTHON)' has neither venv nor pip; on Debian: apt install python3-venv" >&2; exit 1; fi

# Debian's python3 can come without ensurepip; then the system's pip installs into the bare environment.
$(STAMP): pyproject.toml requirements.lock $(wildcard range_reader_core/_ohh_layout.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "range-reader needs Python 3.11 or newer as '$(PYTHON)'; try: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "setting up .venv (once; a few minutes, most of it PyTorch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip .venv
	@$(FIND_PIP); \
	  $$pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@$(BIN)/python -c 'import range_reader_core._ohh_layout' 2>/dev/null || echo "notice: without a C compiler and Python's headers" \
	  "(Debian: apt install gcc python3-dev) hand files take a third more time; nothing else differs. Later: touch pyproject.toml, make setup"
	@touch $@

run: $(STAMP) ## deal hands if there are none, materialize everything headless and print both tables
	@$(BIN)/range-reader run $(if $(HANDS),--arena-hands $(HANDS))

ui: $(STAMP) ## the Dagster UI on 127.0.0.1:PORT, with the sensor watching the folder
	@$(BIN)/python -m range_reader_pipeline.ports '$(PORT)'
	@PYTHONWARNINGS='ignore:Function `dev_command` is superseded' exec $(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

test: $(STAMP) ## every test but the browser's
	@$(BIN)/pytest -q -m "not ui"

test-ui: $(STAMP) ## use the UI in a browser as a person would; needs Chromium, says so where there is none
	@$(BIN)/python -c 'import playwright' 2>/dev/null || { $(FIND_PIP); \
	  $$pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[ui]'; }
	@UI_PICTURES="$(PICTURES)" $(BIN)/pytest -q -m ui tests/ui

soak: $(STAMP) ## ten minutes of arrivals and buttons: nothing lost, memory and home stay as they are
	@$(BIN)/python -m benchmarks.soak

bench-sensor: $(STAMP) ## what a tick of the sensor costs on ten thousand files
	@$(BIN)/python -m benchmarks.sensor

bench-ingest: $(STAMP) ## what ingestion costs against json.loads, and what it accepts; OHH=<folder> for real hands
	@$(BIN)/python -m benchmarks.ingest $(if $(OHH),--ohh $(OHH))

bench-read: $(STAMP) ## what reading hands costs against its goals, and the service for a minute; OHH=<file> for real hands
	@$(BIN)/python -m benchmarks.read $(if $(OHH),--ohh $(OHH))

bench-train: $(STAMP) ## the default against the reference recipe at equal time on OHH=<folder>; an hour, goes on when killed
	@$(BIN)/python -m benchmarks.train --minutes $(MINUTES) --seeds $(SEEDS) $(if $(HELD_OUT),--held-out $(HELD_OUT))

bench-switches: $(STAMP) ## what each switch of a training step is worth
	@$(BIN)/python -m benchmarks.switches --compiled $(if $(wildcard $(HOME_DIR)/data),--home $(HOME_DIR))

bench-arena: $(STAMP) ## hands the arena deals a second, and its oracle; GRADE=1: the kept checkpoint of HOME_DIR beside it
	@$(BIN)/python -m benchmarks.arena $(if $(GRADE),--home $(HOME_DIR))

check: $(STAMP) ## format, lint, types and the fast tests, on two cores
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory -j 2 -O fast-core fast-pipeline

# The fast tests in two halves, for two cores; the pipeline's share one trained home.
FAST_TESTS := $(BIN)/pytest -q -m "not slow and not gpu and not ui"
fast-core:
	$(FAST_TESTS) --ignore tests/pipeline
fast-pipeline:
	$(FAST_TESTS) tests/pipeline

fix: $(STAMP) ## format the code and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove .venv, caches and Dagster's records (never HOME_DIR)
	rm -rf .venv .cache .dagster_home logs .logs_queue .mypy_cache .ruff_cache .pytest_cache .hypothesis
