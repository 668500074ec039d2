"""What people call a run: its name, which is its directory's, and its tags, by which results are found again.

Both go from the command line and the environment into file names, lists and pages: they are plain ASCII without blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

# `results/studies` holds the results of studies.
RESERVED: Final = frozenset({"studies"})
NAME_RULE: Final = "a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -"
TAG_RULE: Final = (
    f"KEY=VALUE, such as road=tunnel; KEY is {NAME_RULE}, VALUE is 1 to 128 of A-Z a-z 0-9 . _ - + : / @"
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TAG: Final = re.compile(rf"(?P<key>{_NAME.pattern})=(?P<value>[A-Za-z0-9._+:/@-]{{1,128}})")
_SHOWN: Final = 80


def is_name(text: str) -> bool:
    """Say whether a run may have this name."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED


def checked_name(text: str) -> str:
    """Return a run's name; ValueError says what it has to be."""
    if text in RESERVED:
        raise ValueError(f"{text!r}: is the folder of studies' results; take another")
    if not is_name(text):
        raise ValueError(f"{_shown(text)}: allowed is {NAME_RULE}")
    return text


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in the order of their keys; ValueError for one that is none, and for a key that stands twice."""
    found: dict[str, str] = {}
    for tag in tags:
        match = _TAG.fullmatch(tag)
        if match is None:
            raise ValueError(f"{_shown(tag)}: write {TAG_RULE}")
        if match["key"] in found:
            raise ValueError(f"{_shown(tag)}: {match['key']} stands twice; a run has one value of each key")
        found[match["key"]] = tag
    return tuple(found[key] for key in sorted(found))


def words_of(options: Any) -> str:
    """Return name and tags of a run from its manifest's options; "" where it has neither."""
    said = [f"name {options['name']}"] if options.get("name") else []
    if tags := options.get("tags"):
        said.append(f"{'tag' if len(tags) == 1 else 'tags'} {' '.join(map(str, tags))}")
    return ", ".join(said)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
