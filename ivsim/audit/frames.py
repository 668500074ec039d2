"""The capture's counts once more, from the run's pcap as tshark dissects it: frames, bytes by layer, messages by protocol."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ivsim.audit.logs import WIRE_COUNTS, WireCounts, WireKey
from ivsim.audit.result import BadResult

PROGRAM: Final = "tshark"
SECOND_NS: Final = 1_000_000_000
LINK_HEADER_BYTES: Final = 14
MAX_FRAME_BYTES: Final = 1_514
PROBE_PORT: Final = 18_862
VEHICLES: Final = (198, 18)  # the first two bytes of every vehicle's address
# The header fields of a frame; the first of each, since an ICMP error carries another packet's headers.
_FIELDS: Final = (
    "frame.time_epoch", "frame.len", "ip.src", "ip.dst", "arp.src.proto_ipv4", "arp.dst.proto_ipv4", "ip.hdr_len",
    "ip.len", "ip.proto", "tcp.hdr_len", "tcp.len", "tcp.flags", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport",
    "udp.length",
    "tcp.analysis.retransmission", "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order", "tcp.analysis.keep_alive", "tcp.analysis.zero_window_probe",
)  # fmt: skip
# What of the capture's counts tshark tells; the overlap of a segment sent again (in bytes) is not among it.
COUNTED: Final = tuple(name for name in WIRE_COUNTS if name != "tcp_retransmitted_payload_bytes")
_AGAIN: Final = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
_SYN_FIN_RST, _ACK = 0x07, 0x10


def available() -> bool:
    """Say whether tshark is installed."""
    return shutil.which(PROGRAM) is not None


def wire_counts(pcap: Path, start_at_ns: int) -> WireCounts:
    """Return the counts of `COUNTED` by second, vehicle and direction, from each frame's headers alone."""
    found: WireCounts = {}
    for frame in _dissected(pcap, _FIELDS, "f", "-o", "ip.defragment:FALSE"):
        source = frame["ip.src"] or frame["arp.src.proto_ipv4"]
        target = frame["ip.dst"] or frame["arp.dst.proto_ipv4"]
        vehicle, way = _side(source, target)
        second = max(-1, (_ns(frame["frame.time_epoch"]) - start_at_ns) // SECOND_NS)
        cell = found.setdefault(WireKey(second, vehicle, way), dict.fromkeys(COUNTED, 0))
        for name, count in _counts(frame).items():
            cell[name] += count
    return found


def _counts(frame: Mapping[str, str]) -> dict[str, int]:
    link = int(frame["frame.len"])
    ip = link - LINK_HEADER_BYTES
    header = int(frame["ip.hdr_len"] or 0)
    # An ICMP error carries the headers of the packet that it is about.
    tcp = frame["ip.proto"] == "6" and bool(frame["tcp.hdr_len"])
    udp = frame["ip.proto"] == "17" and bool(frame["udp.length"])
    flags = int(frame["tcp.flags"], 16) if tcp else 0
    control = bool(flags & _SYN_FIN_RST)
    keep_alive = tcp and bool(frame["tcp.analysis.keep_alive"] or frame["tcp.analysis.zero_window_probe"])
    again = tcp and not keep_alive and any(frame[f"tcp.analysis.{word}"] for word in _AGAIN)
    pure = bool(flags & _ACK) and not control and not keep_alive and frame["tcp.len"] == "0"
    # The UDP header of a fragment says the whole datagram's length: the frame's own is the IP packet's.
    udp_bytes = int(frame["ip.len"]) - header - 8 if udp else 0
    return {
        "packets": 1,
        "ip_bytes": ip,
        "link_bytes": link,
        "ip_header_bytes": header,
        "tcp_packets": int(tcp),
        "tcp_header_bytes": int(frame["tcp.hdr_len"]) if tcp else 0,
        "tcp_payload_bytes": int(frame["tcp.len"]) if tcp else 0,
        "tcp_pure_ack_packets": int(pure),
        "tcp_pure_ack_bytes": ip if pure else 0,
        "tcp_control_packets": int(control),
        "tcp_control_bytes": ip if control else 0,
        "tcp_keep_alive_packets": int(keep_alive),
        "tcp_retransmitted_packets": int(again),
        "tcp_retransmitted_bytes": ip if again else 0,
        "udp_packets": int(udp),
        "udp_payload_bytes": udp_bytes,
        "other_packets": int(not (tcp or udp)),
        "other_bytes": 0 if tcp or udp else ip,
        "super_frames": int(link > MAX_FRAME_BYTES),
    }


def probe_bytes(pcap: Path, start_at_ns: int, ends: Collection[int] | None = None) -> dict[str, int]:
    """Return the whole frames of the link's own probes by direction, from second 0 on; of these ends, None: of all."""
    found = {"uplink": 0, "downlink": 0}
    for frame in _dissected(pcap, _FIELDS, "f"):
        ports = {frame["udp.srcport"], frame["udp.dstport"]}
        end, way = _side(frame["ip.src"], frame["ip.dst"])
        wanted = way in found and (ends is None or end in ends)
        if wanted and str(PROBE_PORT) in ports and _ns(frame["frame.time_epoch"]) >= start_at_ns:
            found[way] += int(frame["frame.len"])
    return found


def message_counts(pcap: Path, protocol: str) -> dict[str, int]:
    """Return the messages of each vehicle (by address) that a protocol's dissector finds on the uplink.

    MQTT: PUBLISH without DUP. AMQP 0-9-1: basic.publish. CoAP: POST, a message once by endpoint and token. A segment or
    datagram that TCP or CoAP sent again is dissected once, or has the name of the first.
    """
    return {"mqtt": _mqtt, "amqp": _amqp, "coap": _coap}[protocol](pcap)


def readable(protocol: str, options: Mapping[str, Any]) -> bool:
    """Say whether a dissector can read a run's messages: its protocol in plain text."""
    return protocol in {"mqtt", "amqp", "coap"} and options.get("security", "plain") == "plain"


def _mqtt(pcap: Path) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    fields = ("ip.src", "ip.dst", "mqtt.msgtype", "mqtt.dupflag")
    for frame in _dissected(pcap, fields, "a", "-Y", "mqtt", "-d", "tcp.port==1883,mqtt"):
        if _side(_first(frame["ip.src"]), _first(frame["ip.dst"]))[1] != "uplink":
            continue
        duplicates = iter(frame["mqtt.dupflag"].split(","))
        for kind in frame["mqtt.msgtype"].split(","):
            if kind == "3" and next(duplicates, "0") in {"0", "False"}:
                found[_first(frame["ip.src"])] += 1
    return dict(found)


def _amqp(pcap: Path) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    fields = ("ip.src", "ip.dst", "amqp.method.class", "amqp.method.method")
    for frame in _dissected(pcap, fields, "a", "-Y", "amqp", "-d", "tcp.port==5672,amqp"):
        if _side(_first(frame["ip.src"]), _first(frame["ip.dst"]))[1] != "uplink":
            continue
        methods = zip(
            frame["amqp.method.class"].split(","), frame["amqp.method.method"].split(","), strict=True
        )
        found[_first(frame["ip.src"])] += sum(pair == ("60", "40") for pair in methods)
    return {vehicle: count for vehicle, count in found.items() if count}


def _coap(pcap: Path) -> dict[str, int]:
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    fields = (
        "ip.src",
        "ip.dst",
        "udp.srcport",
        "coap.code",
        "coap.token",
        "coap.mid",
        "coap.opt.block_number",
        "coap.opt.uri_path",
    )
    for frame in _dissected(pcap, fields, "f", "-Y", "coap and not icmp"):
        way = _side(frame["ip.src"], frame["ip.dst"])[1]
        if way == "uplink" and frame["coap.code"] == "2" and frame["coap.opt.block_number"] in {"", "0"}:
            found[frame["ip.src"]].add((frame["udp.srcport"], frame["coap.token"], frame["coap.mid"]))
    return {vehicle: len(messages) for vehicle, messages in found.items()}


def _dissected(
    pcap: Path, fields: Sequence[str], occurrence: str, *arguments: str
) -> Iterator[dict[str, str]]:
    """Yield the named fields of every frame as text, "" where a frame has none."""
    wanted = [word for name in fields for word in ("-e", name)]
    command = [
        PROGRAM,
        "-n",
        "-r",
        str(pcap),
        *arguments,
        "-T",
        "fields",
        "-E",
        f"occurrence={occurrence}",
        *wanted,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield dict(zip(fields, line.rstrip("\n").split("\t"), strict=True))
        said = process.stderr.read()
    if process.returncode != 0:
        lines = [line for line in said.splitlines() if "running as" not in line.lower()]
        raise BadResult(f"{pcap}: tshark: {lines[-1] if lines else f'exit code {process.returncode}'}")


def _first(text: str) -> str:
    return text.partition(",")[0]


def _ns(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * SECOND_NS + int(part.ljust(9, "0")[:9])


def _side(source: str, target: str) -> tuple[int, str]:
    """Return the vehicle's number and the direction; 0 and aside for a frame of no vehicle."""
    for address, way in ((source, "uplink"), (target, "downlink")):
        parts = [int(part) for part in address.split(".")] if address else []
        if tuple(parts[:2]) == VEHICLES:
            return parts[2] * 256 + parts[3], way
    return 0, "aside"
