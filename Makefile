.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs test test-docs test-oldest check lint format bench dist browser clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The oldest versions that pyproject.toml promises, with an environment of their own.
OLDEST_PYTHON := 3.10
OLDEST_TORCH := 2.4.0
OLDEST_VENV := .venv-oldest
DIST_VENV := .venv-dist
LOSS_TESTS := tests/contract tests/paper tests/properties tests/unit/losses tests/unit/test_monitor.py tests/unit/test_schedules.py
LAB_TESTS := recipe_data.py test_analyses.py test_datasets.py test_models.py test_recipes.py test_studies.py

# One torch thread a process: with two processes on two cores, more threads only wait for each other.
export OMP_NUM_THREADS ?= 1

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/lab.stamp ## compare three losses on embedded data: findings and a report (under five minutes once installed)
	@$(BIN)/maxsup compare --losses ce,ls:0.2,maxsup:0.2 --seeds 12 --output comparison

docs: $(VENV)/docs.stamp ## build this project's site in docs/_build/html, its examples included (minutes)
	@$(BIN)/python -m tools.site

test-docs: $(VENV)/dev.stamp docs ## build the site and look at its pages in a browser
	$(BIN)/python -m pytest -q tests/browser/test_site.py

test: $(VENV)/dev.stamp ## run the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

# A shim of pyenv is on PATH for every version it has, and fails for those that are not chosen.
test-oldest: ## run the tests of the losses with the oldest Python and torch that are promised
	@command -v pyenv >/dev/null && export PYENV_VERSION=$$(pyenv versions --bare | grep '^$(OLDEST_PYTHON)\.' | tail -1); \
	if python$(OLDEST_PYTHON) -c '' 2>/dev/null; then $(MAKE) --no-print-directory $(OLDEST_VENV)/$(OLDEST_TORCH).stamp \
	  && $(OLDEST_VENV)/bin/python -m pytest -n 2 --dist worksteal $(LOSS_TESTS) $(LAB_TESTS:%=--ignore=tests/contract/%); \
	else echo "Python $(OLDEST_PYTHON) is not installed here, so nothing was tested with it."; fi

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

# The package is read from the wheel and not from here: an empty folder is the place to start it.
dist: ## build wheel and sdist, and try the wheel in an empty environment
	rm -rf dist build $(DIST_VENV)
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --quiet build twine
	$(DIST_VENV)/bin/python -m build --outdir dist .
	$(DIST_VENV)/bin/python -m twine check --strict dist/*
	rm -rf $(DIST_VENV)
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[lab]"
	@here=$$PWD && empty=$$(mktemp -d) && cd $$empty && set -x \
	  && $$here/$(DIST_VENV)/bin/maxsup --help >help.txt \
	  && $$here/$(DIST_VENV)/bin/python -c 'import maxsup, torch; assert "$(DIST_VENV)" in maxsup.__file__; \
	     [maxsup.create_loss(name) for name in maxsup.list_losses()]; \
	     print(maxsup.MaxSupLoss(alpha=0.1)(torch.randn(4, 3), torch.tensor([0, 1, 2, 0])))' \
	  && $$here/$(DIST_VENV)/bin/maxsup train digits_cnn epochs=3 --output run \
	  && $$here/$(DIST_VENV)/bin/maxsup diagnose run >diagnosis.txt \
	  && $$here/$(DIST_VENV)/bin/maxsup export run --to card && rm -r $$empty

browser: ## install chromium for the browser tests (Debian and Ubuntu)
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
	  || echo "chromium is not installed and apt could not install it; the browser tests will be skipped."

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) $(OLDEST_VENV) $(DIST_VENV) build dist docs/_build .mypy_cache .ruff_cache .hypothesis .pytest_cache src/*.egg-info
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

$(OLDEST_VENV)/$(OLDEST_TORCH).stamp: pyproject.toml
	@echo "Installing maxsup with torch $(OLDEST_TORCH) into $(OLDEST_VENV) ..."
	@rm -rf $(OLDEST_VENV)
	@python$(OLDEST_PYTHON) -m venv $(OLDEST_VENV)
	@$(OLDEST_VENV)/bin/python -m pip install --quiet -e . torch==$(OLDEST_TORCH) numpy pytest pytest-xdist hypothesis
	@touch $@
