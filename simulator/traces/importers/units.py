"""Units a log may use and what they are in ours; an unknown unit is an error, never a guess."""

from __future__ import annotations

from simulator.traces.importers.base import Source

_RATES = {
    "bit/s": 1e-3, "bits/sec": 1e-3, "bps": 1e-3,
    "kbit/s": 1.0, "Kbits/sec": 1.0, "kbps": 1.0, "Kbps": 1.0,
    "Mbit/s": 1e3, "Mbits/sec": 1e3, "MBit/s": 1e3, "Mbps": 1e3,
    "Gbit/s": 1e6, "Gbits/sec": 1e6, "Gbps": 1e6,
    "byte/s": 8e-3, "kbyte/s": 8.0, "Mbyte/s": 8e3,
}  # fmt: skip
UNITS = {
    "uplink_kbps": _RATES,
    "downlink_kbps": _RATES,
    "rtt_ms": {"ms": 1.0, "s": 1e3, "us": 1e-3},
    "loss_ratio": {"ratio": 1.0, "percent": 1e-2},
    "latitude_deg": {"deg": 1.0},
    "longitude_deg": {"deg": 1.0},
    "time_s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
}


def factor(column: str, unit: str, source: Source, line: int) -> float:
    """What a value in `unit` is multiplied by to be in the unit of `column`."""
    table = UNITS[column]
    if unit not in table:
        raise source.refusal(line, f"unit {unit!r} of {column}: must be one of {', '.join(table)}")
    return table[unit]
