"""tshark's view of a capture, as rows."""

from __future__ import annotations

import subprocess

FIELDS = (
    "frame.len",
    "ip.src",
    "ip.dst",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.keep_alive",
    "coap.type",
)
AGAIN = FIELDS[3:7]


def rows(path):
    # Of a field that comes twice the first: an ICMP error has the addresses of the packet that it is about behind its own.
    argv = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=;", "-E", "occurrence=f"]
    for field in FIELDS:
        argv += ["-e", field]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [dict(zip(FIELDS, line.split(";"), strict=True)) for line in run.stdout.splitlines()]


def retransmitted(row):
    return any(row[field] for field in AGAIN) and not row["tcp.analysis.keep_alive"]
