# Everything by two commands: `make run` and `make test`. Both install what is missing first (setup/install.sh).
PYTHON := .venv/bin/python
MARKED := broker or kafka or netns or spark or browser or slow
SPELT := broker|kafka|netns|spark|browser|slow
# What judges milliseconds has the machine to itself, and comes before anything else is up. Whole runs and tests of servers
# wait now and then: three at a time on the two cores that a small machine has, two of them with a Spark.
PYTEST := $(PYTHON) -m pytest -q --durations 20
BY_FILE := -n 3 --dist loadfile
BY_GROUP := -n 3 --dist loadscope --no-loadscope-reorder
# Collecting all tests takes a quarter of a minute in each worker: files without the marks are left out (tests/test_marks.py
# fails for a mark that its file does not spell out).
HAVING = $$(grep -rlE 'mark\.($(1))' tests --include='test_*.py')
# An environment that forbids it has every process that a test starts compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
ARGS ?=

.PHONY: run test test-all platforms bare cpp check collect unit timing marked full-timing full properties wheel bench soak setup format doctor docs

run: # the main job on a bundled trace; options: make run ARGS="--vehicles 100"
	@sh setup/install.sh run
	@sh setup/with_rights.sh .venv/bin/ivsim run $(ARGS)

test: # check, unit tests, the built wheel, what judges time, tests of the real parts: the gate
	@sh setup/install.sh test
	@sh setup/parts.sh check,wheel,collect
	@sh setup/parts.sh unit timing marked

test-all: platforms test # Pulsar, and the rest: second modes, own clusters, further back ends, executed pages, whatever takes long
	@sh setup/parts.sh full-timing full properties

platforms: # what set-up leaves out, and its contract tests need
	@sh setup/install.sh test
	$(PYTHON) -m ivsim.cli platform install pulsar

bare: # both commands above where nothing is installed, in a bare Debian chroot; one of them: make bare ARGS=test
	@sh setup/bare.sh $(ARGS)

cpp: # compiler and C++ libraries, for the study serialisation-cpp alone
	@sh setup/install.sh cpp

setup:
	@sh setup/install.sh test

check:
	@sh setup/install.sh test
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

collect: # no test file is broken; three workers would each compile all of them
	@sh setup/install.sh test
	@said=$$($(PYTHON) -m pytest -q --collect-only) || { echo "$$said" | grep -v ::; exit 1; }; echo "$$said" | tail -n 1

unit: # no root, no network, no Java
	@sh setup/install.sh test
	$(PYTEST) $(BY_FILE) -m "not ($(MARKED)) and not timing and not full"

timing: # what judges milliseconds, alone
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTEST) -m "timing and not full" $(call HAVING,timing)

marked: # servers, namespaces, Spark, a browser
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTEST) $(BY_GROUP) -m "($(MARKED)) and not timing and not full" $(call HAVING,$(SPELT))

full-timing:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTEST) -m "timing and full" $(call HAVING,timing)

full:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTEST) $(BY_GROUP) -m "full and not timing" $(call HAVING,full)

properties: # what the gate shows with 25 examples, with 400
	@sh setup/install.sh test
	$(PYTEST) $(BY_FILE) -m "hypothesis and not ($(MARKED)) and not timing and not full" --hypothesis-profile thorough \
		$$(grep -rl hypothesis tests --include='test_*.py')

wheel: # the wheel imports and answers in an environment of its own
	@sh setup/install.sh test
	$(PYTHON) setup/check_wheel.py

bench:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTHON) -m bench $(ARGS)

soak: # 45 minutes of 500 vehicles of all protocols, a fault each 3 minutes: what grows? shorter: make soak ARGS="--minutes 5"
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTHON) -m bench.soak $(ARGS)

format:
	@sh setup/install.sh test
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

docs: # the documentation as a site, in .site/index.html; offline, and a link that leads nowhere ends it
	@sh setup/install.sh docs
	@$(PYTHON) setup/build_site.py $(ARGS)

doctor:
	@.venv/bin/ivsim doctor $(ARGS)
