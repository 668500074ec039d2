"""Why a process ended, read from what it wrote last; it reads text, and knows no process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

CAUSE_CHARACTERS: Final = 300
MESSAGE_LINES: Final = 10  # of an exception of Java's, at most

# Once Java says one of these, all that follows is its consequence. The first kind counts, and of it what came last.
_JAVA_IS_LOST: Final = (
    re.compile(r"^# +(There is insufficient memory for the Java Runtime Environment.*)"),
    re.compile(r"^#  ((?:SIG[A-Z]+|Internal Error|Out of Memory Error)\b.*)"),
    re.compile(
        r"\b((?:java\.lang\.)?(?:OutOfMemoryError|VirtualMachineError)\b.*|java\.lang\.InternalError\b.*)"
    ),
    re.compile(r"\b(CodeCache is full.*)"),
)
# "java.lang.IllegalStateException: not yet", "Exception in thread "main" java.lang.NoClassDefFoundError: kafka/Kafka"
_EXCEPTION: Final = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" )?((?:[A-Za-z_]\w*[.$])*[A-Z]\w*(?:Error|Exception|Throwable)\w*(?::.*)?)$"
)
# Py4J puts Java's exception behind a colon, below Python's.
_JAVA_BELOW: Final = re.compile(r"^(?:Caused by|): (.*)")
_JAVA_FRAME: Final = re.compile(r"^\s+(?:at |\.\.\. [0-9])")
_TRACEBACK: Final = "Traceback (most recent call last):"
_BELOW: Final = re.compile(r"^(?:\s|Caused by: |: |Suppressed: |JVM stacktrace:|Driver stacktrace:)")
# Behind times and threads: "[2026-01-31 12:00:00,123] ERROR ...", "2026-01-31T12:00:00,123+0000 [main] WARN  ...",
# "[4.2s][warning][codecache] ...", "2026-01-31 12:00:00.123456+00:00 [error] ...", "OpenJDK 64-Bit Server VM warning: ..."
_LEVEL: Final = re.compile(
    r"^(?:(?:OpenJDK|Java)\b[^:]* VM |(?:[\[0-9]\S*\s+){0,3}(?:\[[^\]\s]*\])?)"
    r"\[?(trace|debug|info|notice|warn|warning|error|fatal|critical|severe)\b",
    re.IGNORECASE,
)
_HARMLESS: Final = {"trace", "debug", "info", "notice", "warn", "warning"}
# Each start of Spark, or of a Java with options from outside, says the first; a machine the others at its end.
_SAID_ALWAYS: Final = (
    "Picked up ", "Setting default log level to ", "To adjust logging level use ", "Using Spark's default log4j profile",
    "the server on the machine ended with exit code ", "reboot: ",
)  # fmt: skip


def cause_of(text: str) -> str:
    """Return in one line the cause of the end that stands in a process's last words; "" where it said nothing.

    That is what made its Java useless; else the last thing that it said and did not call harmless: of a trace the
    exception at its root, of a line that line.
    """
    lines = text.splitlines()
    if lost := _lost(lines):
        return _short(lost)
    records = _records(lines)
    grave = [record for record in records if not _harmless(record[0])] or records
    return _short(_root(grave[-1])) if grave else ""


def java_cause_of(text: str) -> str:
    """Return in one line what Java threw at the root of an error of Python's that passes it on; "" for any other."""
    lines = text.splitlines()
    return _short(_lost(lines) or _innermost(lines))


def end_of(text: str, count: int) -> str:
    """Return the last lines that say something: of the frames of Java one for all that follow each other."""
    kept: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if not (kept and _JAVA_FRAME.search(line) and _JAVA_FRAME.search(kept[-1])):
            kept.append(line)
    return "\n".join(kept[-count:])


def _records(lines: Sequence[str]) -> list[list[str]]:
    """Return what belongs together: a line, and with it the trace below it."""
    records: list[list[str]] = []
    for line in filter(str.strip, lines):
        if not records or not _belongs(line, records[-1]):
            records.append([line])
            continue
        if _JAVA_FRAME.search(line):
            _join_message(records)
        records[-1].append(line)
    return records


def _belongs(line: str, record: Sequence[str]) -> bool:
    """Say whether a line goes on with a record."""
    announced = len(record) == 1 and _LEVEL.search(record[0]) is not None
    if line == _TRACEBACK:
        return announced
    if _BELOW.search(line) or (announced and _EXCEPTION.search(line)):
        return True
    # The message below a traceback may have lines that begin anywhere.
    return _TRACEBACK in record and _LEVEL.search(line) is None


def _join_message(records: list[list[str]]) -> None:
    """Put the lines of an exception's message together, now that the first of its frames shows where they end."""
    if _exception(records[-1]) or len(records[-1]) > 1:
        return
    for back in range(2, min(len(records), MESSAGE_LINES) + 1):
        if _exception(records[-back]):
            records[-back:] = [[line for record in records[-back:] for line in record]]
            return
        if len(records[-back]) > 1 or _LEVEL.search(records[-back][0]):
            return


def _exception(record: Sequence[str]) -> bool:
    return any(_EXCEPTION.search(line) for line in record)


def _harmless(line: str) -> bool:
    level = _LEVEL.search(line)
    return line.startswith(_SAID_ALWAYS) or (level is not None and level[1].lower() in _HARMLESS)


def _root(record: Sequence[str]) -> str:
    """Return the line of a record that says why: the innermost of Java's causes, else what was thrown."""
    if below := _innermost(record):
        return below
    if _TRACEBACK in record:
        frames = [number for number, line in enumerate(record) if line.startswith('  File "')]
        return next(
            (line for line in record[frames[-1] if frames else 1 :] if not line[0].isspace()), record[0]
        )
    thrown = [match[1] for match in map(_EXCEPTION.search, record) if match]
    return thrown[0] if thrown else record[0]


def _innermost(lines: Sequence[str]) -> str:
    below = [match[1] for match in map(_JAVA_BELOW.search, lines) if match and match[1]]
    return below[-1] if below else ""


def _lost(lines: Sequence[str]) -> str:
    """Return the words by which Java says that it is lost; "" where it does not."""
    for lost in _JAVA_IS_LOST:
        if found := [match[1] for match in map(lost.search, lines) if match]:
            return found[-1]
    return ""


def _short(cause: str) -> str:
    words = " ".join(cause.split())
    return words if len(words) <= CAUSE_CHARACTERS else f"{words[: CAUSE_CHARACTERS - 1]}…"
