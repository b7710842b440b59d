# Every target sets up what it needs on a fresh machine (.ci/setup): Python 3.11+ and make are enough.
.DEFAULT_GOAL := help
.PHONY: help demo quick test test-full simulate adversary storm churn history-kills check wheel site pages versions newest-spark bench format clean

PYTHON := .venv/bin/python
# More for pytest: make test ARGS="tests/wire -x"
ARGS ?=
# For how many seconds: make simulate DURATION=600
DURATION ?= 60
# How many storms: make storm STORMS=20
STORMS ?= 5
# For how many minutes: make churn MINUTES=10
MINUTES ?= 10
# How many runs: make history-kills SEEDS=6, make adversary SEEDS=6
SEEDS ?= 6
# BOOTSTRAP=host:port names your own cluster for `make demo`, and make hands it on in the environment. Without
# it the demo runs on the embedded broker.

# Tests wait for sessions and brokers more than they compute, so a few more processes than cores; each keeps a
# whole file, and so starts the brokers of its fixtures once. WORKERS=0 runs them one after the other.
WORKERS ?= 4
# A test that needs a real broker fails where there is none: skipped, it would prove nothing.
PYTEST := GROUPSDK_REQUIRE_KAFKA=1 .ci/tests $(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart 4

# What `make quick` leaves out: what starts a Kafka, a JVM or Go (tests/conftest.py marks these), and the
# longest of the rest, each of them part of `make test`.
QUICK_MARKS := not slow and not kafka and not spark and not go
QUICK_IGNORES := $(addprefix tests/,survival examples $(addprefix simulation/test_,simulation.py mutants.py consumer_mutants.py broker_mutants.py offset_mutants.py fuzz.py))

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## three workers share out real work and survive a kill; BOOTSTRAP=host:port for your own cluster
	@.ci/setup demo
	@$(PYTHON) -m examples.demo

quick: ## run the tests that need no Kafka and no JVM, without the longest ones; ARGS="..." goes to pytest
	@.ci/setup python
	.ci/tests $(PYTHON) -m pytest -n 2 --dist loadfile -m "$(QUICK_MARKS)" $(addprefix --ignore=,$(QUICK_IGNORES)) $(ARGS)

test: ## run the tests, on a real Apache Kafka where they need one; ARGS="..." goes to pytest
	@.ci/setup python jvm browser promtool
	$(PYTEST) -m "not slow" $(ARGS)

test-full: ## run the long tests as well
	@.ci/setup python jvm browser promtool
	$(PYTEST) $(ARGS)

simulate: ## play random runs of members and brokers under faults for DURATION=n seconds
	@.ci/setup python
	@$(PYTHON) -m tests.simulation --extended --duration $(DURATION)

adversary: ## look for groups that take `sticky` longest, from fresh seeds, with SEEDS=n of them
	@.ci/setup python
	$(PYTHON) -m tests.assignors.sticky.adversary --seeds $(SEEDS)

storm: ## share a group of a real Kafka among six libraries that are stopped and killed, STORMS=n times
	@.ci/setup python jvm
	$(PYTHON) -m tests.survival.storm --storms $(STORMS)

churn: ## keep a thousand Connect tasks on twenty workers through kills and changes for MINUTES=n
	@.ci/setup python
	@$(PYTHON) -m tests.connect.churn --minutes $(MINUTES)

history-kills: ## kill what follows an archive, driver, workers and executors, with SEEDS=n; compare the tables
	@.ci/setup python jvm
	$(PYTHON) -m tests.spark.following_kills --seeds $(SEEDS)
	$(PYTHON) -m tests.spark.following_kills --seeds $(SEEDS) --format delta

check: ## formatting, ruff, mypy strict, pyright on docs and examples, and the import contracts
	@.ci/setup lint
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m docs.check_types
	.venv/bin/lint-imports --no-cache
	$(PYTHON) -m codespell_lib README.md CHANGELOG.md docs examples groupsdk assignors

wheel: ## build wheel and source distribution into dist/ and check what is in them
	@.ci/setup python
	@.ci/wheel

site: ## build the documentation site into build/site, and check its links
	@.ci/setup docs
	@$(PYTHON) -m docs.build_site

pages: ## follow every page as a reader, with all packages downloaded, Spark and a real Kafka; PAGE=docs/connect.md for one
	@.ci/setup python jvm
	@$(PYTHON) -m docs.run_pages --whole $(PAGE)

versions: ## install the wheel for every Python of the machine and try its parts on an embedded broker
	@.ci/setup python
	@.ci/versions

newest-spark: ## run the history's tests on the newest release of Spark, without table formats
	@.ci/setup python jvm
	@.ci/newest_spark $(ARGS)

bench: ## measure groupsdk and its peers side by side; ONLY=name for one, ARGS="--full --docs" writes docs/benchmarks.md
	@.ci/setup python jvm
	@$(PYTHON) -m tests.benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

format: ## format the code and fix what ruff can fix
	@.ci/setup lint
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

clean: ## remove .venv, caches and builds; the jars in the user's cache stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
