# Needs Python 3.11 or newer with venv, and make. Everything else goes into .venv, at the versions of constraints.txt.

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST = $(BIN)/python -m pytest

# System checks look at the code here, not at this machine: no key, no file, no folder of an earlier run.
CHECK_ENVIRONMENT = SECRET_KEY=for-checks-alone CAYU_ENV_FILE= CAYU_DEMO=1 CAYU_ALLOW_SQLITE=1 DATABASE_URL=sqlite://:memory:

# What was left out, over all runs of one `make test`, so that the last one can say it.
LEFT_OUT = $(VENV)/left-out
TEST_ENVIRONMENT = CAYU_TEST_LEFT_OUT=$(LEFT_OUT)

# What needs no database, or looks at pages in a browser, has nothing new to say on the second one: `smoke` is enough.
ON_POSTGRES = not architecture and not sqlite and (smoke or not (unit or e2e or chromium))

.DEFAULT_GOAL := help
.PHONY: help run test quick check bench faults mutants screenshots

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

run: $(VENV)/run.stamp ## Start the demo on this machine; Ctrl-C ends it, the next start goes on where it was
	@$(BIN)/python manage.py up $(ARGS)

test: check ## Everything: the checks, then the suite on SQLite and on PostgreSQL (which the tests bring)
	@rm -f $(LEFT_OUT)
	$(TEST_ENVIRONMENT) $(PYTEST) -n auto --database=sqlite -m "not architecture and not postgres"
	$(TEST_ENVIRONMENT) $(PYTEST) -n auto --database=postgres -m "$(ON_POSTGRES)"

quick: $(VENV)/dev.stamp ## The fast half: unit, db, conformance and web tests on SQLite
	$(PYTEST) -n auto -m "not postgres and not chromium" tests/unit tests/db tests/conformance tests/web

check: $(VENV)/dev.stamp ## ruff, mypy, system checks; import contracts, missing migrations, sizes and names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(CHECK_ENVIRONMENT) $(BIN)/python manage.py check --fail-level WARNING
	$(PYTEST) tests/architecture

bench: $(VENV)/dev.stamp ## Measure what a lifecycle costs here, on both databases (ARGS="--quick" for two minutes)
	@$(BIN)/python manage.py bench $(ARGS)

faults: $(VENV)/dev.stamp ## Break things at random and let an oracle judge (N=10000 SEED=7 FROM=4400), or kill -9 of everything (ROUNDS=20)
ifdef ROUNDS
	@$(BIN)/python -m tests.faults.rounds --rounds $(ROUNDS) $(ARGS)
else
	@$(BIN)/python -m tests.proof $(if $(N),--n $(N)) $(if $(SEED),--seed $(SEED)) $(if $(FROM),--from $(FROM)) $(ARGS)
endif

mutants: $(VENV)/dev.stamp ## Break one guard after another in a copy of the source; a named test must fail each time
	@$(BIN)/python -m tests.mutants $(ARGS)

screenshots: $(VENV)/dev.stamp ## Pictures of every page, to be looked at; fails on what axe and the browser find (ARGS="--only session")
	@$(BIN)/python -m tests.screenshots $(ARGS)

# --- The virtual environment ---------------------------------------------------------------------------------------

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what Cayu needs into $(VENV) …"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what Cayu and its tests need into $(VENV) …"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/run.stamp

# A name that is found may still be a launcher for a version that is not installed: each is asked what it is.
$(BIN)/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	    if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        exec $$python -m venv $(VENV); \
	    fi; \
	done; \
	echo "Cayu needs Python 3.11 or newer with venv, and found none (on Debian: apt install python3 python3-venv)." >&2; \
	exit 1
