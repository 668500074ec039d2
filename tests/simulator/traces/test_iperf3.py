"""iperf3 in the forms that people have: its own times, both directions, and never capacity from what was sent."""

from __future__ import annotations

import json

import pytest

from schemas.errors import Refusal
from simulator.traces import Trace, to_csv
from simulator.traces.importers import Options, import_trace

HOST = "Connecting to host 2001:db8::20, port 5201\n"
ACCEPTED = "Accepted connection from 2001:db8::10, port 40110\n"
REVERSE = "Reverse mode, remote host 2001:db8::20 is sending\n"
TCP_HEAD = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
PLAIN_HEAD = "[ ID] Interval           Transfer     Bitrate\n"
SENT_HEAD = "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n"
LOST_HEAD = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
RULE = "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
EACH_KBPS = [10_000, 20_000, 30_000]


def put(tmp_path, text: str):
    path = tmp_path / "x"
    path.write_text(text, newline="")
    return path


def read(tmp_path, text: str, **options) -> Trace:
    trace = import_trace(put(tmp_path, text), options=Options(**options))
    assert to_csv(trace)
    return trace


def line(start, end, rate, behind="", stream="  5") -> str:
    return f"[{stream}]   {start:.2f}-{end:.2f}   sec  1.19 MBytes  {rate}  {behind}\n"


def lines(behind="", stream="  5") -> str:
    rates = enumerate(EACH_KBPS)
    return "".join(line(k, k + 1, f"{kbps / 1000:.1f} Mbits/sec", behind, stream) for k, kbps in rates)


def rates(trace: Trace) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in trace.columns().items()}


# The shared trials


@pytest.mark.parametrize(
    ("name", "column", "kbps", "said"),
    [
        ("tcp-omit.txt", "uplink_kbps", range(12_000, 18_000, 1_000), "2 (omitted) intervals left out"),
        ("tcp-stall.txt", "uplink_kbps", [10_500] * 2 + [900] * 7 + [8_400], "at iperf3's own times"),
        (
            "tcp-last-short.txt",
            "uplink_kbps",
            range(80_000, 88_000, 1_000),
            "the last 0.37 s, less than a step, dropped",
        ),
        ("title.txt", "uplink_kbps", range(30_000, 34_000, 1_000), "sent, as its sender counts"),
        ("timestamps.txt", "uplink_kbps", range(30_000, 34_000, 1_000), "sent, as its sender counts"),
        ("tcp.json", "downlink_kbps", range(10_000, 50_000, 10_000), "received, as its receiver counts"),
    ],
)
def test_tcp_as_it_stands_in_the_file(trials, name, column, kbps, said):
    trace = import_trace(trials / "iperf3" / name)
    assert rates(trace) == {column: list(kbps)}
    assert trace.last_step_s == 1
    assert trace.header["rate_meaning"] == "as_logged"
    assert trace.header["rate_layer"] == "tcp_payload"
    assert said in trace.header["policy"]
    assert "(iperf3)" in trace.header["origin"]


def test_both_directions(trials):
    trace = import_trace(trials / "iperf3" / "bidir.txt")
    assert rates(trace) == {
        "uplink_kbps": [10_000, 10_100, 10_200, 10_300],
        "downlink_kbps": [50_000, 50_100, 50_200, 50_300],
    }


@pytest.mark.parametrize("name", ["udp-server.txt", "udp-get-server-output.txt"])
def test_the_receivers_lines_of_a_full_link_are_its_capacity(trials, name):
    trace = import_trace(trials / "iperf3" / name)
    assert rates(trace) == {"uplink_kbps": [5_400] * 5}
    assert trace.header["rate_meaning"] == "capacity"
    assert "the last 0.38 s, less than a step, dropped" in trace.header["policy"]
    assert "datagrams lost in 6 of 6 intervals" in trace.header["policy"]


def test_what_was_sent_is_offered(trials):
    trace = import_trace(trials / "iperf3" / "udp-3.1-client.txt")
    assert rates(trace) == {"uplink_kbps": [20_000] * 5}
    assert trace.header["rate_meaning"] == "offered"
    assert "in all 6291 of 8625 datagrams lost" in trace.header["policy"]


