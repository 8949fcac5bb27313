# `make run` and `make test` need python3 and make. The rest is installed into .venv the first time and when pyproject.toml changes,
# with a Java if there is none (tools/java.sh); only what Debian's python3 lacks to make a virtual environment is installed outside
# of it (tools/setup.sh).

PYTHON ?= python3
WORKERS ?= 2
FUZZ_SECONDS ?= 300
ROUNDS ?= 200
STATES ?= 2000

VENV := .venv
BIN := $(VENV)/bin
# The stamp carries the interpreter as it was named, so that another PYTHON means another installation.
INSTALLED := $(VENV)/installed-$(subst /,-,$(PYTHON))
FUZZ_INSTALLED := $(VENV)/installed-fuzz
BENCH_INSTALLED := $(VENV)/installed-bench
# Tests that share something dear run in one worker (tools/sharing.py).
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help run test lint java docs ledger vocabulary bench million crash damage power mutants fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

run: java ## start a queue manager on build/data, until Ctrl-C
	@mkdir -p build
	@echo "Open http://127.0.0.1:8181 when it is ready, and try in another terminal:"
	@echo "  $(BIN)/waypost queue create orders && $(BIN)/waypost send orders --body '42 bolts' && $(BIN)/waypost receive orders"
	@echo "  $(BIN)/waypost demo"
	@exec $(BIN)/waypost serve --data build/data --bind 127.0.0.1

test: lint java ## check style, types and layers, then run the whole test suite
	@$(PYTEST) --ledger=record

lint: $(INSTALLED) ## check style, types and layers only
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(INSTALLED) ## build the documentation site in build/docs
	@test -x $(BIN)/sphinx-build || $(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	@$(BIN)/sphinx-build -W -E --keep-going -q docs build/docs
	@echo "Open build/docs/index.html in a browser."

ledger: java ## run the suite and count the proven requirements (MISSING=1 lists the others)
	@$(PYTEST) --quiet --ledger=$(if $(MISSING),missing,table)

vocabulary: $(INSTALLED) ## measure the walk of a message and the vocabulary of the code (MODULES=1 lists the modules, CALLS=1 the calls)
	@$(BIN)/python -m tools.vocabulary $(if $(MODULES),--modules) $(if $(CALLS),--calls)

ifdef AGAINST
bench: $(INSTALLED)
	@$(BIN)/python bench/against.py $(AGAINST)
else
bench: $(BENCH_INSTALLED) java ## measure against others, or against another commit (AGAINST=COMMIT)
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/queues.py
	@$(BIN)/python bench/transfer.py
	@$(BIN)/python bench/remote.py
	@$(BIN)/python bench/fairness.py
	@$(BIN)/python bench/arrow_decode.py
	@$(BIN)/python bench/spark.py
endif

million: $(INSTALLED) ## measure a queue of 1,000,000 messages (minutes, 2 GB of disk)
	@$(BIN)/python bench/million.py

crash: java ## kill loaded queue managers and their readers ROUNDS (200) times and check what they kept
	@$(BIN)/python -m tests.crash.campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.transfer_campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.remote_campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.spark_campaign

damage: $(INSTALLED) ## damage data folders in 600 ways and check that nothing is silent and that salvage brings back what is whole
	@$(BIN)/python -m tests.damage.campaign

power: $(INSTALLED) ## cut the power of recorded queue managers, open STATES (2000) of their disks and check what they kept
	@$(BIN)/python -m tests.power.campaign --states $(STATES)

mutants: $(INSTALLED) ## plant mistakes in the engine and show which seed of the simulator finds each
	@$(BIN)/python -m tests.sim.mutants

fuzz: $(FUZZ_INSTALLED) ## fuzz the decoders for FUZZ_SECONDS (300)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python fuzz/run.py

clean: ## remove .venv and everything else that these commands made, but not fuzz/findings
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools bench examples fuzz -name __pycache__ -exec rm -rf {} +

$(INSTALLED): pyproject.toml tools/setup.sh
	@tools/setup.sh $(PYTHON) $(VENV)
	@rm -f $(VENV)/installed-*
	@touch $@

# Looked for every time: a Java of the system comes and goes.
java: $(INSTALLED)
	@tools/java.sh $(VENV)

$(BENCH_INSTALLED): $(INSTALLED)
	@echo "Installing the queues to compare with into $(VENV) (once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[bench]'
	@touch $@

$(FUZZ_INSTALLED): $(INSTALLED)
	@echo "Installing the fuzzer into $(VENV) (once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[fuzz]'
	@touch $@
