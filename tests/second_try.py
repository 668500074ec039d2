"""Runs failed tests once more, alone, where the machine is proven to have stood still.

`python -m tests.second_try FILE STATUS...`: FILE is what tests/machine_watch.py has recorded, and each STATUS what a
pytest command of the gate has ended with, in order. Ends with 0 only if all that failed is in the record, all of it may
be excused, and all of it passes now.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.machine_watch import VARIABLE

MOST = 3


def main(arguments: list[str]) -> int:
    """Return the exit status of the whole gate's tests."""
    path, *statuses = arguments
    notes = notes_of(Path(path)) if path else []
    ended = [int(status) for status in statuses]
    if not notes:
        return 1 if any(ended) else 0
    failures = [note for note in notes if "failed" in note]
    if reasons := [*gaps_in(notes, ended), *refusals(failures)]:
        print("\nno second try:", *reasons, sep="\n  ", flush=True)
        return 1
    tried = [(failure, passes(failure["failed"])) for failure in failures]
    if tried:
        print("\nDISTURBED: failed on a machine that stood still, and run once more, alone")
    for failure, passed in tried:
        print(f"  {failure['failed']}: {failure['why']}; second try: {'passed' if passed else 'FAILED'}")
    return 0 if all(passed for _failure, passed in tried) else 1


def notes_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a record; of one that is not there, none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def gaps_in(notes: list[dict[str, Any]], ended: list[int]) -> list[str]:
    """Return what says that not all that failed is in the record; nothing where all sessions told everything."""
    found = []
    began = [note for note in notes if "began" in note]
    ends = {note["session"]: note for note in notes if "ended" in note}
    for note in began:
        words = " ".join(["pytest", *note["words"]])
        end = ends.get(note["session"])
        if end is None:
            found.append(f"{words}: broke off before its end")
            continue
        recorded = sum("failed" in one and one["session"] == note["session"] for one in notes)
        if end["status"] not in {0, 1} or end["stopped"]:
            found.append(f"{words}: ended with {end['status']} {end['stopped']}".rstrip())
        if recorded != end["failed_count"] or (recorded > 0) != (end["status"] == 1):
            found.append(f"{words}: {end['failed_count']} failed, {recorded} of them in the record")
    said = [ends[note["session"]]["status"] for note in began if note["session"] in ends]
    if ended and said != ended:
        found.append(f"the commands ended with {ended}, their sessions with {said}")
    return found


def refusals(failures: list[dict[str, Any]]) -> list[str]:
    """Return why these failures stand."""
    found = [f"{one['failed']} ({one['when']}): {one['why']}" for one in failures if not one["may"]]
    if len(failures) > MOST:
        named = ", ".join(one["failed"] for one in failures)
        found.append(f"{len(failures)} failed, and at most {MOST} are run once more: {named}")
    return found


def passes(test: str) -> bool:
    """Return whether a test passes in a session of its own; being skipped, or not being there, is no passing."""
    with tempfile.TemporaryDirectory(prefix="ivsim-second-") as directory:
        record = Path(directory, "tries.jsonl")
        words = [sys.executable, "-m", "pytest", "-q", "-n", "0", test]
        status = subprocess.run(words, env=os.environ | {VARIABLE: str(record)}, check=False).returncode
        ends = [note for note in notes_of(record) if "ended" in note]
    return status == 0 and [(one["status"], one["passed_count"], one["failed_count"]) for one in ends] == [
        (0, 1, 0)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