def test_what_nobody_received_is_refused(trials):
    with pytest.raises(
        Refusal, match=r"udp-client-sent\.txt: what was sent, of which the receiver got 0 bytes"
    ):
        import_trace(trials / "iperf3" / "udp-client-sent.txt")


# Other forms of text


@pytest.mark.parametrize(
    ("rate", "kbps"),
    [
        ("500 bits/sec", 0.5),
        ("10000 Kbits/sec", 10_000),
        ("1.50 Gbits/sec", 1_500_000),
        ("1000 KBytes/sec", 8_192),
        ("2.00 MBytes/sec", 2 * 8 * 1024**2 / 1000),
        ("0.00 Bytes/sec", 0),
    ],
)
def test_units(tmp_path, rate, kbps):
    found = read(tmp_path, HOST + TCP_HEAD + line(0, 1, rate, "0    107 KBytes")).uplink_kbps.tolist()
    assert found == [pytest.approx(kbps)]


@pytest.mark.parametrize(
    "prefix", ["", "09:14:10 ", "[2026-03-03 09:14:10] ", "a [b]:  ", "14:10 drive 7:  "]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_prefixes_and_line_ends(tmp_path, prefix, end):
    text = (
        HOST
        + TCP_HEAD
        + lines("0    107 KBytes")
        + RULE
        + PLAIN_HEAD
        + line(0, 3, "20.0 Mbits/sec", "0 sender")
    )
    text = "".join(f"{prefix}{one}{end}" for one in [*text.splitlines(), "", "iperf Done."])
    assert rates(read(tmp_path, text)) == {"uplink_kbps": EACH_KBPS}


def test_streams_are_summed_by_iperf3(tmp_path):
    def group(k: int, kbps: int) -> str:
        each = f"{kbps / 2000:.1f} Mbits/sec"
        both = "".join(line(k, k + 1, each, "0    107 KBytes", f"  {stream}") for stream in (5, 7))
        return both + line(k, k + 1, f"{kbps / 1000:.1f} Mbits/sec", "0", "SUM") + RULE

    text = HOST + TCP_HEAD + "".join(group(k, kbps) for k, kbps in enumerate(EACH_KBPS))
    ends = "".join(line(0, 3, "9.0 Mbits/sec", "0 sender", stream) for stream in ("  5", "  7", "SUM"))
    trace = read(tmp_path, text + PLAIN_HEAD + ends)
    assert rates(trace) == {"uplink_kbps": EACH_KBPS}
    assert "sum of 2 streams" in trace.header["policy"]
    with pytest.raises(Refusal, match=r"x:2: several streams from here on, and no line \[SUM\]"):
        read(tmp_path, HOST + lines(stream="  5") + lines(stream="  7"))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (HOST + REVERSE + PLAIN_HEAD + lines(), "downlink_kbps"),
        (ACCEPTED + PLAIN_HEAD + lines(), "uplink_kbps"),
        (ACCEPTED + TCP_HEAD + lines("0    107 KBytes"), "downlink_kbps"),
        (ACCEPTED + PLAIN_HEAD + lines() + line(0, 3, "20.0 Mbits/sec", "sender"), "downlink_kbps"),
    ],
)
def test_directions_are_the_clients(tmp_path, text, column):
    assert rates(read(tmp_path, text)) == {column: EACH_KBPS}


def test_the_server_of_both_directions(tmp_path):
    text = (
        ACCEPTED
        + lines(stream="  5").replace("]  ", "][RX-S]  ")
        + lines(stream="  7").replace("]  ", "][TX-S]  ")
    )
    assert list(read(tmp_path, text).columns()) == ["uplink_kbps", "downlink_kbps"]
    assert rates(read(tmp_path, text, direction="downlink")) == {"downlink_kbps": EACH_KBPS}


