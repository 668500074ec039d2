"""The memory that a run takes at least: more than is available is refused before the start.

The table says what each part takes at rest and per vehicle, as measured on 2026-11-27 (2 cores, 25 GB, Linux 6.18, Java 17) by
`python -m bench.bench_memory`: 10 to 5,000 vehicles, 100 messages/s together, 20 s. All rows are in docs/limits.md.

It is a lower bound, since no run may be refused that would work. Each figure is the least of the rows that have the part, of
memory that the kernel cannot drop, with Java's heaps as on a small machine; 0.8 of it counts. What was not measured counts as
nothing: keys and TLS, an echo's receivers, relays, further brokers of Kafka, the kernel's sockets, messages, the ledger at the end.
`--link auto` counts as nothing until it is known to be the router in user-mode Linux.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ivsim.options import RunOptions, option_name, own_workers
from ivsim.runs.host import groups, limits
from ivsim.runs.processes import gateway_places
from ivsim.runs.shards import brokers_of, sender_shares
from ivsim.testbed.servers import KAFKA
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.settings import as_mapping
from simulator.links import AUTO, choose

ROOT: Final = Path("/")
GB: Final = 1e9
SURE_RATIO: Final = 0.8
RUNNER: Final = "runner"
SPARK: Final = "spark"
GUEST: Final = "uml"
HEAP_OF_SPARK: Final = "spark.driver.memory"


class Memory(NamedTuple):
    """What one process of a part takes at rest, in MB, and what the part takes for each vehicle, in kB."""

    at_rest_mb: float
    vehicle_kb: float


MEASURED: Final = {
    "sender mqtt": Memory(37.0, 42.0),
    "sender coap": Memory(44.0, 29.0),
    "sender amqp": Memory(38.0, 42.0),
    "mosquitto": Memory(1.1, 0.7),
    "rabbitmq": Memory(88.0, 97.0),
    "gateway mqtt": Memory(37.0, 0.0),
    "gateway coap": Memory(43.0, 0.0),
    "gateway amqp": Memory(39.0, 0.0),
    "capture": Memory(33.0, 3.0),
    GUEST: Memory(105.0, 58.0),
    KAFKA: Memory(173.0, 0.0),
    SPARK: Memory(574.0, 0.0),
    RUNNER: Memory(4.0, 4.0),
}


def check_memory(options: RunOptions, up: Collection[str] = ()) -> None:
    """Refuse a run that needs more memory than is available; `up` names parts that have theirs already."""
    available = available_bytes(ROOT)
    needed = needed_bytes(options, up)
    if available is None or needed <= available:
        return
    figures = (
        f"{option_name('vehicles')} {options.vehicles}: needs at least {math.ceil(needed / GB * 10) / 10:.1f} GB of memory,"
        f" {math.floor(available / GB * 10) / 10:.1f} GB are available"
    )
    fitting = fitting_vehicles(options, up, available)
    if not fitting:
        raise Refusal(f"{figures}, not enough for one vehicle: end other programs, or take another machine")
    senders_here = any(share.agent is None for share in sender_shares(options))
    more = f"more of {option_name('share')}" if options.share is not None else option_name("agents")
    remedy = f", or {more}" if senders_here else ""
    raise Refusal(f"{figures}; allowed here: up to {fitting:,} vehicles{remedy}")


def check_memory_with_link(options: RunOptions, up: Collection[str] = ()) -> None:
    """Refuse as `check_memory` does, with the link that `auto` chooses; it is tried where that makes a difference alone.

    To try it takes the rights that a link takes.
    """
    if options.link != AUTO:
        return
    guest = options.model_copy(update={"link": GUEST})
    available = available_bytes(ROOT)
    if available is not None and available < needed_bytes(guest, up) and choose(AUTO) == GUEST:
        check_memory(guest, up)


def fitting_vehicles(options: RunOptions, up: Collection[str], available: int) -> int:
    """Return how many vehicles of a run that does not fit would, 0 for none: one more does not."""
    fits, not_fits = 0, options.vehicles
    while not_fits - fits > 1:
        vehicles = (fits + not_fits) // 2
        if needed_bytes(options.model_copy(update={"vehicles": vehicles}), up) <= available:
            fits = vehicles
        else:
            not_fits = vehicles
    return fits


def needed_bytes(options: RunOptions, up: Collection[str] = ()) -> int:
    """Return what the run's parts on this machine take at least beside those that are up."""
    total = 0.0
    for name, processes, vehicles in _parts(options):
        if name not in up and (one := MEASURED.get(name)) is not None:
            total += processes * one.at_rest_mb * 1e6 + vehicles * one.vehicle_kb * 1e3
    return round(SURE_RATIO * total)


def _parts(options: RunOptions) -> Iterator[tuple[str, int, int]]:
    """Yield the parts on this machine: name, how many processes it has, how many vehicles they serve."""
    topology = TOPOLOGIES[options.topology]
    yield RUNNER, 1, options.sending
    yield options.link, 1, len(options.links)
    if not options.agents:
        yield "capture", 1, options.sending
    for share in sender_shares(options):
        if share.agent is None:
            yield f"sender {share.part.protocol.name}", 1, len(share.vehicles)
    for part in options.parts:
        if part.protocol.broker is not None and options.target is None:
            brokers = options.gateways if topology.edge else brokers_of(options, part)
            yield part.protocol.broker, brokers, len(part.vehicles)
    if not topology.bridged:
        return
    for part in options.parts:
        gateways = sum(one == part for one, _ in gateway_places(options))
        yield f"gateway {part.protocol.name}", gateways, len(part.vehicles)
    if options.platform != KAFKA or options.kafka is None:
        yield options.platform, 1, options.vehicles
    if topology.twins:
        yield from _spark(options)


def _spark(options: RunOptions) -> Iterator[tuple[str, int, int]]:
    workers = own_workers(options.spark_master)
    if (options.spark_master is None or workers) and HEAP_OF_SPARK not in as_mapping(options.spark_conf):
        # Each worker and its executor count as one driver more; they took 232 and 484 MB, the master 234 MB (resident).
        yield SPARK, 1 + (workers or 0), options.vehicles


def machine_bytes(root: Path = ROOT) -> int:
    """Return the memory of the machine, or the limit of the tightest control group if that is less."""
    whole = _lines(root / "proc/meminfo")["MemTotal:"] * 1024
    limit = limits(root)["memory_bytes"]
    return min(whole, limit) if isinstance(limit, int) else whole


def available_bytes(root: Path) -> int | None:
    """Return what programs may still take, free swap with it: of the machine, or of the tightest control group; None: unknown."""
    machine = _lines(root / "proc/meminfo")
    found = [] if (free := machine.get("MemAvailable:")) is None else [free * 1024]
    found += [room for group in groups(root, "memory") if (room := _room(group)) is not None]
    return min(found) + machine.get("SwapFree:", 0) * 1024 if found else None


def _room(group: Path) -> int | None:
    """Return what is left below the limit of a control group; None where it has none.

    Files that have been read count as used there, but the kernel drops them for whoever needs memory.
    """
    for limit_name, used_name, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        limit, used = _number(group / limit_name), _number(group / used_name)
        if limit is not None and used is not None:
            kinds = _lines(group / "memory.stat")
            files = sum(kinds.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
            return max(0, limit - max(0, used - files))
    return None


def _number(path: Path) -> int | None:
    """Return the number in a file; None of a file that is not there or has another word, such as `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _lines(path: Path) -> dict[str, int]:
    """Return the first number of each line by its first word; nothing of a file that cannot be read."""
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
