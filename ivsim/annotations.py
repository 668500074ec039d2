"""What is wrong with a run, as lines that a CI service shows beside the change; pure.

GitHub reads `::error title=T::TEXT` from a job's output (Workflow commands for GitHub Actions, "Setting an error message").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ivsim.thresholds import Judged
from schemas.errors import Refusal

NONE: Final = "none"


class Annotation(NamedTuple):
    """One thing that is wrong; `level` is error or warning."""

    level: str
    title: str
    text: str


def github(one: Annotation) -> str:
    """Return the workflow command; what would end a property or a line is written as GitHub reads it."""
    title = _escaped(one.title).replace(":", "%3A").replace(",", "%2C")
    return f"::{one.level} title={title}::{_escaped(one.text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


class _Service(NamedTuple):
    """A CI service: the variable that it sets to `true` in its jobs, and how it wants a line."""

    variable: str
    line: Callable[[Annotation], str]


SERVICES: Final[Mapping[str, _Service]] = {"github": _Service("GITHUB_ACTIONS", github)}


def chosen(word: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the service to write for: the one asked for, or else the one that this is a job of, or none.

    Refusal for an unknown one.
    """
    if word is not None:
        if word not in (*SERVICES, NONE):
            raise Refusal(f"--annotations {word!r}: allowed are {', '.join([*SERVICES, NONE])}")
        return word
    ours = [name for name, service in SERVICES.items() if environment.get(service.variable) == "true"]
    return ours[0] if ours else NONE


def wrong_with(
    command: str, error: str | None, metrics: Mapping[str, Any], judged: Sequence[Judged]
) -> list[Annotation]:
    """Return what is wrong with a run: that it broke, why it may not be used as it stands, each threshold not met."""
    found = [] if error is None else [Annotation("error", command, error)]
    validity = metrics.get("validity") or {}
    if (verdict := validity.get("verdict", "valid")) != "valid":
        level = "error" if verdict == "invalid" else "warning"
        causes = "; ".join(cause["words"] for cause in validity["causes"])
        found.append(Annotation(level, command, f"this run is {verdict}: {causes}"))
    found += [
        Annotation("error", f"{command}: threshold", one.words) for one in judged if one.verdict != "met"
    ]
    return found


def lines(service: str, found: Iterable[Annotation]) -> list[str]:
    """Return a line for each annotation as the service reads them; none for none."""
    return [] if service == NONE else [SERVICES[service].line(one) for one in found]