def test_both_directions_of_udp_differ_in_what_they_mean(tmp_path):
    sent, got = (
        lines("1725").replace("]  ", "][TX-C]  "),
        lines("0.1 ms  9/1665 (0.5%)", "  7").replace("]  ", "][RX-C]  "),
    )
    trace = read(tmp_path, HOST + LOST_HEAD + sent + got)
    assert trace.header["rate_meaning_uplink_kbps"] == "offered"
    assert trace.header["rate_meaning_downlink_kbps"] == "capacity"
    assert trace.header["rate_layer"] == "udp_payload"


@pytest.mark.parametrize(
    ("lost", "meaning"),
    [
        ("9/1665 (0.54%)", "capacity"),
        ("0/1665 (0%)", "offered"),
        ("-1/1665 (-0.06%)", "offered"),
        ("0/0 (-nan%)", "offered"),
    ],
)
def test_a_link_that_lost_nothing_was_not_full(tmp_path, lost, meaning):
    for text in (HOST + REVERSE, ACCEPTED):
        trace = read(tmp_path, text + LOST_HEAD + lines(f"0.112 ms  {lost}"))
        assert trace.header["rate_meaning"] == meaning
        assert list(trace.columns()) == ["downlink_kbps" if text != ACCEPTED else "uplink_kbps"]


def test_a_server_that_sends_udp_says_what_was_sent(tmp_path):
    trace = read(tmp_path, ACCEPTED + SENT_HEAD + lines("1725"))
    assert rates(trace) == {"downlink_kbps": EACH_KBPS}
    assert trace.header["rate_meaning"] == "offered"


def test_a_beginning_can_be_skipped_and_steps_may_be_longer(tmp_path):
    trace = read(tmp_path, HOST + TCP_HEAD + lines(), skip_s=0.5, step_s=2)
    assert trace.uplink_kbps.tolist() == [20_000]
    assert "first 0.5 s left out" in trace.header["note"]
    assert "the last 0.5 s" in trace.header["policy"]


def test_a_line_of_no_time_is_no_interval(tmp_path):
    text = HOST + TCP_HEAD + lines() + line(3, 3, "0.00 bits/sec")
    assert rates(read(tmp_path, text)) == {"uplink_kbps": EACH_KBPS}


def test_how_iperf3_ended_is_said(tmp_path):
    text = HOST + TCP_HEAD + lines() + "iperf3: error - control socket has closed unexpectedly\n"
    assert "ended with: control socket has closed" in read(tmp_path, text).header["policy"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HOST + TCP_HEAD + lines() + HOST + TCP_HEAD + lines(), "x:6: a second test begins here"),
        (HOST + TCP_HEAD, "no interval of iperf3's in it: run iperf3 with -i 1"),
        (
            HOST + "iperf3: error - unable to connect to server: No route\n",
            "ended with: unable to connect to server",
        ),
        (HOST + TCP_HEAD + lines("(omitted)"), r"x:5: all 3 intervals are omitted \(-O\)"),
        (
            HOST + line(0, 1, "1 Mbits/sec") + line(4, 5, "1 Mbits/sec"),
            "x:3: an interval starts at 4.00 s, the one before",
        ),
        (HOST + line(0, 1, "1 Mbits/sec") + line(2, 1, "1 Mbits/sec"), "x:3: an interval from 2 to 1 s"),
        (HOST + line(0, 1, "nan Mbits/sec"), "x:2: rate is 'nan', must be a finite number"),
        (HOST + line(0, 1, "99 Tbits/sec"), "x:2: uplink_kbps is 9.9e.10, must be 0 to"),
        (HOST + line(0, 0.37, "1 Mbits/sec"), r"0.37 s in all, less than a step of 1 s \(--step\)"),
        (HOST + "[  5]   0.00-1.00   sec  1 Mbits/sec\n", "x:2: neither an interval nor a sum of iperf3's"),
        (
            "Client connecting to 192.0.2.20, TCP port 5001\n",
            "x:1: the output of iperf2, which is another program",
        ),
        ("Server listening on UDP port 5001\n", "x:1: the output of iperf2"),
        ("[  3]  0.0- 1.0 sec  1.25 MBytes  10.5 Mbits/sec\n", "x:1: the output of iperf2"),
        ("[  1] 0.0000-1.0000 sec  1.25 MBytes  10.5 Mbits/sec\n", "x:1: the output of iperf2"),
    ],
)
def test_bad_text_is_named(tmp_path, text, reason):
    with pytest.raises(Refusal, match=reason) as refusal:
        read(tmp_path, text)
    assert "\n" not in str(refusal.value)


