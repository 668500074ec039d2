"""Pensieve's text: what its lines do not say is said, in the policy or in a refusal that names the choice."""

from __future__ import annotations

import pytest

from schemas.errors import Refusal
from simulator.traces.importers import Options, import_trace


def read(path, **options):
    return import_trace(path, options=Options(direction="downlink", **options))


def put(tmp_path, text: str):
    path = tmp_path / "x"
    path.write_text(text)
    return path


def test_a_doubled_second_and_the_first_rate_are_in_the_policy(trials):
    trace = read(trials / "cooked" / "two-rows-a-second.txt")
    assert trace.downlink_kbps.tolist() == [3_400, 5_000, 2_200, 2_000]
    assert "the rate of line 1 left out" in trace.header["policy"]
    assert (
        "the rates of 1 lines of the same second as the one before left out (line 4)"
        in trace.header["policy"]
    )


def test_a_hole_asks_for_gaps(trials):
    with pytest.raises(
        Refusal, match=r"gap\.txt:4: no line for 10\.4 s before this one .*: choose --gaps hold"
    ):
        read(trials / "cooked" / "gap.txt")


@pytest.mark.parametrize(
    ("policy", "kbps"),
    [
        ("hold", [3_400, *[5_000] * 10, 9_000, 2_200]),
        ("zero", [3_400, 5_000, *[0] * 9, 9_000, 2_200]),
        ("cut", [3_400, 5_000, 9_000, 2_200]),
        ("longest", [3_400, 5_000]),
    ],
)
def test_a_hole_under_each_policy(tmp_path, policy, kbps):
    path = put(tmp_path, "1 1.2\n2 3.4\n3 5\n13 9\n14 2.2\n")
    trace = read(path, gaps=policy)
    assert trace.downlink_kbps.tolist() == kbps
    assert f"1 gaps, 9 steps in all: {policy}" in trace.header["policy"]


def test_a_rate_may_be_held_for_as_long_as_is_said(trials):
    trace = read(trials / "cooked" / "gap.txt", hold_s=11)
    assert trace.downlink_kbps[3:12].tolist() == [9_000] * 9
    assert "the rate of line 4 held for 10.4 s" in trace.header["policy"]


def test_long_steps_are_no_holes(tmp_path):
    trace = read(put(tmp_path, "0 1\n5 2\n10 3\n15 4\n"))
    assert trace.downlink_kbps.tolist() == [*[2_000] * 5, *[3_000] * 5, *[4_000] * 5]
    assert "gap" not in trace.header["policy"]


def test_a_missing_line_that_is_held_is_said(tmp_path):
    trace = read(put(tmp_path, "0 1\n1 2\n3 3\n4 4\n5 5\n"))
    assert trace.downlink_kbps.tolist() == [2_000, 3_000, 3_000, 4_000, 5_000]
    assert "the rate of line 3 held for 2 s" in trace.header["policy"]
    several = read(put(tmp_path, "0 1\n1 2\n3 3\n4 4\n5 5\n6.9 1\n8 2\n9 1\n"))
    assert (
        "the rates of 2 lines held for longer than the usual 1 s, up to 2 s (line 3)"
        in several.header["policy"]
    )
    assert "the rate of line 3" not in read(put(tmp_path, "0 1\n1 2\n2.4 3\n3 4\n4 5\n")).header["policy"]


def test_lines_between_which_no_time_passes(tmp_path):
    with pytest.raises(Refusal, match="x:2: no time passes from the first line to this one"):
        read(put(tmp_path, "5 1\n5 2\n"))
