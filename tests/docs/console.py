"""Runs what a page tells its reader to do: saves its files, types its commands in a terminal, compares what comes out.

A block after a paragraph that ends with "as `NAME`:" is a file of that name. In a block `console` lines with `$ ` are commands,
which go on below a backslash. What follows is the output, in which `...` stands for anything and line breaks do not count. A
command ends with 0, but where the next one is `echo $?`.
"""

from __future__ import annotations

import errno
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

COLUMNS = 80
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"\b[Aa]s `(?P<name>[\w./-]+)`:$")
_ASKS = "echo $?"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class Step(NamedTuple):
    """A file to save, or a command to type; `text` is the file's content or the output that is shown."""

    file: str | None
    command: str | None
    text: str


class Printed(NamedTuple):
    """What a command printed, on both streams, and its exit code."""

    code: int
    text: str


def steps(page: str) -> Iterator[Step]:
    """Yield what a page, or a part of one, has its reader do."""
    for block in _BLOCK.finditer(page):
        if named := _NAMED.search(block["before"]):
            yield Step(named["name"], None, block["text"])
        elif block["kind"] == "console":
            for command in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                typed = re.match(r"(?:.*\\\n)*.*", command)
                assert typed is not None
                yield Step(None, typed[0], command[typed.end() :])


def section(page: str, *headings: str) -> str:
    """Return the sections with these headings of the second level."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return "".join(found[heading] for heading in headings)


def follow(page: str, directory: Path, tolerated: Callable[[str, int], bool] = lambda *_: False) -> int:
    """Do all that a page says in a directory, and return how many commands there were.

    Args:
        page: Markdown.
        directory: where its reader stands.
        tolerated: whether a command may end with this code though the page does not ask for it.
    """
    code, commands = 0, 0
    todo = list(steps(page))
    for step, following in zip(todo, [*todo[1:], None], strict=True):
        if step.file is not None:
            file = directory / step.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text, encoding="utf-8")
            continue
        assert step.command is not None
        done = _typed(step.command, code, directory)
        code, commands = done.code, commands + 1
        assert alike(step.text, done.text), f"$ {step.command}\n{done.text}\nshown is:\n{step.text}"
        asked = following is not None and following.command == _ASKS
        assert code == 0 or asked or tolerated(step.command, code), f"$ {step.command}: {code}\n{done.text}"
    return commands


def alike(shown: str, printed: str) -> bool:
    """Return whether what was printed is what a page shows."""
    wanted, found = (" ".join(text.split()) for text in (shown, printed))
    return re.fullmatch(re.escape(wanted).replace(r"\.\.\.", ".*"), found) is not None


def _typed(command: str, code: int, directory: Path) -> Printed:
    """Type a command in a terminal of 80 columns, in which `$?` is `code`, and return what it printed, without colours."""
    terminal, its_end = pty.openpty()
    termios.tcsetwinsize(its_end, (24, COLUMNS))
    with subprocess.Popen(
        ["sh", "-c", f"(exit {code}); {command}"],
        cwd=directory,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm",
            "COLUMNS": str(COLUMNS),
            "IVSIM_STATE_DIR": str(directory / "state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
    ) as process:
        os.close(its_end)
        try:
            printed = b"".join(_read(terminal))
        except (
            BaseException
        ):  # a test's time is over: what was typed ends, too, and closes what it has opened
            os.killpg(process.pid, signal.SIGTERM)
            raise
        finally:
            os.close(terminal)
        return Printed(process.wait(), _CONTROL.sub("", printed.decode()))


def _read(terminal: int) -> Iterator[bytes]:
    """Yield what a terminal shows until nobody has its other end any more."""
    while True:
        try:
            yield os.read(terminal, 65_536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return
