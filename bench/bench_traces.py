"""How long one hour of every format takes to import, and a day of trace to draw; target: 1 s for the hour.

The files are made here from the profiles, in each format's own spelling.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from simulator.traces import PROFILES, Trace, generate, read_trace, write_trace
from simulator.traces.generator import series
from simulator.traces.importers import Options, import_trace
from simulator.traces.importers.mahimahi import to_mahimahi

HOUR_S = 3_600
TARGET_S = 1.0
REPEATS = 3


def main() -> None:
    print(f"{'one hour of':<28} {'MB':>7} {'steps':>7} {'best ms':>9}  target {TARGET_S * 1000:g} ms")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, options in files(Path(folder)):
            took_s, trace = best(lambda path=path, name=name, options=options: opened(path, name, options))
            row(f"{name} ({path.name})", path.stat().st_size, trace, took_s)
    day_s = best(
        lambda: generate([PROFILES["us-2024-car-ul-udp"], PROFILES["us-2023-car-rtt"]], 1, 24 * HOUR_S)
    )[0]
    print(f"{'a day of two columns drawn':<28} {'':>7} {24 * HOUR_S:>7} {day_s * 1000:>9.1f}")


def opened(path: Path, name: str, options: Options | None) -> Trace:
    return read_trace(path) if name == "own" else import_trace(path, name, options)


def best(work: Callable[[], Trace]) -> tuple[float, Trace]:
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        trace = work()
        times.append(time.perf_counter() - begun)
    return min(times), trace


def row(label: str, size: int, trace: Trace, took_s: float) -> None:
    verdict = "ok" if took_s <= TARGET_S else "SLOW"
    print(f"{label:<28} {size / 1e6:>7.2f} {len(trace.time_s):>7} {took_s * 1000:>9.1f}  {verdict}")
    sys.stdout.flush()


def files(folder: Path) -> Iterator[tuple[str, Path, Options | None]]:
    trace = generate([PROFILES["us-2024-car-ul-udp"], PROFILES["us-2023-car-rtt"]], 1, HOUR_S)
    rates = series(PROFILES["ie-2018-car-ul-as-logged"], 1, HOUR_S)
    for suffix in ("csv", "parquet"):
        write_trace(trace, folder / f"t.{suffix}")
        yield "own", folder / f"t.{suffix}", None
    yield "gnettrack", put(folder / "g.csv", gnettrack(rates)), None
    yield "mahimahi", put(folder / "m.up", to_mahimahi(trace, "uplink")), None
    yield "interval-log", put(folder / "i.log", interval_log(rates)), None
    entries = [{"duration_ms": 1000, "bandwidth_kbps": int(rate), "latency_ms": 20} for rate in rates]
    yield "sabre", put(folder / "s.json", json.dumps(entries)), None
    text = "".join(f"{k} {rate / 1000}\n" for k, rate in enumerate(rates))
    yield "cooked", put(folder / "c.txt", text), Options(direction="downlink")
    yield "ping", put(folder / "p.out", ping(np.repeat(trace.rtt_ms, 5))), None
    text = "time,throughput_mbps\n" + "".join(f"{k / 2},1.5\n" for k in range(2 * HOUR_S))
    yield "nuttcp", put(folder / "n.csv", text), None
    yield "nyu", put(folder / "y.csv", "1.5,Mbits/sec\n" * HOUR_S), Options(direction="downlink")
    text = "t,rate\n" + "".join(f"{k},{rate}\n" for k, rate in enumerate(rates))
    options = Options(time="t", mapping=("uplink_kbps=rate",), rate_meaning="capacity")
    yield "csv", put(folder / "v.csv", text), options


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def gnettrack(rates: np.ndarray) -> str:
    head = "Timestamp,Longitude,Latitude,Speed,NetworkMode,DL_bitrate,UL_bitrate,State\n"
    stamps = (f"2018.01.18_{k // 3600:02d}.{k // 60 % 60:02d}.{k % 60:02d}" for k in range(len(rates)))
    return head + "".join(
        f"{s},-8.5,51.9,50,LTE,{rate * 50:.0f},{rate:.0f},D\n" for s, rate in zip(stamps, rates, strict=True)
    )


def interval_log(rates: np.ndarray) -> str:
    return "".join(
        f"{10**9 + k} {1000 * (k + 1)} 59.8 10.7 {rate * 125:.0f} 1000\n" for k, rate in enumerate(rates)
    )


def ping(rtts: np.ndarray) -> str:
    replies = "".join(
        f"64 bytes from 10.0.0.1: icmp_seq={k} ttl=50 time={r} ms\n" for k, r in enumerate(rtts, 1)
    )
    sent = len(rtts)
    end = f"{sent} packets transmitted, {sent} received, 0% packet loss, time {200 * sent - 200}ms\n"
    return "PING 10.0.0.1 (10.0.0.1) 38(66) bytes of data.\n" + replies + end


if __name__ == "__main__":
    main()
