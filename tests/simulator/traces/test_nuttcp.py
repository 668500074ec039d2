"""nuttcp: its CSV's own times, and UDP that is capacity only where datagrams were lost."""

from __future__ import annotations

import pytest

from schemas.errors import Refusal
from simulator.traces.importers import Options, import_trace

HEAD = "nuttcp-t: v8.1.4: socket\nnuttcp-t: buflen=1400, nstream=1, port=5101 udp -> 192.0.2.20\n"
INTERVAL = "    1.1921 MB /   1.00 sec =   %s Mbps%s\n"


def read(tmp_path, text: str, **options):
    path = tmp_path / "x"
    path.write_text(text)
    return import_trace(path, "nuttcp", Options(**options))


def table(stamps, more: str = "") -> str:
    rows = "".join(f"{stamp},{k}{',0' if more else ''}\n" for k, stamp in enumerate(stamps, 1))
    return f"time,throughput_mbps{more}\n{rows}"


def refuse(tmp_path, text: str, reason: str, **options):
    with pytest.raises(Refusal, match=reason) as refusal:
        read(tmp_path, text, **options)
    assert "\n" not in str(refusal.value)


# The CSV's column `time`


def test_a_hole_is_where_the_file_has_it(tmp_path):
    stamps = [10, 11, 12, 21, 22]
    refuse(tmp_path, table(stamps), r"most rows are more than 0\.5 s apart by the column time: give --period")
    refuse(tmp_path, table(stamps), r"x:5: no data for 8 s before this line .*: choose --gaps", period_s=1)
    trace = read(tmp_path, table(stamps), period_s=1, gaps="zero")
    assert trace.uplink_kbps.tolist() == [1_000, 2_000, 3_000, *[0] * 8, 4_000, 5_000]
    assert read(tmp_path, table(stamps), period_s=1, hold_s=9).uplink_kbps.tolist()[3:11] == [3_000] * 8


@pytest.mark.parametrize("form", ["2026-01-01T10:00:%06.3f", "2026-01-01 10:00:%06.3f+02:00", "seconds"])
def test_lines_that_came_late_and_at_once(tmp_path, form):
    """The line of an interval is never read before it is over: a burst belongs before its stamp."""
    late = [0.5, 1.0, 1.52, 3.51, 3.511, 3.512, 3.513, 4.0, 4.52, 5.0]
    stamps = [form % stamp if "%" in form else 1.7e9 + stamp for stamp in late]
    trace = read(tmp_path, table(stamps))
    assert trace.uplink_kbps.tolist() == [1_500, 3_500, 5_500, 7_500, 9_500]
    assert "rows of 0.5 s that end by the column time or before it (lines up to 1.5" in trace.header["policy"]


def test_clocks_that_differ_a_little_add_up(tmp_path):
    trace = read(tmp_path, table([0.51 * k for k in range(1, 201)]), gaps="hold")
    assert 101 <= len(trace.time_s) <= 102


@pytest.mark.parametrize(
    ("stamps", "reason"),
    [
        (["x", "y"], "x:2: time is 'x', must be ISO 8601 or seconds"),
        ([1, 2, 1.5], r"x:4: the clock steps back by 0\.5 s"),
        ([7] * 40, r"40 rows of 0\.5 s do not go into the 0 s of the column time: give --period"),
        ([k / 10 for k in range(100)], r"100 rows of 0\.5 s do not go into the 9\.9 s"),
    ],
)
def test_times_that_are_none(tmp_path, stamps, reason):
    refuse(tmp_path, table(stamps), reason)


def test_a_period_that_fits(tmp_path):
    assert len(read(tmp_path, table([k / 10 for k in range(100)]), period_s=0.1).time_s) == 10


# UDP


@pytest.mark.parametrize(
    ("losses", "meaning"),
    [
        ([0, 0, 0, 0], "offered"),
        ([9, 0, 0, 0], "offered"),
        ([9, 9, 0, 0], "capacity"),
        ([9, 9, 9, 9], "capacity"),
    ],
)
def test_a_link_that_lost_nothing_was_not_full(tmp_path, losses, meaning):
    rows = "".join(INTERVAL % ("10.0", f"   {n} /   893 ~drop/pkt  0.00 ~%loss") for n in losses)
    csv = "time,throughput_mbps,pkt_drop,pkt_total,loss\n"
    csv += "".join(f"{k / 2},10.0,{n},893,0.00\n" for k, n in enumerate(losses))
    for text in (HEAD + rows, csv, csv.replace(",pkt_total,loss", ",total,loss")):
        trace = read(tmp_path, text)
        assert (trace.header["rate_meaning"], trace.header["rate_layer"]) == (meaning, "udp_payload")
        lost = sum(n > 0 for n in losses)
        assert f"datagrams lost in {lost} of 4 intervals" in trace.header["note"]


def test_udp_whose_losses_nobody_says_is_offered(tmp_path):
    trace = read(tmp_path, HEAD + INTERVAL % ("10.0", ""))
    assert (trace.header["rate_meaning"], trace.header["rate_layer"]) == ("offered", "udp_payload")
