"""The tree of docs/architecture.md and the files of docs/tour.md against the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ivsim", "simulator", "gateways", "schemas", "twin")


def _documented() -> list[str]:
    """Return the paths of the tree: each line's first words, below the folders it is indented under."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"## The tree\n\n```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    above: list[str] = []
    found = []
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r" {2,}", line.strip())[0].split()
        del above[depth:]
        found += ["/".join([*above, name.rstrip("/")]) for name in names]
        above.append(names[0].rstrip("/"))
    return found


DOCUMENTED = _documented()
TOUR = sorted(set(re.findall(r"`([a-z_]+/[\w./]+)`", (ROOT / "docs" / "tour.md").read_text())))


@pytest.mark.parametrize("path", [*DOCUMENTED, *TOUR])
def test_what_is_documented_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_package_has_its_line() -> None:
    real = {
        str(init.parent.relative_to(ROOT))
        for package in PACKAGES
        for init in (ROOT / package).rglob("__init__.py")
        if "generated" not in init.parts
    }
    assert len(real) > 20
    assert real <= set(DOCUMENTED), sorted(real - set(DOCUMENTED))
