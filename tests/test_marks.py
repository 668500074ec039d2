"""What `make` asks of marks."""

from __future__ import annotations


def test_a_file_spells_its_marks_out(unspelt: set[str]) -> None:
    """`make timing`, `marked` and `full` read the files alone that have the words mark.NAME (Makefile)."""
    assert unspelt == set()
