"""What CONTRIBUTING.md says of tables and files is so."""

from __future__ import annotations

import re
from pathlib import Path

from gateways.protocols.base import Protocol
from ivsim.testbed.servers import SERVERS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_every_file_it_names_exists() -> None:
    named = set(re.findall(r"`((?:ivsim|gateways|simulator|schemas|twin|tests)/[\w./-]*)`", TEXT))
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_table_it_names_is_in_its_file() -> None:
    rows = re.findall(r"^\|.*?\| `(\w+)`[^|]*? in `([\w./]+\.py)` \|", TEXT, re.MULTILINE)
    assert len(rows) >= 5
    for table, file in rows:
        assert re.search(rf"^{table}\b", (ROOT / file).read_text(), re.MULTILINE), (table, file)


def test_the_servers_example_is_the_servers_own_row() -> None:
    kind = SERVERS["mosquitto"]
    # The formatter breaks the lines of the example as it likes.
    shown = re.findall(r"^KIND = ServerKind\((.*?)^\)", TEXT, re.MULTILINE | re.DOTALL)[0]
    words = [word.strip() for word in shown.split(",\n")]
    assert words[:3] == [f'"{word}"' for word in (kind.name, kind.part, kind.remedy)]
    assert f"saves_late={kind.saves_late}" in words


def test_the_protocols_example_says_all_that_a_protocol_must_say() -> None:
    shown = re.findall(r"^class Toy\(Protocol\):\n((?:    .*\n)+)", TEXT, re.MULTILINE)[0]
    said = {
        name.strip()
        for targets in re.findall(r"^    ([\w, ]+) = ", shown, re.MULTILINE)
        for name in targets.split(",")
    }
    known = set(Protocol.__annotations__)
    assert said <= known
    assert {name for name in known if not hasattr(Protocol, name)} <= said


def test_a_table_has_the_form_that_its_example_shows() -> None:
    assert "_ROWS: tuple[Protocol, ...] = (" in (ROOT / "gateways/protocols/__init__.py").read_text()
    for table, file in (
        ("ENGINES", "ivsim/study/engines/__init__.py"),
        ("PAPERS", "ivsim/papers/__init__.py"),
    ):
        assert table in TEXT
        assert "\n_OWN = {\n" in (ROOT / file).read_text()
    assert TEXT.count("_OWN = {...") == 2
