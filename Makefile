.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint format bench browser clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# One torch thread a process: with two processes on two cores, more threads only wait for each other.
export OMP_NUM_THREADS ?= 1

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/lab.stamp ## compare six losses on embedded data: a table and a report (four minutes once installed)
	@$(BIN)/maxsup compare --output comparison

test: $(VENV)/dev.stamp ## run the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: lint ## lint, types and the fast tests (two minutes once installed)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow and not distributed and not browser"

lint: $(VENV)/dev.stamp ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/bench.stamp ## run the benchmarks (alone on the machine)
	$(BIN)/python -m benchmarks

browser: ## install chromium for the browser tests (Debian and Ubuntu)
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
	  || echo "chromium is not installed and apt could not install it; the browser tests will be skipped."

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .pytest_cache src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit("constraints.txt needs Python 3.11 or newer; run make PYTHON=python3.11, or pip install the package without it." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# uv takes under a minute; pip takes several but also works where uv cannot reach the package index.
# --compile-bytecode: uv does not compile by default, and imports would then stay slow for ever.
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(VENV)/created.stamp
	@echo "Installing maxsup[$*] into $(VENV) ..."
	@{ $(BIN)/python -m pip install --quiet -c constraints.txt uv \
	   && $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[$*]'; } \
	  || { echo "uv failed, trying pip ..." \
	   && $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$*]'; }
	@touch $@
