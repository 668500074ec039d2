"""What a rate counts: written down by the importers, converted where a trace becomes a link."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from schemas.errors import Refusal
from simulator.link_schedule import LinkSchedule
from simulator.traces import Trace, read_trace
from simulator.traces.describe import facts
from simulator.traces.importers import import_trace
from simulator.traces.importers.mahimahi import to_mahimahi
from simulator.traces.importers.options import Options
from simulator.traces.layers import RATE_LAYERS, frame_factor

NUTTCP_UDP = "nuttcp-t: v8.2.2\n 0.6 MB / 1.00 sec = 5.0 Mbps 0 / 600 ~drop/pkt 0.00 ~%loss\n"


def trace(**header: str) -> Trace:
    return Trace(
        np.array([0.0, 1.0]),
        uplink_kbps=np.array([1_000.0, 0.0]),
        downlink_kbps=np.array([2_000.0, 3_000.0]),
        header=header,
    )


def rates_bps(found: Trace) -> list[float | None]:
    """Return the rates of both directions in the first second on a link."""
    return [way.rate_bps for way in LinkSchedule(found, 1, 1, offsets=False).at(0)[1]]


@pytest.mark.parametrize(
    # From the headers of IPv4 (20), UDP (8), TCP with timestamps (20 + 12) and Ethernet (14), added by hand.
    ("layer", "frame_bytes_per_1500"),
    [("ethernet", 1_514), ("ip", 1_500), ("udp_payload", 1_500 - 28), ("tcp_payload", 1_500 - 52)],
)
def test_a_link_is_given_the_rate_of_frames(layer: str, frame_bytes_per_1500: int) -> None:
    factor = 1_514 / frame_bytes_per_1500
    assert rates_bps(trace(rate_layer=layer)) == pytest.approx([1e6 * factor, 2e6 * factor])


def test_what_is_not_stated_counts_frames() -> None:
    assert rates_bps(trace()) == [1e6, 2e6]
    assert trace().in_frames().header == {}


def test_columns_may_differ() -> None:
    found = trace(rate_layer_uplink_kbps="ip", rate_layer_downlink_kbps="ethernet", origin="here")
    assert rates_bps(found) == pytest.approx([1e6 * 1_514 / 1_500, 2e6])
    assert found.in_frames().header == {"origin": "here", "rate_layer": "ethernet"}


@pytest.mark.parametrize("layer", RATE_LAYERS)
def test_a_conversion_is_done_once_and_keeps_outages(layer: str) -> None:
    once = trace(rate_layer=layer).in_frames()
    assert once.in_frames() is once
    assert once.uplink_kbps is not None
    assert once.uplink_kbps[1] == 0


def test_further_traces_are_converted_too() -> None:
    schedule = LinkSchedule(trace(), 2, 1, offsets=False, others=[trace(rate_layer="ip")])
    assert schedule.at(0)[1][0].rate_bps == 1e6
    assert schedule.at(0)[2][0].rate_bps == pytest.approx(1e6 * 1_514 / 1_500)


@pytest.mark.parametrize(
    ("name", "text", "options", "layer"),
    [
        ("a.up", "1\n2\n1000\n2000\n", Options(), "ip"),
        ("a.txt", "0.0 1.0\n1.0 2.0\n2.0 3.0\n", Options(direction="uplink"), "tcp_payload"),
        ("a.log", NUTTCP_UDP, Options(), "udp_payload"),
        ("a.log", NUTTCP_UDP.replace("~drop", "retrans"), Options(), "tcp_payload"),
        ("a.log", "1 1000 0 0 500 1000\n2 2000 0 0 600 1000\n", Options(), "tcp_payload"),
    ],
)
def test_importers_say_what_their_logs_count(
    tmp_path: Path, name: str, text: str, options: Options, layer: str
) -> None:
    (tmp_path / name).write_text(text)
    assert import_trace(tmp_path / name, "auto", options).header["rate_layer"] == layer


@pytest.mark.parametrize(("layer", "said"), [("udp_payload", {"rate_layer": "udp_payload"}), (None, {})])
def test_of_any_csv_its_reader_says_it(tmp_path: Path, layer: str | None, said: dict[str, str]) -> None:
    (tmp_path / "a.csv").write_text("t,up\n0,1\n1,2\n2,2\n")
    options = Options(time="t", mapping=("uplink_kbps=up:Mbit/s",), rate_meaning="capacity", rate_layer=layer)
    header = import_trace(tmp_path / "a.csv", "csv", options).header
    assert {key: value for key, value in header.items() if key == "rate_layer"} == said


def test_an_unknown_layer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# rate_layer: radio\ntime_s,uplink_kbps\n0,1\n")
    with pytest.raises(Refusal, match="rate_layer 'radio', must be one of ethernet, ip, udp_payload"):
        read_trace(path)
    with pytest.raises(Refusal, match="--rate-layer 'radio': must be one of ethernet"):
        Options(rate_layer="radio")


def test_what_the_link_makes_of_it_is_shown() -> None:
    assert "on a link: uplink_kbps times 1.0456, in Ethernet frames" in facts(trace(rate_layer="tcp_payload"))
    assert not any("on a link" in line for line in facts(trace()))


def test_mahimahi_gets_packets_of_ip() -> None:
    def opportunities(**header: str) -> int:
        return len(to_mahimahi(trace(**header), "downlink").splitlines())

    frames, packets = opportunities(rate_layer="tcp_payload"), opportunities(rate_layer="ip")
    assert packets == opportunities()
    # 5 Mbit in all; a line of them is the period.
    assert packets - 1 == 5_000_000 // 12_000
    assert frames - 1 == int(5_000_000 * frame_factor("tcp_payload") / frame_factor("ip")) // 12_000


def test_a_direction_without_a_rate_is_unlimited() -> None:
    one_way = Trace(np.array([0.0]), uplink_kbps=np.array([5.0]))
    delay_only = Trace(np.array([0.0]), rtt_ms=np.array([5.0]))
    assert (trace().unlimited, one_way.unlimited) == ([], ["downlink"])
    assert LinkSchedule(one_way, 1, 1).unlimited == ["downlink"]
    assert LinkSchedule(trace(), 2, 1, others=[delay_only]).unlimited == ["uplink", "downlink"]
    assert LinkSchedule(one_way, 1, 1).at(0)[1][1].rate_bps is None
    assert "on a link: downlink unlimited, the trace has no downlink_kbps" in facts(one_way)