# The beginning that `-O` leaves out: iperf3 has an end of the first interval behind it by the new clock alone.


def omitted(seconds: int) -> str:
    return "".join(line(k, k + 1, "99.0 Mbits/sec", "0   107 KBytes   (omitted)") for k in range(seconds))


@pytest.mark.parametrize(("start", "before"), [(1, 1), (2, 2), (3, 3), (1, 0), (2, 0)])
def test_a_first_interval_of_two_clocks_is_left_out_and_said(tmp_path, start, before):
    odd = line(start, 1, "13.0 Mbits/sec", "0   107 KBytes")
    trace = read(
        tmp_path, HOST + TCP_HEAD + omitted(before) + odd + lines()[len(line(0, 1, "10.0 Mbits/sec")) :]
    )
    assert rates(trace) == {"uplink_kbps": EACH_KBPS[1:]}
    assert (
        f"it is given as {start}.00 to 1.00 s (line {before + 3}), and what its rate is over is not known"
        in trace.header["policy"]
    )


def test_a_first_interval_of_two_clocks_and_one_more(tmp_path):
    for odd in (line(1, 1, "9 Mbits/sec"), line(2, 1, "9 Mbits/sec")):
        text = HOST + odd + line(1, 2, "20.0 Mbits/sec")
        assert rates(read(tmp_path, text)) == {"uplink_kbps": [20_000]}
        assert rates(read(tmp_path, text + line(0, 2, "15.0 Mbits/sec"))) == {"uplink_kbps": [20_000]}


def test_json_of_a_first_interval_of_two_clocks(tmp_path):
    for first in ({**part(1, 11), "end": 1.0004}, {**part(2, 11), "end": 1.0}):
        parts = [
            part(0, 99, omitted=True),
            part(1, 99, omitted=True),
            first,
            part(1, 20_000),
            part(2, 30_000),
        ]
        trace = read_json(tmp_path, document(parts))
        assert trace.uplink_kbps.round(-3).tolist() == EACH_KBPS[1:]
        assert "what its rate is over is not known" in trace.header["policy"]


def test_no_second_behind_an_omitted_beginning_is_lost(tmp_path):
    with pytest.raises(Refusal, match=r"x:5: an interval starts at 4\.00 s, the one before ends at 2\.00 s"):
        read(tmp_path, HOST + TCP_HEAD + omitted(2) + line(4, 5, "1 Mbits/sec"))
    later = line(2, 3, "10.0 Mbits/sec") + line(3, 4, "20.0 Mbits/sec")
    assert rates(read(tmp_path, HOST + TCP_HEAD + omitted(2) + later)) == {"uplink_kbps": EACH_KBPS[:2]}


def test_both_directions_begin_together(tmp_path):
    sent = (
        line(1, 1, "5.0 Mbits/sec") + line(1, 2, "20.0 Mbits/sec") + line(2, 3, "30.0 Mbits/sec")
    ).replace("]  ", "][TX-C]  ")
    got = lines(stream="  7").replace("]  ", "][RX-C]  ")
    trace = read(tmp_path, HOST + sent + got)
    assert rates(trace) == {"uplink_kbps": EACH_KBPS[1:], "downlink_kbps": EACH_KBPS[1:]}
    assert "begins at 1 s, where the other direction does" in trace.header["policy"]


# Lines without what stands above them, as `grep sec` leaves them


def grepped(trials, name) -> str:
    text = (trials / "iperf3" / name).read_text()
    return "".join(f"{one}\n" for one in text.splitlines() if "sec" in one)


@pytest.mark.parametrize(
    "name", ["udp-3.1-client.txt", "udp-client-sent.txt", "udp-server.txt", "tcp-omit.txt", "tcp-stall.txt"]
)
def test_lines_of_nobody_ask_for_their_direction(trials, tmp_path, name):
    with pytest.raises(
        Refusal, match=r"x:1: nothing above this line says whether client or server .*--direction"
    ):
        read(tmp_path, grepped(trials, name))


