"""Made-up bad input for every importer: file and line in one refusal, never a silent zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.traces import to_csv
from simulator.traces.importers import IMPORTERS, Options, import_trace

GNET = "Timestamp,NetworkMode,DL_bitrate,UL_bitrate,State\n"
STAMP = "2018.01.18_14.37.%02d,LTE,%s,%s,D\n"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
PING_HEAD = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n"
PING_END = "%d packets transmitted, %d received, 0%% packet loss, time %dms\n"
REPLY = "64 bytes from 10.0.0.1: icmp_seq=%d ttl=50 time=%s ms%s\n"
MTU = "Time,Sent Bytes,RATE(MBit/s)\n"
MTU_STAMP = "Sat Aug 20 13:28:%02d UTC 2022,%d,%s\n"
NUTTCP = "nuttcp-t: v8.1.4: socket\n"
INTERVAL = "    0.1250 MB /   0.50 sec =    %s Mbps     5 retrans    115 KB-cwnd\n"
UP = Options(direction="uplink")
RATE = Options(mapping=("uplink_kbps=rate:Mbit/s",), period_s=1, rate_meaning="capacity")


def put(tmp_path, name: str, text: str):
    path = tmp_path / name
    path.write_text(text, newline="")
    return path


@pytest.mark.parametrize("name", IMPORTERS)
@pytest.mark.parametrize(
    ("text", "reason"), [("", "the file is empty"), (LFS, ":1: a Git LFS pointer"), ("a\0b", "binary data")]
)
def test_no_importer_takes_what_is_no_data(tmp_path, name, text, reason):
    path = put(tmp_path, "x.up", text)
    with pytest.raises(Refusal, match=reason):
        import_trace(path, name)


@pytest.mark.parametrize(
    ("name", "text", "options", "reason"),
    [
        ("gnettrack", GNET + STAMP % (1, "1", "nan"), None, "x:2: UL_bitrate is 'nan', must be a finite"),
        ("gnettrack", GNET + STAMP % (1, "1", "-5"), None, "x:2: UL_bitrate is -5, out of range"),
        ("gnettrack", GNET + STAMP % (1, "1", ""), None, "x:2: UL_bitrate is ''"),
        ("gnettrack", GNET + STAMP % (1, "1", "99999999"), None, "x:2: uplink_kbps is 1e.08, must be 0 to"),
        (
            "gnettrack",
            GNET + STAMP % (5, "1", "1") + STAMP % (3, "1", "1"),
            None,
            "x:3: the clock steps back by 2",
        ),
        ("gnettrack", GNET + STAMP % (1, "1", "1") + STAMP % (4, "1", "1"), None, "x:3: no data for 3 s"),
        ("gnettrack", GNET + "2018-01-18,LTE,1,1,D\n", None, "x:2: Timestamp is '2018-01-18'"),
        ("gnettrack", GNET + "2018.01.18_14.37.01,LTE,1\n", None, "x:2: 3 fields, must be 5"),
        (
            "gnettrack",
            GNET + "2018.01.18_14.37.01,L\rTE,1,1,D\n",
            None,
            "x:2: not a line of a delimited file",
        ),
        ("gnettrack", GNET, None, "no row is left"),
        ("gnettrack", GNET + STAMP % (1, "-", "-"), None, "no row with a value"),
        ("gnettrack", "Timestamp,DL_bitrate\n", None, "x:1: column UL_bitrate occurs 0 times"),
        ("mahimahi", "5\n3\n", UP, "x:2: goes back from 5 to 3"),
        ("mahimahi", "5\n\n7\n", UP, "x:2: delivery opportunity .* is ''"),
        ("mahimahi", "5\r\n7\r\n", Options(), "neither .up nor .down"),
        ("mahimahi", "5\n-7\n", UP, "x:2: delivery opportunity .* is '-7'"),
        ("mahimahi", "5\n7.5\n", UP, "x:2: delivery opportunity .* is '7.5'"),
        ("mahimahi", "5\n99999999999999\n", UP, "x:2: the clock spans 99999999999 steps"),
        ("cooked", "0 1\n1e12 1\n", UP, "x:2: the clock spans 1000000000000 steps"),
        (
            "gnettrack",
            GNET + STAMP % (1, 1, 1) + "2999.01.01_00.00.00,LTE,1,1,D\n",
            None,
            "x:3: the clock spans",
        ),
        ("mahimahi", "5\n" + "9" * 400 + "\n", UP, "x:2: inf ms, at most 15 digits"),
        ("interval-log", "1 " + "9" * 400 + " 5 5 9 9\n", None, "x:1: field 2 is .* must be a whole number"),
        (
            "sabre",
            '[{"duration_ms": 1' + "0" * 400 + ', "bandwidth_kbps": 1}]',
            None,
            "entry 1: duration_ms must",
        ),
        ("mtu", MTU + "Sat Aug 99999999999999999999 13:28:14 UTC 2022,5,5\n", None, "x:2: Time is"),
        ("mahimahi", "0\n0\n", UP, "x:2: the last line is 0 ms"),
        ("interval-log", "1 1000 5 5 100\n", None, "x:1: 5 fields, must be 6"),
        ("interval-log", "1 1000 5 5 100 0\n", None, "x:1: an interval of 0 ms"),
        ("interval-log", "1 1000 5 5 nan 10\n", None, "x:1: field 5 is 'nan'"),
        ("interval-log", "1 2000 5 5 9 500\n1 1000 5 5 9 500\n", None, "x:2: the clock steps back by 1 s"),
        ("interval-log", "1 1000 5 5 9 1000\n1 9000 5 5 9 1000\n", None, "x:2: no data for 7 s"),
        ("sabre", "{}", None, "must be a JSON list"),
        ("sabre", "[\n{,}]", None, "x:2: not JSON"),
        ("sabre", '[{"duration_ms": 5}]', None, "entry 1: must have the keys"),
        ("sabre", '[{"duration_ms": 5, "bandwidth_kbps": NaN}]', None, "NaN is not a number"),
        ("sabre", '[{"duration_ms": 5, "bandwidth_kbps": -1}]', None, "entry 1: duration_ms must be above 0"),
        ("sabre", '[{"duration_ms": 0, "bandwidth_kbps": 1}]', None, "entry 1: duration_ms must be above 0"),
        ("cooked", "0 1\n1 nan\n", UP, "x:2: field is 'nan'"),
        ("cooked", "0 1\n1 -1\n", UP, "x:2: a rate of -1"),
        ("cooked", "0 1\n1 20000\n", UP, "x:2: a rate of 20000, .*is the unit Mbit/s"),
        ("cooked", "0 1\n2 1\n1 1\n", UP, "x:3: the clock steps back by 1 s"),
        ("cooked", "0 1\n1 1 1\n", UP, "x:2: 3 fields, must be 2"),
        ("cooked", "0 1\n1 1\n", None, "give --direction"),
        ("cooked", "0 1\n", UP, "x:1: a single line spans no time"),
        ("ping", PING_HEAD + PING_END % (5, 0, 4000), None, "no reply in it"),
        ("ping", "Start time: 1\nEnd time: 2\n", None, "no reply in it"),
        ("ping", PING_HEAD + REPLY % (1, "5", ""), None, "no line `N packets transmitted`: the run was cut"),
        ("ping", PING_HEAD + REPLY % (1, "nan", "") + PING_END % (1, 1, 0), None, "x:2: time is 'nan'"),
        ("ping", PING_HEAD + REPLY % (9, "5", "") + PING_END % (3, 1, 900), None, "x:2: icmp_seq 9 of 3"),
        ("ping", PING_HEAD + REPLY % (1, "5", "") + PING_END % (1, 1, 0), None, "give --period"),
        ("nuttcp", NUTTCP + "nuttcp-t: 4 MB in 1 real seconds\n", None, "no interval lines"),
        (
            "nuttcp",
            "Connecting to host 192.0.2.20, port 5201\n",
            None,
            "the output of iperf: use --from iperf3",
        ),
        (
            "nuttcp",
            NUTTCP + (INTERVAL % "1").replace("0.50 sec", "0.00 sec"),
            None,
            "x:2: an interval of 0 s",
        ),
        ("nuttcp", NUTTCP + INTERVAL % "nan", None, "x:2: rate is 'nan'"),
        ("nuttcp", NUTTCP + INTERVAL % "1" + INTERVAL % "-1", None, "x:3: uplink_kbps is -1000"),
        ("nuttcp", "time,throughput_mbps\n1,2\n1,2,3\n", None, "x:3: 3 fields, must be 2"),
        ("nuttcp", "time,throughput_mbps\n", None, "no data rows"),
        ("mtu", MTU + MTU_STAMP % (1, 5, "nan"), None, "x:2: RATE.MBit/s. is 'nan'"),
        ("mtu", MTU + "Sa Aug 20 13:28:14 UTC 2022,5,5\n", None, "x:2: Time is 'Sa Aug 20"),
        ("mtu", MTU + "Sat Foo 20 13:28:14 UTC 2022,5,5\n", None, "x:2: Time is 'Sat Foo 20"),
        ("mtu", MTU + MTU_STAMP % (1, 5, "0"), None, "no test was running"),
        (
            "mtu",
            MTU + MTU_STAMP % (9, 5, "5") + MTU_STAMP % (6, 9, "5"),
            None,
            "x:3: the clock steps back by 3",
        ),
        ("nyu", "1,Mbits/sec\n1,Mbytes/sec\n", UP, "x:2: unit 'Mbytes/sec' of uplink_kbps: must be one of"),
        ("nyu", "1,Mbits/sec\n-1,Mbits/sec\n", UP, "x:2: uplink_kbps is -1000"),
        ("csv", "rate\n1\n", Options(), "needs --map"),
        ("csv", "rate\n1\n", Options(mapping=("uplink_kbps=rate",)), "a rate needs --rate-meaning"),
        ("csv", "rtt\n1\n", Options(mapping=("rtt_ms=rtt",)), "either --time .* or --period"),
        ("csv", "rtt\n1\n", Options(mapping=("rtt_ms=rtt:m",), period_s=1), "unit 'm' of rtt_ms"),
        ("csv", "rtt\n1\n", Options(mapping=("rtt_ms=ping",), period_s=1), "column 'ping' occurs 0 times"),
        ("csv", "rtt\n1\n", Options(mapping=("ping=rtt",), period_s=1), "TARGET once of uplink_kbps"),
        (
            "csv",
            "loss\n1\n5\n",
            Options(mapping=("loss_ratio=loss",), period_s=1),
            "x:3: loss_ratio is 5, out of",
        ),
        ("csv", "rate\n1\nNaN\n", RATE, "x:3: uplink_kbps is 'NaN'"),
        ("csv", "rate,a\n1,2\n1\n", RATE, "x:3: 1 fields"),
        ("csv", "rate\n1\n-\n-\n1\n", RATE, "x:5: no data for 3 s"),
        ("ivsim", "time_s,uplink_kbps\n0,1\n0,1\n", None, "x:3: time_s goes from 0 to 0"),
    ],
)
def test_bad_line_is_named(tmp_path, name, text, options, reason):
    with pytest.raises(Refusal, match=reason) as refusal:
        import_trace(put(tmp_path, "x", text), name, options)
    assert "\n" not in str(refusal.value)


def test_ambiguous_file_is_refused_with_both_names(tmp_path):
    path = put(tmp_path, "x", "Time,RATE(MBit/s),Timestamp,DL_bitrate,UL_bitrate\n")
    with pytest.raises(
        Refusal, match="several importers recognise it: say which with --from, one of gnettrack, mtu"
    ):
        import_trace(path)


def test_python_dict_text_with_bare_nan_is_never_evaluated(tmp_path):
    path = put(tmp_path, "x", "{'a': [nan, 1.0], 'b': __import__('os')}\n")
    with pytest.raises(Refusal, match="no importer recognises it"):
        import_trace(path)


@pytest.mark.parametrize("name", ["._A_2018.csv", ".~lock.A.csv#"])
def test_dot_files_are_no_traces(tmp_path, name):
    with pytest.raises(Refusal, match="a dot file"):
        import_trace(put(tmp_path, name, GNET))


def test_option_without_meaning_is_refused(tmp_path):
    path = put(tmp_path, "x.up", "1\n")
    with pytest.raises(
        Refusal, match="--network-mode: has no meaning for mahimahi files, which take --direction"
    ):
        import_trace(path, options=Options(network_modes=("LTE",)))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"gaps": "ignore"}, "--gaps 'ignore': must be one of refuse, hold, zero, cut, longest"),
        ({"direction": "up"}, "--direction 'up': must be one of uplink, downlink"),
        ({"columns": ("speed",)}, "--column 'speed'"),
        ({"step_s": 0}, "--step 0: must be above 0"),
    ],
)
def test_bad_option_values_are_refused(more, reason):
    with pytest.raises(Refusal, match=reason):
        Options(**more)


def test_unknown_format():
    with pytest.raises(Refusal, match="--from 'pcap': must be auto or one of ivsim, gnettrack"):
        import_trace(__file__, "pcap")


# Legal oddities


def test_mahimahi_single_line_one_is_12_mbit(tmp_path):
    assert import_trace(put(tmp_path, "x.up", "1\n")).uplink_kbps.tolist() == [12_000]


def test_mahimahi_several_packets_in_a_millisecond(tmp_path):
    trace = import_trace(put(tmp_path, "x.down", "0\n0\n0\n999\n1000\n1500\n2000\n"))
    assert trace.downlink_kbps.tolist() == [48, 24]


def test_riiser_wall_clock_may_repeat(tmp_path):
    text = "7 1000 5 5 125 1000\n7 2000  5 5  250 1000\n"
    assert import_trace(put(tmp_path, "x", text)).downlink_kbps.tolist() == [1, 2]


PLACES = ("latitude_deg", "longitude_deg")
GNET_PLACED = "Timestamp,Longitude,Latitude,DL_bitrate,UL_bitrate\n2018.01.18_14.37.01,{},5,1,2\n"


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("gnettrack", GNET_PLACED.format("-8.5"), Options(columns=("downlink_kbps", *PLACES))),
        ("interval-log", "7 1000 5 -8.5 125 1000\n", Options(columns=("downlink_kbps", *PLACES))),
        (
            "csv",
            "t,down,lat,lon\n0,1,5,-8.5\n",
            Options(
                mapping=("downlink_kbps=down", "latitude_deg=lat", "longitude_deg=lon:deg"),
                period_s=1,
                rate_meaning="capacity",
            ),
        ),
    ],
)
def test_places_come_with_the_drive(tmp_path, name, text, options):
    trace = import_trace(put(tmp_path, "x", text), name, options)
    assert trace.downlink_kbps.tolist() == [1]
    assert [values.tolist() for values in trace.places().values()] == [[5], [-8.5]]


@pytest.mark.parametrize(
    ("name", "text", "columns", "reason"),
    [
        ("gnettrack", GNET_PLACED.format("999"), ("rtt_ms", *PLACES), "column PINGAVG occurs 0 times"),
        (
            "gnettrack",
            GNET_PLACED.format("999"),
            ("uplink_kbps", *PLACES),
            "x:2: Longitude is 999, out of range",
        ),
        (
            "gnettrack",
            GNET_PLACED.format("9"),
            ("uplink_kbps", PLACES[0]),
            "latitude_deg without longitude_deg",
        ),
        ("gnettrack", GNET_PLACED.format("9"), PLACES, "none of the columns uplink_kbps"),
        (
            "interval-log",
            "7 1000 91 5 125 1000\n",
            ("downlink_kbps", *PLACES),
            "x:1: latitude_deg is 91, out of",
        ),
        ("interval-log", "7 1000 x 5 125 1000\n", ("downlink_kbps", *PLACES), "x:1: latitude_deg is 'x'"),
        (
            "interval-log",
            "7 1000 5 5 125 1000\n",
            ("rtt_ms",),
            "--column rtt_ms: such a log has downlink_kbps, lat",
        ),
        ("interval-log", "7 1000 5 5 125 1000\n", PLACES, "without --column downlink_kbps nothing is left"),
    ],
)
def test_places_that_are_none_are_refused(tmp_path, name, text, columns, reason):
    with pytest.raises(Refusal, match=reason):
        import_trace(put(tmp_path, "x", text), name, Options(columns=columns))


def test_sabre_long_and_short_rows_weigh_by_duration(tmp_path):
    text = '[{"duration_ms": 500, "bandwidth_kbps": 100, "latency_ms": 9},' * 1
    text += '{"duration_ms": 1500, "bandwidth_kbps": 300, "latency_ms": 9}]'
    assert import_trace(put(tmp_path, "x", text)).downlink_kbps.tolist() == [200, 300]


def test_a_line_of_nuttcp_is_as_long_as_it_says_and_its_sum_is_none(tmp_path):
    """A stall of 2 s in one line was half a second, and the test's sum another half."""
    lines = [INTERVAL % "8", INTERVAL % "8", (INTERVAL % "1").replace("0.50 sec", "2.00 sec"), INTERVAL % "8"]
    end = "    4.1250 MB /   3.50 sec =    9.8868 Mbps 1 %TX 3 %RX 0 retrans 50.10 msRTT\n"
    trace = import_trace(put(tmp_path, "x", NUTTCP + "".join(lines) + end))
    assert trace.uplink_kbps.tolist() == [8_000, 1_000, 1_000]
    assert "the last 0.5 s, less than a step, dropped" in trace.header["policy"]


