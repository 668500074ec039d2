"""The subset of RQL: what it finds, and what it refuses."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.service.rql import FilterError, parse

THING: dict[str, list[Any]] = {
    "speed": [81.5],
    "name": ["YV2RT40A8KB000017"],
    "on": [True],
    "nothing": [None],
    "wheels/*/load": [10, 20, 30],
    "text": [""],
    "list": [[]],
    "object": [{}],
    "zero": [0],
    "off": [False],
    "full": [["a"]],
    "some/*": ["a", ""],
}


def values(path: str) -> Sequence[Any]:
    return THING.get(path, [])


FITS = {
    'eq(name,"YV2RT40A8KB000017")': True,
    "eq(name,'YV2RT40A8KB000017')": True,
    "eq(speed,81.5)": True,
    "eq(speed,8.15e1)": True,
    'eq(speed,"81.5")': False,
    "eq(on,true)": True,
    "eq(on,1)": False,
    "eq(nothing,null)": True,
    "eq(missing,null)": False,
    "ne(speed,1)": True,
    "ne(missing,1)": True,
    "gt(speed,81)": True,
    "gt(speed,81.5)": False,
    "ge(speed,81.5)": True,
    "lt(speed,-3)": False,
    "le(speed,81.5)": True,
    "gt(missing,1)": False,
    'gt(name,"YV2")': True,
    "gt(name,1)": False,
    "gt(on,0)": False,
    'like(name,"*17")': True,
    'like(name,"YV2*A8*")': True,
    'like(name,"yv2*")': False,
    'ilike(name,"yv2*")': True,
    'like(name,"?V2RT40A8KB00001?")': True,
    'like(name,"17")': False,
    'like(name,"*.17")': False,
    "in(speed,1,81.5,3)": True,
    "exists(speed)": True,
    "exists(missing)": False,
    "empty(missing)": True,
    "empty(nothing)": True,
    "empty(text)": True,
    "empty(list)": True,
    "empty(object)": True,
    "empty(zero)": False,
    "empty(off)": False,
    "empty(full)": False,
    "empty(name)": False,
    "empty(some/*)": True,
    "not(empty(speed))": True,
    "gt(wheels/*/load,25)": True,
    "gt(wheels/*/load,30)": False,
    "and(gt(speed,80),eq(on,true))": True,
    "and(gt(speed,80),eq(on,false))": False,
    "or(gt(speed,800),eq(on,true))": True,
    "not(gt(speed,800))": True,
    " and( gt(speed, 80) , not( exists(missing) ) ) ": True,
}


@pytest.mark.parametrize("text", FITS)
def test_filter_finds(text: str) -> None:
    assert parse(text)(values) is FITS[text]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "operator"),
        ("speed", "'('"),
        ("between(speed,1,2)", "unknown operator"),
        ("gt(speed)", "values"),
        ("gt(speed,1,2)", "values"),
        ("exists(speed,1)", "values"),
        ("empty(speed,1)", "values"),
        ("gt(speed,fast)", "double quotes"),
        ("lt(speed,-1\u0f24)", "double quotes"),
        ("lt(speed,01)", "double quotes"),
        ("gt(speed,1", "')'"),
        ("gt(speed,1))", "after the end"),
        ("not(gt(a,1),gt(b,1))", "one filter"),
        ("and()", "operator"),
        ('eq(name,"open)', "not understood"),
        ("like(name,5)", "text"),
        ('like(name,"' + "*a" * 150 + '")', "256 characters"),
        ('like(name,"\ud800")', "Unicode"),
        ("not(" * 40 + "gt(a,1)" + ")" * 40, "deeper"),
        ("x" * 5_000, "longer"),
    ],
)
def test_filter_is_refused(text: str, word: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)
    assert word in str(refused.value)


def test_a_like_with_many_stars_takes_no_longer_than_one_with_none() -> None:
    """Each star that backtracks multiplies the work by the text's length: at 400 characters that never ends."""
    text = "a" * 400

    def over(*_: object) -> None:
        raise AssertionError("a second of processor time for one value")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    try:
        assert parse('like(name,"*a*a*a*a*a*a*a*ab*")')(lambda _: [text]) is False
        assert parse(f'like(name,"{"*a?" * 60}*")')(lambda _: [text]) is True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_like_knows_case_lines_and_what_is_no_text() -> None:
    found = parse('ilike(name,"gr?n*END")')
    assert found(lambda _: ["GRÜN\nx end"])
    assert not parse('like(name,"gr*")')(lambda _: ["GRÜN"])
    assert not found(lambda _: ["gr\ud800n end"])


@given(st.text(alphabet='andorteqlike(),"*. 0123456789xX\\', max_size=60))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        found = parse(text)
    except FilterError:
        return
    assert found(values) in (True, False)


@given(st.text(alphabet="-+.eE0123456789\u0664\u0f24", min_size=1, max_size=8))
def test_no_number_does_more_than_be_refused(number: str) -> None:
    test_no_text_does_more_than_be_refused.hypothesis.inner_test(f"lt(speed,{number})")  # type: ignore[attr-defined]