@pytest.mark.parametrize(
    ("name", "direction", "kbps", "meaning", "layer"),
    [
        ("udp-3.1-client.txt", "uplink", [20_000] * 5, "offered", "udp_payload"),
        ("udp-server.txt", "uplink", [5_400] * 5, "capacity", "udp_payload"),
        ("udp-client-sent.txt", "downlink", [400_000] * 5, "offered", "udp_payload"),
        ("tcp-omit.txt", "uplink", list(range(12_000, 18_000, 1_000)), "as_logged", "tcp_payload"),
    ],
)
def test_lines_of_nobody_are_what_their_figures_say(trials, tmp_path, name, direction, kbps, meaning, layer):
    trace = read(tmp_path, grepped(trials, name), direction=direction)
    assert rates(trace) == {f"{direction}_kbps": kbps}
    assert (trace.header["rate_meaning"], trace.header["rate_layer"]) == (meaning, layer)
    whose = "received" if meaning == "capacity" else "sent"
    assert f"{whose}, as its" in trace.header["policy"]


def test_lines_of_which_nobody_received_anything(trials, tmp_path):
    with pytest.raises(Refusal, match="of which the receiver got 0 bytes"):
        read(tmp_path, grepped(trials, "udp-client-sent.txt"), direction="uplink")


def test_who_counted_bare_lines_is_not_known(tmp_path):
    trace = read(tmp_path, lines(), direction="uplink")
    assert rates(trace) == {"uplink_kbps": EACH_KBPS}
    assert "as one end counts, the file does not say which" in trace.header["policy"]
    with pytest.raises(Refusal, match="does not say whether TCP or UDP was sent"):
        read(tmp_path, lines("1725", "SUM"), direction="uplink")


# A file that ends in the middle of a line


@pytest.mark.parametrize(
    "left", ["[", "[  5]", "[  5]   3.00-4.", "[  5]   3.00-4.00   sec  1.19 MBytes  10.5 Mb"]
)
@pytest.mark.parametrize("prefix", ["", "drive 7:  "])
def test_a_line_that_is_cut_is_said(tmp_path, prefix, left):
    text = HOST + TCP_HEAD + lines() + prefix + left
    trace = read(tmp_path, text)
    assert rates(trace) == {"uplink_kbps": EACH_KBPS}
    assert "the file ends in the middle of line 6, which is left out" in trace.header["policy"]


@pytest.mark.parametrize("end", [lines()[:-1], lines() + "\niperf Done.", lines() + RULE[:-1]])
def test_a_last_line_that_is_whole_is_not_called_cut(tmp_path, end):
    trace = read(tmp_path, HOST + TCP_HEAD + end)
    assert rates(trace) == {"uplink_kbps": EACH_KBPS}
    assert "middle" not in trace.header["policy"]


# JSON


def part(k, kbps, **more):
    return {
        "start": k,
        "end": k + 1.0001,
        "seconds": 1.0001,
        "bits_per_second": kbps * 1000.0,
        "omitted": False,
        **more,
    }


def document(parts, server=False, **test):
    start = {
        "connected": [],
        "version": "iperf 3.9",
        "test_start": {"protocol": "TCP", "num_streams": 1, **test},
    }
    start["accepted_connection" if server else "connecting_to"] = {}
    intervals = [{"streams": [], **(one if "sum" in one else {"sum": one})} for one in parts]
    return {"start": start, "intervals": intervals, "end": {}}


def read_json(tmp_path, found, indent=1, **options) -> Trace:
    return read(tmp_path, json.dumps(found, indent=indent) + "\n", **options)


@pytest.mark.parametrize("indent", [None, "\t"])
@pytest.mark.parametrize(
    ("server", "reverse", "column"),
    [
        (False, 0, "uplink_kbps"),
        (False, 1, "downlink_kbps"),
        (True, 0, "uplink_kbps"),
        (True, 1, "downlink_kbps"),
    ],
)
def test_json_of_tcp(tmp_path, indent, server, reverse, column):
    parts = [part(k, kbps) for k, kbps in enumerate(EACH_KBPS)]
    trace = read_json(tmp_path, document(parts, server, reverse=reverse), indent)
    assert rates(trace) == {column: [pytest.approx(kbps, rel=1e-3) for kbps in EACH_KBPS]}
    assert trace.header["rate_meaning"] == "as_logged"