def test_cooked_rate_holds_up_to_its_own_line(tmp_path):
    trace = import_trace(
        put(tmp_path, "x", "0.5\t9\n1.5\t1\n4.5\t2\n"), options=Options(direction="downlink")
    )
    assert trace.downlink_kbps.tolist() == [1000, 2000, 2000, 2000]


def test_ping_order_is_that_of_the_sequence(tmp_path):
    lines = [
        REPLY % (2, "20", ""),
        REPLY % (1, "1207", ""),
        REPLY % (4, "40", ""),
        REPLY % (4, "41", " (DUP!)"),
    ]
    text = (
        PING_HEAD + "".join(lines) + PING_END % (4, 3, 3000) + "rtt min/avg/max/mdev = 1/2/3/4 ms, pipe 6\n"
    )
    trace = import_trace(put(tmp_path, "x", text))
    assert trace.rtt_ms.tolist() == [1207, 20, 20, 40]
    assert trace.loss_ratio.tolist() == [0, 0, 1, 0]


def test_gnettrack_state_letters_of_the_5g_set(tmp_path):
    text = GNET + "".join(f"2019.12.16_11.49.0{k},LTE,9,{k},{s}\n" for k, s in enumerate(["D", "V", "VD"]))
    trace = import_trace(put(tmp_path, "x", text), options=Options(states=("V", "VD")))
    assert trace.uplink_kbps.tolist() == [1, 2]


