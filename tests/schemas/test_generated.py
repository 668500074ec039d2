"""Generated files are what `python -m schemas.generate` makes of current_status.proto today."""

from __future__ import annotations

import pytest

from schemas.generate import HERE, compile_protobuf, derived_files
from schemas.layout import LAYOUT


@pytest.mark.parametrize("path", derived_files())
def test_derived_files_are_fresh(path):
    assert (HERE / path).read_text() == derived_files()[path], "run `python -m schemas.generate`"


def test_protobuf_code_is_fresh(tmp_path):
    compile_protobuf(tmp_path)
    for made in sorted(tmp_path.iterdir()):
        committed = (HERE / "generated" / made.name).read_text()
        assert committed == made.read_text(), "run `python -m schemas.generate`"


def test_numbers_are_unique_and_dense_enough():
    for fields in LAYOUT.messages.values():
        numbers = [f.number for f in fields]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) <= 64
