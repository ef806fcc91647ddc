# One way to run each habit. Everything is installed into .venv, with pip, and only when it changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 10
USABLE = $(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
APT_PYTHON := apt-get -qq update && \
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends python3-venv >/dev/null

# The model's linear algebra is small: more threads only make two tests at a time fight.
export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo test system programs lint format bench planning frameworks scaling adaptive compilers memory
.PHONY: containers modak wholeway staging timing split answers decoupled data docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 14

setup: $(VENV)/.for-development  ## set up .venv for development

demo: $(VENV)/.for-use  ## set up, time a real training here, predict a run, plan and deploy the best one, split a network
	$(BIN)/forerun demo

test: lint  ## set up, lint, and run all tests
	$(BIN)/python -m pytest -n 2

system: setup programs  ## set up, and run the tests with real clusters, frameworks, networks and a browser
	$(BIN)/python -m pytest tests/system

lint: setup  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## put the code into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: data setup  ## print what the README claims: make bench DATA=directory
	$(BIN)/python benchmarks/accuracy.py --data "$(DATA)"
	$(BIN)/python benchmarks/fit_speed.py --data "$(DATA)"
	$(BIN)/python benchmarks/default_model.py

planning: data setup  ## print what plans from published runs lose: make planning DATA=directory
	$(BIN)/python benchmarks/planning.py --data "$(DATA)" --cache .planning.json

compilers: setup  ## print where compiling the graph pays, by runs measured beforehand
	$(BIN)/python benchmarks/compilers.py table --runs benchmarks/measured

modak: data setup programs  ## hand MODAK's published requests to plan, build and a real Slurm: make modak DATA=directory
	$(BIN)/python benchmarks/modak.py --data "$(DATA)"

containers: setup  ## print how much faster planned images are, by blocks measured beforehand
	$(BIN)/python benchmarks/containers.py table --runs benchmarks/measured

frameworks: setup  ## print what the measured runs of three frameworks show, with figures for docs/
	$(BIN)/python benchmarks/frameworks.py table --runs benchmarks/measured --figures docs/figures --cache .frameworks.json

scaling: setup  ## print what runs on up to 4 hosts say of 8, with figures for docs/
	$(BIN)/python benchmarks/scaling.py table --runs benchmarks/measured --figures docs/figures

adaptive: setup  ## replay measuring by several designs on the measured runs
	$(BIN)/python benchmarks/adaptive.py benchmarks/measured/lenet-*.csv --cache .adaptive.json

staging: setup  ## stage data from a disk that is made slow, as root, and compare with what plans say
	$(BIN)/python benchmarks/staging.py

memory: setup  ## print how many candidates that plans call feasible would run out of memory
	$(BIN)/python benchmarks/memory.py --runs benchmarks/measured --cache .memory.json

wholeway: setup  ## print what plans by short trials lose, of three training scripts whose candidates were all measured
	$(BIN)/python benchmarks/whole_way.py plan --runs benchmarks/measured --cache benchmarks/measured/whole-way-plans.json

split: setup  ## print what networks on several weak boards take, by cells measured beforehand
	$(BIN)/python benchmarks/split.py table --runs benchmarks/measured

answers: setup  ## compare a split network's answers to real photographs with those of one process
	$(BIN)/python benchmarks/split_answers.py photographs

decoupled: setup  ## print what groups, shuffles and width do to accuracy, by networks trained beforehand
	$(BIN)/python benchmarks/decouple_accuracy.py table --runs benchmarks/measured

timing: setup programs  ## time commands beside hyperfine, on an idle machine
	$(BIN)/python benchmarks/timing.py

data:
	@test -n "$(DATA)" || { echo "this needs DATA=, the directory that holds the benchmarks' tables" >&2; exit 2; }

# What the system tests need of the machine. Where it cannot be installed, its tests say so and are skipped.
programs:
	@missing=""; for pair in buildah:buildah chromium:chromium debootstrap:debootstrap hyperfine:hyperfine ip:iproute2 mksquashfs:squashfs-tools munged:munge npm:npm \
		patchelf:patchelf qsub:slurm-wlm-torque shellcheck:shellcheck slurmctld:slurm-wlm sshd:openssh-server; do \
		command -v $${pair%:*} >/dev/null || missing="$$missing $${pair#*:}"; done; \
	if test -n "$$missing" && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	elif test -n "$$missing"; then echo "not on this machine, so their tests are skipped:$$missing" >&2; fi

docs: setup  ## write the generated pages of docs/
	$(BIN)/python docs/generate.py

clean:  ## remove .venv and what the tools left behind
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The stamps are written last: what was interrupted is done again.

$(VENV)/.created:
	@$(USABLE) || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && $(APT_PYTHON); } || true
	@$(USABLE) || { echo "forerun needs Python 3.11 or later with venv: apt-get install python3-venv, or make PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.for-use: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable '.[split]'
	@touch $@

$(VENV)/.for-development: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.for-use
