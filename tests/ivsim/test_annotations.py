"""What is wrong with a run, as a CI service reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.annotations import NONE, SERVICES, Annotation, chosen, github, lines, wrong_with
from ivsim.thresholds import judge, parse
from schemas.errors import Refusal


def test_everything_that_is_wrong_is_a_line_and_nothing_else() -> None:
    thresholds = [parse(text) for text in ("p99(end_to_end) < 1s", "delivery_ratio == 1", "lost < 5")]
    metrics = {
        "end_to_end_latency_p99_ms": 1500.0, "delivery_ratio": 1.0,
        "validity": {"verdict": "degraded", "causes": [{"words": "late, by 120 ms"}, {"words": "busy"}]},
    }  # fmt: skip
    found = wrong_with("ivsim run", "a: b", metrics, judge(thresholds, metrics))
    assert lines("github", found) == [
        "::error title=ivsim run::a: b",
        "::warning title=ivsim run::this run is degraded: late, by 120 ms; busy",
        "::error title=ivsim run%3A threshold::p99(end_to_end) < 1s: missed: 1500 ms",
        "::error title=ivsim run%3A threshold::lost < 5: not measured",
    ]
    assert lines(NONE, found) == []
    good = {"lost": 0, "validity": {"verdict": "valid", "causes": []}}
    assert wrong_with("ivsim run", None, good, judge(thresholds[2:], good)) == []
    invalid = wrong_with("ivsim run", None, {"validity": {"verdict": "invalid", "causes": []}}, [])
    assert [one.level for one in invalid] == ["error"]


@given(st.text(), st.text())
def test_no_text_ends_a_line_or_a_title_early(title: str, text: str) -> None:
    line = github(Annotation("error", title, text))
    assert not {"\n", "\r"} & set(line)
    head, _, rest = line.removeprefix("::").partition("::")
    name, _, value = head.partition("=")
    assert name == "error title"
    back = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
    for code, letter in back.items():
        value, rest = value.replace(code, letter), rest.replace(code, letter)
    assert (value, rest) == (title, text)


def test_a_job_of_github_is_told_without_asking() -> None:
    assert chosen(None, {"GITHUB_ACTIONS": "true"}) == "github"
    assert chosen(None, {"GITHUB_ACTIONS": "false"}) == chosen(None, {}) == NONE
    assert chosen(NONE, {"GITHUB_ACTIONS": "true"}) == NONE
    assert [chosen(name, {}) for name in SERVICES] == list(SERVICES)
    with pytest.raises(Refusal, match=r"^--annotations 'gitlab': allowed are github, none$"):
        chosen("gitlab", {})
