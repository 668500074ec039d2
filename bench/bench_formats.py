"""Formats: ticks to bytes and back, beside the libraries' ordinary ways, and a fleet of 10,000 on one core.

python -m bench.bench_formats [--fuzz N]     N hostile payloads per format (the claim: 1,000,000)
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgpack
import msgspec
import orjson
from google.protobuf import json_format

from ivsim.study.corpus import START_AT_NS, driving
from ivsim.study.engines.codec.fuzz import fuzz
from ivsim.study.engines.codec.timing import THREE
from schemas.formats import FORMATS
from schemas.formats.flat_prepared import build
from schemas.generated import current_status_pb2 as pb
from schemas.messages import CurrentStatus
from simulator.fleet import plan
from simulator.scenario import Scenario
from simulator.vehicles.vehicle import Vehicle

TICKS = 100
ROUNDS = 5
TICK_ROUNDS = 40  # short rounds: on a shared machine some of them are undisturbed
ENCODE_US = {"protobuf": 25, "json": 25, "msgpack": 20, "avro": 60, "flatbuffers": 60}
DECODE_US = {"protobuf": 40, "json": 40}
PEEK_US = {"protobuf": 2, "msgpack": 2, "avro": 2, "flatbuffers": 2, "json": 4}
FLEET_VEHICLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=int, default=20_000)
    parser.add_argument(
        "--fleet", action="store_true", help="the fleet alone, as JSON (the bench starts this)"
    )
    chosen = parser.parse_args()
    if chosen.fleet:
        print(json.dumps(fleet()))
        return
    gc.disable()
    formats()
    libraries()
    gc.enable()
    command = [sys.executable, "-m", "bench.bench_formats", "--fleet"]
    done = subprocess.run(command, check=True, capture_output=True)
    took_s, mib = json.loads(done.stdout)
    print(f"\n{FLEET_VEHICLES:,} vehicles advance a tick and encode one Protobuf message each, one core:")
    print(f"  best of {ROUNDS}: {took_s:.2f} s (target 1.0), process {mib:.0f} MiB at its peak (target 400)")
    print(f"\n{'fuzzed':<14}{'inputs':>10}{'accepted':>10}{'refused':>10}{'slowest us':>12}{'wall s':>8}")
    for name in FORMATS:
        began = time.perf_counter()
        o = fuzz(name, chosen.fuzz, seed=1)
        wall_s = time.perf_counter() - began
        print(
            f"{name:<14}{o.inputs:>10,}{o.accepted:>10,}{o.refused:>10,}{o.slowest_us:>12,.0f}{wall_s:>8.1f}"
        )


def formats() -> None:
    print(f"{'us, best of 5':<14}{'tick->bytes':>12}{'target':>8}{'decode':>9}{'target':>8}"
          f"{'decode all':>12}{'3 fields':>10}{'peek':>7}{'target':>8}{'bytes':>8}")  # fmt: skip
    for name in FORMATS:
        ticked_us, payload = ticked(name)
        decode, peek = FORMATS[name].decode, FORMATS[name].peek
        few = three(name, payload)
        print(f"{name:<14}{ticked_us:>12.1f}{ENCODE_US.get(name, ''):>8}"
              f"{best(lambda d=decode, p=payload: d(p), 300):>9.1f}{DECODE_US.get(name, ''):>8}"
              f"{best(lambda d=decode, p=payload: d(p).document(), 300):>12.1f}"
              f"{best(few, 300):>10.1f}{best(lambda k=peek, p=payload: k(p), 3000):>7.2f}"
              f"{PEEK_US.get(name, ''):>8}{len(payload):>8,}")  # fmt: skip


def ticked(name: str) -> tuple[float, bytes]:
    """Return microseconds from a truck-with-trailer's changed state to bytes: best round's mean."""
    encode = FORMATS[name].encode
    vehicle = driving("trailer", seed=3)
    rounds, tick, payload = [], 0, b""
    for _ in range(TICK_ROUNDS):
        spent_ns = 0
        for _ in range(TICKS):
            tick += 1
            vehicle.advance(120_000_000_000 + tick * 1_000_000_000)
            status = vehicle.status(tick, 1, START_AT_NS + tick * 1_000_000_000, vehicle.cause)
            began_ns = time.perf_counter_ns()
            payload = encode(status)
            spent_ns += time.perf_counter_ns() - began_ns
        rounds.append(spent_ns / TICKS / 1e3)
    return min(rounds), payload


def three(name: str, payload: bytes) -> Callable[[], Any]:
    tried: Any = FORMATS[name]
    if name == "flatbuffers":
        return lambda: tried.read(payload, *THREE)

    def read() -> Any:
        status = tried.decode(payload)
        return status.motion and (status.motion.odometer_m, status.combustion.engine_speed_rpm)

    return read


def libraries() -> None:
    """Print what the libraries take for the same message in their ordinary way."""
    vehicle = driving("trailer", seed=3)
    status = vehicle.status(1, 1, START_AT_NS, vehicle.cause)
    fresh = CurrentStatus.of(status.document())
    wire = FORMATS["protobuf"].encode(status)
    message = pb.CurrentStatus.FromString(wire)
    text = FORMATS["json"].encode(status)
    tree = json.loads(text)
    packed = msgpack.packb(tree)
    whole = {"always_print_fields_with_no_presence": True}
    rows = {
        "protobuf, message kept, serialised again": (message.SerializeToString, 2000),
        "protobuf, parsed": (lambda: pb.CurrentStatus.FromString(wire), 2000),
        "protobuf, built anew from typed records": (lambda: FORMATS["protobuf"].encode(fresh), 100),
        "json_format.MessageToJson": (lambda: json_format.MessageToJson(message, indent=None, **whole), 20),
        "json_format.Parse": (lambda: json_format.Parse(text, pb.CurrentStatus()), 20),
        "json.dumps from a dict": (lambda: json.dumps(tree, separators=(",", ":")), 300),
        "orjson.dumps from a dict": (lambda: orjson.dumps(tree), 1000),
        "msgspec.json.encode from a dict": (lambda: msgspec.json.encode(tree), 1000),
        "json.loads to a dict": (lambda: json.loads(text), 300),
        "orjson.loads to a dict": (lambda: orjson.loads(text), 500),
        "msgspec.json.decode to a dict": (lambda: msgspec.json.decode(text), 500),
        "msgpack.packb from a dict": (lambda: msgpack.packb(tree), 500),
        "msgpack.unpackb to a dict": (lambda: msgpack.unpackb(packed), 500),
        "flatbuffers, official Python builder": (lambda: build(fresh), 20),
    }
    print(f"\n{'libraries, the same message':<44}{'us':>9}")
    for what, (do, number) in rows.items():
        print(f"{what:<44}{best(do, number):>9.1f}")


def best(do: Callable[[], Any], number: int) -> float:
    """Return the best round's mean, microseconds."""
    rounds = []
    for _ in range(ROUNDS):
        began_ns = time.perf_counter_ns()
        for _ in range(number):
            do()
        rounds.append((time.perf_counter_ns() - began_ns) / number / 1e3)
    return min(rounds)


def fleet() -> tuple[float, float]:
    """Return (best seconds of a tick of the whole fleet, MiB at the peak of this process)."""
    scenario = Scenario(vehicles=FLEET_VEHICLES)
    encode = FORMATS["protobuf"].encode
    vehicles = [
        Vehicle(n, plan(scenario, n).variant, Random(f"1/{n}/drive")) for n in range(1, FLEET_VEHICLES + 1)
    ]
    rounds = []
    for k in range(ROUNDS + 1):
        began_ns = time.perf_counter_ns()
        for vehicle in vehicles:
            vehicle.advance(k * 1_000_000_000)
            encode(vehicle.status(k + 1, 1, START_AT_NS + k * 1_000_000_000, vehicle.cause))
        rounds.append((time.perf_counter_ns() - began_ns) / 1e9)
    # The first tick builds every message: a start, not a tick. VmHWM, for getrusage would count our parent.
    with open("/proc/self/status") as file:  # noqa: PTH123
        peak_kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return min(rounds[1:]), peak_kib / 1024


if __name__ == "__main__":
    main()
