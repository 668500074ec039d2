"""What is listed fits a terminal of 80 columns and breaks between words; in a file a row is a line."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ivsim import cli
from ivsim.commands.link import print_checks
from ivsim.listing import LEAST, listing, paragraph, table
from simulator.links.proof.checks import Check

WORDS = st.lists(st.text("abcxyz019-_/", min_size=1, max_size=20), min_size=0, max_size=30).map(" ".join)
NAMES = st.text("abc_", min_size=1, max_size=30)


@given(st.lists(st.tuples(NAMES, NAMES, WORDS), max_size=8), st.integers(80, 200), st.integers(0, 4))
def test_a_listing_keeps_every_word_whole_and_in_order(
    rows: list[tuple[str, str, str]], width: int, indent: int
) -> None:
    lines = listing(rows, width, indent)
    assert " ".join(lines).split() == " ".join(" ".join(row) for row in rows).split()
    assert all(len(line) <= width for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_where_the_names_take_the_room_the_text_stands_below() -> None:
    assert listing([("n" * 60, "some words")], 60 + LEAST) == ["n" * 60, "    some words"]
    assert listing([("n" * 60, "some words")], 62 + LEAST) == ["n" * 60 + "  some words"]


@given(
    st.lists(NAMES, min_size=2, max_size=9, unique=True).flatmap(
        lambda head: st.tuples(
            st.just(head),
            st.lists(st.lists(NAMES, min_size=len(head), max_size=len(head)), min_size=1, max_size=3),
        )
    ),
    st.integers(20, 200),
)
def test_a_table_shows_every_cell_in_either_direction(
    made: tuple[list[str], list[list[str]]], width: int
) -> None:
    head, rows = made
    lines = table(head, rows, width)
    shown = " ".join(lines).split()
    assert {cell for row in (head, *rows) for cell in row} == set(shown)
    assert all(shown.count(cell) >= sum(row.count(cell) for row in rows) for row in rows for cell in row)
    if max(map(len, lines)) > width:  # there is no narrower way: a name and its figure
        assert width < 2 + 2 * 30


def test_a_table_that_is_too_wide_has_its_rows_as_columns() -> None:
    head = ("rate", "mean", "a long name of a column")
    rows = [["uplink", "10", "20"], ["real: two operators", "1,000", "2,000"]]
    assert table(head, rows, 80)[0] == "rate                  mean  a long name of a column"
    assert table(head, rows, 45) == [
        "rate                     uplink  real: two",
        "                                 operators",
        "mean                         10      1,000",
        "a long name of a column      20      2,000",
    ]


@pytest.mark.parametrize(
    "words",
    [
        "trace list", "trace show car-2024", "trace show car-rtt-2023", "trace show tunnel",
        "study metrics", "study axes", "study engines",
    ],
)  # fmt: skip
def test_what_is_listed_fits_80_columns(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(words, monkeypatch, capsys)
    assert max(map(len, shown.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    narrow = said(words, monkeypatch, capsys)
    assert max(map(len, narrow.splitlines())) <= 80
    assert sorted(narrow.split()) == sorted(shown.split())


def test_a_proof_of_the_link_fits_80_columns_and_keeps_its_words() -> None:
    """As wide as its checks get."""
    out = io.StringIO()
    check = Check(
        "reordering", "downlink", "1,990,646 bit/s", "1,990,646 bit/s", "1,900,000 to 2,000,000", "unproven"
    )
    print_checks(Console(file=out, width=80), "tunnel, replayed under a saturating flow", [check] * 3)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for word in f"{check.parameter} {check.asked} {check.tolerance} {check.verdict}".split():
        assert text.count(word) >= 3, word


def said(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["ivsim", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_a_paragraph_hangs() -> None:
    assert paragraph("some words that wrap", 12, 4) == ["some words", "    that", "    wrap"]
