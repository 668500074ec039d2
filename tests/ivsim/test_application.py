"""The command line itself: light until a command is called, complete, quiet when it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ivsim import cli
from ivsim.application import load
from ivsim.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
# What takes long to import; none of it is needed to say which commands there are.
HEAVY = {
    "numpy",
    "pydantic",
    "rich",
    "pyarrow",
    "matplotlib",
    "scipy",
    "pyroute2",
    "aiocoap",
    "paho",
    "pika",
    "pandas",
}


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **environment},
    )


def imported(*arguments: str) -> set[str]:
    done = python("-X", "importtime", "-m", "ivsim.cli", *arguments)
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def every_command() -> list[tuple[str, ...]]:
    """Return the words of every command and of those below it."""
    found: list[tuple[str, ...]] = [()]
    for name in COMMANDS:
        found.append((name,))
        found += [(name, below) for below in getattr(load(name), "commands", {})]
    return found


def test_help_says_words_for_values_and_cuts_nothing_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer shows the type's name in Python (`<bool>`, `<list[str]>`), and cuts a word that is longer than its column."""
    monkeypatch.setenv("COLUMNS", "80")
    for words in every_command():
        monkeypatch.setattr(sys, "argv", ["ivsim", *words, "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        text = capsys.readouterr().out
        assert ended.value.code == 0, words
        assert re.findall(r"(?<!/)<[a-z]+(?:\[|>)|\[\[|\u2026", text) == [], words
        assert max(map(len, text.splitlines())) <= 80, words


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",)])
def test_what_needs_no_part_imports_none(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    assert "typer" in found
    assert found & HEAVY == set()


def test_the_list_of_studies_draws_and_measures_nothing() -> None:
    """It took 1.8 s, most of it for charts and statistics that no list shows."""
    assert imported("study", "list") & (HEAVY - {"pydantic"}) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_has_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["ivsim", name, "-h"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f" {name} [OPTIONS]" in text
    assert max(map(len, text.splitlines())) <= 80
    # What a command does is broken where the terminal ends, not where its source does.
    said = [line.strip() for line in text.partition("╭")[0].splitlines()]
    for line, after in pairwise(said):
        assert not line or not after or len(f"{line} {after.split()[0]}") > 78, line


def test_the_list_of_commands_has_each_with_its_help() -> None:
    text = " ".join(python("-m", "ivsim.cli", "--help").stdout.split())
    for row in COMMANDS.values():
        assert f" {row.name} {row.help}" in text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ivsim ru", ["run"]),
        ("ivsim trace imp", ["import"]),
        ("ivsim run --vehi", ["--vehicles", "--vehicle-log", "--vehicle-mapping"]),
        ("ivsim run --protocol ", ["mqtt", "amqp", "coap"]),
        ("ivsim run --mqtt-version ", ["5", "3.1.1"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(typed: str, offered: list[str]) -> None:
    """As bash asks, with the line typed so far and the number of the word (`ivsim --show-completion`)."""
    asked = {"_IVSIM_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [Path(sys.executable).with_name("ivsim")],
        env={**os.environ, "PYTHONPATH": str(ROOT), **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == offered, done.stderr


def test_version_says_the_commit() -> None:
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for arguments in (("version",), ("--version",)):
        said = python("-m", "ivsim.cli", *arguments).stdout
        assert re.fullmatch(rf"ivsim \d+\.\d+\.\d+ \({head}(-dirty)?\)\n", said), said


@pytest.mark.parametrize(
    "after_s", [0.1, *(pytest.param(after_s, marks=pytest.mark.full) for after_s in (0.3, 0.6, 1.0))]
)
def test_an_interrupt_in_the_first_moments_leaves_no_traceback(after_s: float) -> None:
    # A study's check imports every part and starts nothing. What Python does before it runs a line is not ours.
    program = "from ivsim.cli import main; print('begun', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "study", "check", "ifip2020"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode in {cli.EXIT_INTERRUPTED, -signal.SIGINT, 0}, err