def test_json_of_both_directions(tmp_path):
    parts = [
        {"sum": part(k, kbps, sender=True), "sum_bidir_reverse": part(k, 2 * kbps, sender=False)}
        for k, kbps in enumerate(EACH_KBPS)
    ]
    trace = read_json(tmp_path, document(parts, bidir=1))
    assert [round(values[0]) for values in trace.columns().values()] == [10_000, 20_000]
    for one in parts:
        for key in ("sum", "sum_bidir_reverse"):
            one[key]["sender"] = not one[key]["sender"]
    assert list(read_json(tmp_path, document(parts, server=True, bidir=1)).columns()) == list(trace.columns())


def test_json_leaves_out_what_is_omitted_and_keeps_a_stall(tmp_path):
    parts = [part(0, 99, omitted=True), part(0, 10), {**part(1, 1), "end": 8}, part(8, 10)]
    trace = read_json(tmp_path, document(parts))
    assert trace.uplink_kbps.round(2).tolist() == [10, *[1] * 7, 10]
    assert "1 (omitted) intervals left out" in trace.header["policy"]


def test_json_without_sums_is_summed_up(tmp_path):
    found = document([])
    streams = [part(0, 10, socket=5), part(0, 20, socket=7)]
    found["intervals"] = [{"streams": streams}]
    assert read_json(tmp_path, found).uplink_kbps.tolist() == [pytest.approx(30, rel=1e-3)]


@pytest.mark.parametrize(
    ("more", "column", "meaning"),
    [
        ({"sender": True, "packets": 9}, "uplink_kbps", "offered"),
        ({"packets": 9}, "uplink_kbps", "offered"),
        ({"sender": True, "packets": 9, "lost_packets": 5}, "uplink_kbps", "offered"),
        ({"sender": False, "packets": 9, "lost_packets": 5}, "downlink_kbps", "capacity"),
        ({"packets": 9, "lost_packets": 5}, "downlink_kbps", "capacity"),
        ({"packets": 9, "lost_packets": 0}, "downlink_kbps", "offered"),
    ],
)
def test_json_of_udp(tmp_path, more, column, meaning):
    found = document(
        [part(k, 10, **more) for k in range(3)], protocol="UDP", reverse=int(column != "uplink_kbps")
    )
    trace = read_json(tmp_path, found)
    assert list(trace.columns()) == [column]
    assert (trace.header["rate_meaning"], trace.header["rate_layer"]) == (meaning, "udp_payload")


@pytest.mark.parametrize("kind", ["json", "text"])
def test_the_servers_part_is_what_arrived(tmp_path, kind):
    found = document([part(k, 20, sender=True, packets=9) for k in range(3)], protocol="UDP")
    if kind == "json":
        theirs = [part(k, 5, sender=False, packets=9, lost_packets=5) for k in range(3)]
        found["server_output_json"] = document(theirs, server=True, protocol="UDP")
    else:
        behind = "0.1 ms  5/9 (55%)"
        found["server_output_text"] = (
            ACCEPTED + LOST_HEAD + "".join(line(k, k + 1, "5.0 Kbits/sec", behind) for k in range(3))
        )
    trace = read_json(tmp_path, found)
    assert trace.uplink_kbps.round(2).tolist() == [5, 5, 5]
    assert trace.header["rate_meaning"] == "capacity"


def test_json_of_a_receiver_that_got_nothing(tmp_path):
    found = document([part(k, 20, sender=True, packets=9) for k in range(3)], protocol="UDP")
    found["end"] = {"sum_received": {"bytes": 0, "packets": 0, "lost_packets": 0}}
    with pytest.raises(Refusal, match="what was sent, of which the receiver got 0 bytes"):
        read_json(tmp_path, found)


