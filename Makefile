# `make run` and `make test` need Python 3.11 or later and make. Each command installs into .venv what it needs and no more,
# the first time and when pyproject.toml changes: `make run` the queue manager, `make spark` Spark and a Java besides,
# `make test` everything (tools/setup.sh, tools/java.sh).

PYTHON ?= python3
# Twice as many as the cores of a small computer: tests wait for disks, timers and other processes.
WORKERS ?= 4
FUZZ_SECONDS ?= 300
ROUNDS ?= 200
STATES ?= 2000
COUNT ?= 1000000
PYSPARK ?= 4.2.1

VENV := .venv
BIN := $(VENV)/bin
# $(call stamp,EXTRA): the file that says that an extra is installed. It names the interpreter as it was given, so that
# another PYTHON installs again; it is part of the virtual environment and goes with it.
stamp = $(VENV)/installed-$(1)-$(subst /,-,$(PYTHON))
MANAGER := $(call stamp,manager)
SPARK := $(call stamp,spark)
DEV := $(call stamp,dev)
DOCS := $(call stamp,docs)
BENCH := $(call stamp,bench)
FUZZ := $(call stamp,fuzz)
SETUP := tools/setup.sh $(PYTHON) $(VENV)
JAVA := tools/java.sh $(PYTHON) $(VENV)
# Tests that share an expensive fixture run in one worker (tools/sharing.py).
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help run spark test quick lint java docs ledger vocabulary bench million pyspark crash chaos backpressure damage power mutants fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: $(MANAGER) ## start a queue manager on build/data, until Ctrl-C; installs nothing else
	@mkdir -p build
	@exec $(BIN)/waypost serve --hints --data build/data --bind 127.0.0.1

spark: $(SPARK) ## add Spark, and a Java if there is none, to .venv (1 GB)
	@$(JAVA)
	@echo "Spark is installed. Try: $(BIN)/waypost demo"

test: lint java ## check style, types and layers, then run the whole test suite
	@$(PYTEST) --ledger=record

# mypy keeps what it knows of files that have not changed. `make test` runs every test; SLOW in tools/sharing.py names
# those that only it runs.
quick: $(DEV) ## check style and types, and run the tests that start no process (a minute)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(PYTEST) --quick --quiet

lint: $(DEV) ## check style, types and layers only
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(DOCS) ## build the documentation site in build/docs
	@$(BIN)/sphinx-build -W -E --keep-going -q docs build/docs
	@echo "Open build/docs/index.html in a browser."

ledger: java ## run the suite and count the proven requirements (MISSING=1 lists the others)
	@$(PYTEST) --quiet --ledger=$(if $(MISSING),missing,table)

vocabulary: $(DEV) ## measure the walk of a message and the vocabulary of the code (MODULES=1 lists the modules, CALLS=1 the calls)
	@$(BIN)/python -m tools.vocabulary $(if $(MODULES),--modules) $(if $(CALLS),--calls)

ifdef AGAINST
bench: $(DEV)
	@$(BIN)/python bench/against.py $(AGAINST)
else
bench: $(BENCH) java ## measure against others, or against another commit (AGAINST=COMMIT)
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/queues.py
	@$(BIN)/python bench/transfer.py
	@$(BIN)/python bench/remote.py
	@$(BIN)/python bench/fairness.py
	@$(BIN)/python bench/protected.py
	@$(BIN)/python bench/arrow_decode.py
	@$(BIN)/python bench/spark.py
endif

million: $(DEV) ## measure a queue of 1,000,000 messages (minutes, 2 GB of disk)
	@$(BIN)/python bench/million.py

# Beside the PySpark of .venv, which stays as it is.
pyspark: java ## run the tests of Spark's facts, streams and sink with another PySpark (PYSPARK=4.2.1)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade --target build/pyspark-$(PYSPARK) pyspark==$(PYSPARK)
	@PYTHONPATH=$(CURDIR)/build/pyspark-$(PYSPARK) $(BIN)/pytest tests/spark/contract tests/spark/test_stream.py tests/spark/test_sink.py

crash: $(DEV) ## kill loaded queue managers and their readers ROUNDS (200) times and check what they kept
	@$(BIN)/python -m tests.crash.campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.transfer_campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.remote_campaign --rounds $(ROUNDS)

# ROUNDS on the command line has precedence over this line.
chaos: ROUNDS := 100
chaos: java ## kill workers, drivers, daemons and JVMs of Spark pipelines in ROUNDS (100) rounds and look for every message
	@$(BIN)/python -m tests.crash.chaos.campaign --rounds $(ROUNDS)
	@$(BIN)/python -m tests.crash.chaos.campaign --long

backpressure: java ## write COUNT (1,000,000) rows from Spark to a queue of 10 MB that is being drained and look for every row
	@$(BIN)/python -m tests.crash.backpressure_campaign --count $(COUNT)

damage: $(DEV) ## damage data folders in 600 ways and check that nothing is silent and that salvage brings back what is whole
	@$(BIN)/python -m tests.damage.campaign

power: $(DEV) ## cut the power of recorded queue managers, open STATES (2000) of their disks and check what they kept
	@$(BIN)/python -m tests.power.campaign --states $(STATES)

mutants: $(DEV) ## plant mistakes in the engine and show which seed of the simulator finds each
	@$(BIN)/python -m tests.sim.mutants

fuzz: $(FUZZ) ## fuzz the decoders for FUZZ_SECONDS (300)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python fuzz/run.py

clean: ## remove .venv and everything else that these commands made, but not fuzz/findings
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools bench examples fuzz -name __pycache__ -exec rm -rf {} +

$(MANAGER): pyproject.toml tools/setup.sh
	@$(SETUP) "the queue manager"
	@touch $@

$(SPARK): pyproject.toml tools/setup.sh
	@$(SETUP) "Spark (some minutes, 900 MB)" spark
	@touch $(MANAGER) $@

$(DOCS): pyproject.toml tools/setup.sh
	@$(SETUP) "the documentation tools" docs
	@touch $(MANAGER) $@

# The extra `dev` has all of `spark` and `docs`.
$(DEV): pyproject.toml tools/setup.sh
	@$(SETUP) "Waypost, Spark and the development tools (some minutes, 1.5 GB)" dev
	@touch $(MANAGER) $(SPARK) $(DOCS) $@

$(BENCH): $(DEV)
	@$(SETUP) "the queues to compare with" bench
	@touch $@

$(FUZZ): $(DEV)
	@$(SETUP) "the fuzzer" fuzz
	@touch $@

# Every time, because a Java of the system comes and goes.
java: $(DEV)
	@$(JAVA)
