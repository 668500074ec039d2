# Everything by two commands: `make run` and `make test`. Both install what is missing first (setup/install.sh).
PYTHON := .venv/bin/python
MARKED := broker or kafka or netns or spark or browser or slow
# Two at a time, a file to each: most of the tests wait for servers, and two cores are what a small machine has.
PYTEST := $(PYTHON) -m pytest -q -n 2 --dist loadfile
ARGS ?=

.PHONY: run test check unit marked wheel bench setup format doctor

run: # the main job on a bundled trace; options: make run ARGS="--vehicles 100"
	@sh setup/install.sh run
	@sh setup/with_rights.sh .venv/bin/ivsim run $(ARGS)

test: # check, unit tests, tests of the real parts, the built wheel
	@sh setup/install.sh test
	@$(MAKE) --no-print-directory check wheel
	@sh setup/with_rights.sh $(PYTEST)

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
	$(PYTEST) -m "not ($(MARKED))"

marked:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTEST) -m "$(MARKED)"

wheel: # the wheel imports and answers in an environment of its own
	@sh setup/install.sh test
	$(PYTHON) setup/check_wheel.py

bench:
	@sh setup/install.sh test
	@sh setup/with_rights.sh $(PYTHON) -m bench $(ARGS)

format:
	@sh setup/install.sh test
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

doctor:
	@.venv/bin/ivsim doctor $(ARGS)
