# Everything a developer runs. On a fresh machine with Python 3.11 to 3.13, g++ and make, two commands do:
#   make demo    sets up, then runs the main job
#   make test    sets up, then passes the tests
# hatch owns the environment (pyproject.toml); make only calls it when something it depends on has changed.
# `make test TORCH=2.15.0` tests with another torch, in an environment of its own: .venv-2.15.0.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
# what a second environment is made with: the newest that starts (a shim of pyenv may name one that is not there)
NEWEST_PYTHON ?= $(shell for p in python3.13 "$$HOME"/.pyenv/versions/3.13.*/bin/python python3.12 "$(PYTHON)"; do \
    "$$p" -c '' 2> /dev/null && echo "$$p" && break; done)
JOBS ?= 2
# which tests: make test TESTS=packages/wrapper_ir ARGS="-k text -x"
TESTS ?= packages tests
ARGS ?=
OUT ?= out
# another torch than the one that pyproject.toml names, in an environment of its own; with Python 3.13 where there is one
TORCH ?=

VENV := .venv$(addprefix -,$(TORCH))
BIN := $(VENV)/bin
HATCH := .hatch/bin/hatch
READY := $(VENV)/.ready
PACKAGES := $(sort $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml)))

# What hatch remembers about the environment stays in this folder, beside hatch itself.
export HATCH_DATA_DIR := $(CURDIR)/.hatch/data

# pip speaks only when something is wrong
export PIP_QUIET := 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Two test workers on two cores: one thread each.
PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest

.PHONY: help setup demo demo-triton test slow conformance gpu golden bench lint format types layers docs site wheels clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## create or update .venv (nothing to do when up to date)

$(HATCH):
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=/path/to/python3.11")'
	@echo "setup: installing hatch into .hatch"
	@"$(PYTHON)" -m venv .hatch
	@.hatch/bin/python -m pip install 'hatch>=1.16,<2'

ifeq ($(TORCH),)
$(READY): pyproject.toml $(addsuffix /pyproject.toml,$(PACKAGES)) | $(HATCH)
	@echo "setup: creating or updating $(VENV) with torch and all packages (some minutes the first time)"
	@# never finished, or removed: forget what was installed
	@[[ -e $@ ]] || rm -rf "$$HATCH_DATA_DIR"
	@# `hatch run` creates the environment or brings its dependencies up to date. Installing the packages once more
	@# registers entry points that changed, which hatch doesn't look at.
	@$(HATCH) run python -m pip install --no-build-isolation --no-deps $(addprefix -e ,$(PACKAGES))
	@PIP_QUIET=0 $(BIN)/python -m pip check
	@touch $@
else
$(READY): pyproject.toml $(addsuffix /pyproject.toml,$(PACKAGES)) tools/environment.py
	@echo "setup: creating or updating $(VENV) with torch $(TORCH) and all packages (gigabytes, some minutes the first time)"
	@"$(NEWEST_PYTHON)" tools/environment.py $(VENV) $(TORCH)
	@# no `pip check`: a torch that is tried out need not be declared
	@$(BIN)/python -m pip install --no-build-isolation --no-deps $(addprefix -e ,$(PACKAGES))
	@touch $@
endif

demo: $(READY) ## the main job: a sentence encoder, captured, stored, emitted as Python and built for C++, compared with eager
	@$(BIN)/python examples/minilm.py --folder $(OUT)/minilm $(ARGS)
	@$(BIN)/python -m examples.minilm_cpp --folder $(OUT)/minilm
	@$(BIN)/python -m examples.minilm_native --folder $(OUT)/minilm

demo-triton: $(READY) ## the same with Triton kernels, run by Triton's interpreter on the CPU (a small input)
	@$(BIN)/python -m examples.minilm_triton --folder $(OUT)/minilm $(ARGS)

test: $(READY) ## the tests that take seconds, some ten minutes in all
	@$(PYTEST) -n $(JOBS) --dist worksteal -q -m "not slow and not conformance and not gpu" $(TESTS) $(ARGS)

slow: $(READY) ## the tests that take longer, which a change must pass too
	@$(PYTEST) -n $(JOBS) --dist worksteal -q -m "slow and not conformance and not gpu" $(TESTS) $(ARGS)

conformance: $(READY) ## the long proofs (docs/testing.md says which)
	@# torch's operator database first, with a progress bar: its test then finds all results, and judges them
	@case " $(TESTS) " in *" tests "* | *test_conformance*) $(BIN)/python -m tools.conformance || true;; esac
	@HYPOTHESIS_PROFILE=conformance $(PYTEST) -n $(JOBS) -q -m "conformance and not gpu" $(TESTS) $(ARGS)

gpu: $(READY) ## the tests that need an accelerator
	@$(PYTEST) -q -m gpu $(TESTS) $(ARGS)

golden: $(READY) ## rewrite the golden files; read the difference before you commit it
	@$(PYTEST) -q -m "not conformance and not gpu" --update-golden $(TESTS) $(ARGS)
	@git --no-pager diff --stat

bench: $(READY) ## speed, as ratios against Inductor in one run
	@for bench in tools/bench/bench_*.py; do \
	    echo "== $$bench"; $(BIN)/python -m "$$(echo "$${bench%.py}" | tr / .)" $(ARGS); done

lint: $(READY) ## ruff, formatting, and this repository's own rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m tools.checks

format: $(READY) ## let ruff repair what it can
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

types: $(READY) ## mypy --strict over packages, tests, tools and examples
	@$(BIN)/mypy

layers: $(READY) ## who may import whom
	@$(BIN)/lint-imports --no-logo

docs: $(READY) ## write the generated parts of the documentation
	@$(BIN)/python -m tools.docs $(ARGS)

site: $(READY) ## the documentation as a site, into out/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(HATCH) run docs:python -m mkdocs build --quiet --strict

wheels: $(READY) ## build every package's wheel into dist/, and into dist/pure/ those that are for a platform once more without
	@rm -rf dist/*.whl dist/pure
	@for package in $(PACKAGES); do $(BIN)/python -m build --wheel --no-isolation --outdir dist "$$package" > /dev/null; done
	@# where there is no wheel for the platform: what is compiled in it is built at first use
	@for package in triton_runtime cpp_wrapper; do HATCH_BUILD_NO_HOOKS=true $(BIN)/python -m build --wheel --no-isolation --outdir dist/pure packages/$$package > /dev/null; done
	@ls dist

clean: ## remove build products and caches, keep the environments
	@rm -rf dist $(OUT) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