def test_generic_csv_units_per_row_and_missing_rows(tmp_path):
    text = "t;v;u\n0;1;Mbits/sec\n1;-;Mbits/sec\n2;5;Kbits/sec\n"
    options = Options(time="t", mapping=("uplink_kbps=v:@u",), rate_meaning="capacity", delimiter="semicolon")
    assert import_trace(put(tmp_path, "x", text), "csv", options).uplink_kbps.tolist() == [1000, 1000, 5]


def test_gap_of_rtt_is_held_where_a_rate_becomes_zero(tmp_path):
    text = "t,rate,rtt\n0,1,50\n9,2,60\n"
    options = Options(
        time="t", mapping=("uplink_kbps=rate", "rtt_ms=rtt"), rate_meaning="capacity", gaps="zero"
    )
    trace = import_trace(put(tmp_path, "x", text), "csv", options)
    assert trace.uplink_kbps.tolist() == [1, *[0] * 8, 2]
    assert trace.rtt_ms.tolist() == [50] * 9 + [60]


@given(st.sampled_from(sorted(IMPORTERS)), st.text(max_size=200))
def test_any_text_is_a_trace_or_a_refusal(tmp_path_factory, name, text):
    path = tmp_path_factory.getbasetemp() / "any.up"
    path.write_text(text, newline="", encoding="utf-8", errors="surrogatepass")
    try:
        trace = import_trace(path, name, Options(direction="uplink") if name in {"cooked", "nyu"} else None)
    except Refusal:
        return
    assert all(np.isfinite(values).all() for values in trace.columns().values())
    assert to_csv(trace)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["5", "0", "-"])), min_size=1, max_size=15))
