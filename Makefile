# Everything by two commands: `make run` and `make test`. Both install what is missing first (setup/install.sh).
PYTHON := .venv/bin/python
MARKED := broker or kafka or netns or spark or browser or slow
# Whole runs and tests of servers mostly wait: two at a time, a file to each, on the two cores that a small machine has.
# Tests of links judge what happens within milliseconds, and have the machine to themselves.
PYTEST := $(PYTHON) -m pytest -q --durations 20
TWO := -n 2 --dist loadfile
LINKS := netns and not (spark or slow)
OTHERS := ($(MARKED)) and not ($(LINKS))
ARGS ?=

.PHONY: run test bare cpp check unit marked wheel bench soak setup format doctor docs

run: # the main job on a bundled trace; options: make run ARGS="--vehicles 100"
	@sh setup/install.sh run
	@sh setup/with_rights.sh .venv/bin/ivsim run $(ARGS)

test: # check, unit tests, tests of the real parts, the built wheel
	@sh setup/install.sh test
	@failed=; for part in check wheel unit marked; do \
	    began=$$(date +%s); $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	    echo "make $$part: $$(($$(date +%s) - began)) s"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

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

unit: # no root, no network, no Java
	@sh setup/install.sh test
	$(PYTEST) $(TWO) -m "not ($(MARKED))"

marked:
	@sh setup/install.sh test
	@failed=0; sh setup/with_rights.sh $(PYTEST) -m "$(LINKS)" || failed=1; \
	sh setup/with_rights.sh $(PYTEST) $(TWO) -m "$(OTHERS)" || failed=1; exit $$failed

wheel: # the wheel imports and answers in an environment of its own
	@sh setup/install.sh test
	$(PYTHON) setup/check_wheel.py

bench:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTHON) -m bench $(ARGS)

soak: # half an hour of 500 vehicles of all protocols, a fault each 3 minutes: what grows? shorter: make soak ARGS="--minutes 5"
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
