"""docs/current-status.md names every field, and maps it to names of the shape that VSS and rFMS have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.layout import LAYOUT, RECORDS, ROOT

DOCUMENT = Path(__file__).parents[2] / "docs" / "current-status.md"
ROW = re.compile(r"\| (\d+) \| `(\w+\.\w+)` \| (\w+) \| (\S+) \| (\S+) \|")


@pytest.fixture(scope="module")
def rows():
    return [
        ROW.fullmatch(line).groups() for line in DOCUMENT.read_text().splitlines() if re.match(r"\| \d", line)
    ]


def test_every_field_has_its_row(rows):
    expected = [
        (str(f.number), f"{message}.{f.name}", f.type_name or f.kind)
        for message, fields in LAYOUT.messages.items()
        if message not in RECORDS | {ROOT}
        for f in fields
        if f.is_scalar or f.is_record
    ]
    assert [row[:3] for row in rows] == expected


def test_mapped_names_have_their_vocabulary_s_shape(rows):
    for _, field, _, vss, rfms in rows:
        assert vss == "-" or re.fullmatch(r"Vehicle(\.[A-Z][A-Za-z0-9]*)+", vss), field
        assert rfms == "-" or re.fullmatch(r"[a-z][A-Za-z0-9]*(\.[a-z][A-Za-z0-9]*)*", rfms), field


def test_no_name_is_mapped_twice(rows):
    for column in (3, 4):
        names = [row[column] for row in rows if row[column] != "-"]
        assert len(set(names)) == len(names)


def test_enough_is_mapped(rows):
    assert sum(row[3] != "-" for row in rows) > 55
    assert sum(row[4] != "-" for row in rows) > 40