def test_gnettrack_under_every_policy_is_a_trace_or_a_refusal(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(GNET + "".join(STAMP % (second, rate, rate) for second, rate in rows))
    options = Options(gaps="hold", clock_back="drop", duplicates="average")
    newest, usable = -1, False
    for second, rate in rows:
        newest = max(newest, second)
        usable |= second == newest and rate != "-"
    if not usable:
        with pytest.raises(Refusal, match="no row with a value"):
            import_trace(path, "gnettrack", options)
        return
    assert import_trace(path, "gnettrack", options).uplink_kbps.max() <= 5


def test_a_ping_of_more_probes_than_its_sequence_counts_has_no_loss(tmp_path):
    lines = [REPLY % ((number + 1) % 65_536, "12.5", "") for number in range(70_000)]
    lines[65_600], lines[65_500] = lines[65_500], lines[65_600]  # a late line across the wrap
    text = PING_HEAD + "".join(lines) + PING_END % (70_000, 70_000, 200 * 69_999)
    trace = import_trace(put(tmp_path, "x.out", text), "ping")
    assert trace.loss_ratio is not None
    assert trace.loss_ratio.max() == 0.0
    assert len(trace.time_s) == 14_000


def test_a_step_that_two_columns_miss_is_held_once(tmp_path):
    path = tmp_path / "x"
    path.write_text(GNET + STAMP % (1, "1", "1") + STAMP % (3, "1", "1"))
    assert "1 missing steps held" in import_trace(path, "gnettrack").header["policy"]


def test_the_loss_of_round_trips_becomes_each_directions(tmp_path):
    """20 % of pings unanswered over a link that loses alike both ways: 10.6 % each way, 36 % were imposed."""
    path = tmp_path / "x"
    replies = "".join(f"64 bytes from h: icmp_seq={k} ttl=9 time=40 ms\n" for k in range(1, 6) if k != 3)
    path.write_text("PING h (1.2.3.4) 56(84) bytes of data.\n" + replies + PING_END % (5, 4, 800))
    trace = import_trace(path, "ping")
    assert trace.loss_ratio is not None
    assert trace.loss_ratio.tolist() == [pytest.approx(1 - 0.8**0.5, abs=1e-6)]
    assert "1 - sqrt(1 - L)" in trace.header["policy"]