def test_a_server_does_not_know_what_its_client_received(tmp_path):
    found = document(
        [part(k, 20, sender=True, packets=9) for k in range(3)], server=True, protocol="UDP", reverse=1
    )
    found["end"] = {"sum_received": {"bytes": 0, "packets": 0, "lost_packets": 0}}
    trace = read_json(tmp_path, found)
    assert trace.header["rate_meaning"] == "offered"
    assert "lost" not in trace.header["policy"]
    zeros = line(0, 3, "0.00 bits/sec", "0.000 ms  0/0 (0%)  receiver")
    trace = read(tmp_path, ACCEPTED + SENT_HEAD + lines("1725") + RULE + LOST_HEAD + zeros)
    assert rates(trace) == {"downlink_kbps": EACH_KBPS}


def test_who_was_interrupted_does_not_know_what_arrived(tmp_path):
    zeros = line(0, 3, "0.00 bits/sec", "0.000 ms  0/0 (0%)  receiver")
    text = HOST + SENT_HEAD + lines("1725") + RULE + LOST_HEAD + zeros
    trace = read(tmp_path, text + "iperf3: interrupt - the client has terminated\n")
    assert trace.header["rate_meaning"] == "offered"
    assert "received 0" not in trace.header["policy"]
    with pytest.raises(Refusal, match="of which the receiver got 0 bytes"):
        read(tmp_path, text)


def test_json_an_event_a_line(tmp_path):
    found = document([part(k, kbps) for k, kbps in enumerate(EACH_KBPS)])
    events = [
        {"event": "start", "data": found["start"]},
        *({"event": "interval", "data": one} for one in found["intervals"]),
    ]
    text = "".join(json.dumps(one) + "\n" for one in events)
    assert len(read(tmp_path, text).uplink_kbps) == 3
    with pytest.raises(Refusal, match="x:5: a second test begins here"):
        read(tmp_path, text + text)


GOOD = json.dumps(document([part(0, 10), part(1, 20)]), indent=1)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.99])
def test_json_that_is_cut(tmp_path, share):
    cut = GOOD[: int(len(GOOD) * share)]
    with pytest.raises(Refusal, match=r"x:\d+: the JSON ends in the middle, the file was cut"):
        read(tmp_path, cut)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD + "\n" + GOOD, "x:[0-9]+: a second test begins here"),
        (GOOD + "\nDone.\n", "x:[0-9]+: text behind the end of the JSON"),
        (
            GOOD.replace('"start": 1,', '"start": "1",'),
            r"x:[0-9]+: sum.start is '1', must be a number from 0",
        ),
        (GOOD.replace("20000.0", "-5"), r"x:2[0-9]: sum.bits_per_second is -5, must be a number from 0"),
        (GOOD.replace("20000.0", "NaN"), "NaN is not a number"),
        (GOOD.replace("20000.0", "1e999"), "sum.bits_per_second is inf"),
        (GOOD.replace('"TCP"', '["TCP"]'), "key test_start.protocol: must be a name"),
        (GOOD.replace('"start": 1,', '"start": 1,,'), "x:[0-9]+: not JSON"),
        (
            GOOD.replace('"protocol": "TCP"', '"blocks": 0'),
            "no key start.test_start.protocol: TCP or UDP is not",
        ),
        ('{"start": {"connected": []}, "intervals": 5}', "key intervals: must be a list"),
        ('{"start": {"connected": []}, "intervals": [5]}', "x:1: an interval that is no JSON object"),
        ('{"start": {"connected": []}, "intervals": [{}]}', "x:1: an interval with neither a sum nor"),
        ('{"start": {"connected": []}, "intervals": [{"sum": 5}]}', "x:1: key sum: must be a JSON object"),
        ('{"start": 5, "intervals": []}', "key start: must be a JSON object"),
        (
            '{"start": {"connected": []}, "intervals": [], "end": {}, "error": "error - unable to connect\\nto"}',
            "no interval in it, iperf3 ended with: unable to connect to",
        ),
    ],
)
def test_bad_json_is_named(tmp_path, text, reason):
    with pytest.raises(Refusal, match=reason) as refusal:
        read(tmp_path, text)
    assert "\n" not in str(refusal.value)
