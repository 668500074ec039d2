"""Holds the streaming job's last figures against the ledger: two ways to count the same messages; it corrects neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.runs.directory import RunDirectory
from schemas.json_files import write_json

OF_MESSAGES: Final = ("received", "duplicates", "emitted")
COUNTS: Final = (*OF_MESSAGES, "wire_bytes_uplink", "wire_bytes_downlink")
SHOWN: Final = 20
LIVE_FILE: Final = "live.json"

Counts = dict[str, dict[str, int | None]]


def agreement(directory: RunDirectory, fleet: dict[str, Any], vehicles: dict[str, Any]) -> dict[str, Any]:
    """Keep the live figures in live.json and compare each vehicle's counts with the ledger's and the link log's.

    Args:
        directory: a run whose ledger and link log are written.
        fleet: the fleet's last figures of the run so far, as `run.metrics` has them.
        vehicles: the same per vehicle.

    Returns:
        `verdict` ("agree", "differ"), `counts_compared` (those that the ledger knows), `differences` (the first 20:
        vehicle_id, figure, live, ledger).
    """
    write_json(directory.path / LIVE_FILE, {"fleet": fleet, "vehicles": vehicles})
    accounted = of_messages(directory.ledger)
    for vehicle, counts in of_link(directory.link).items():
        accounted.setdefault(vehicle, {}).update(counts)
    pairs = [
        (vehicle, name, (vehicles.get(vehicle) or {}).get(name), counts.get(name))
        for vehicle, counts in sorted(accounted.items())
        for name in COUNTS
        if counts.get(name, 0) is not None
    ]
    different = [
        {"vehicle_id": vehicle, "figure": name, "live": live, "ledger": ledger}
        for vehicle, name, live, ledger in pairs
        # Nothing counted is no record at all in a stream, and 0 in a table.
        if (live or 0) != (ledger or 0)
    ]
    return {
        "verdict": "differ" if different else "agree",
        "counts_compared": len(pairs),
        "differences": different[:SHOWN],
    }


def of_messages(ledger: Path) -> Counts:
    """Return per vehicle what the ledger says of received, duplicate and emitted messages.

    None is what it does not say: of a vehicle with a message whose fate is unknown, all but how many were emitted.
    """
    rows = pq.read_table(ledger, columns=["vehicle_id", "copies", "emitted_at_ns", "fate"])
    contained = pc.is_in(rows["fate"], pc.cast(["delivered", "late"], "string"))
    counted = rows.append_column("received", pc.cast(contained, "int64"))
    counted = counted.append_column("duplicates", pc.max_element_wise(pc.subtract(rows["copies"], 1), 0))
    counted = counted.append_column("emitted", pc.cast(pc.is_valid(rows["emitted_at_ns"]), "int64"))
    counted = counted.append_column("unknown", pc.cast(pc.equal(rows["fate"], "unknown"), "int64"))
    names = OF_MESSAGES
    sums = counted.group_by("vehicle_id").aggregate([(name, "sum") for name in (*names, "unknown")])
    return {
        row["vehicle_id"]: {
            name: None if name != "emitted" and row["unknown_sum"] else row[f"{name}_sum"] or 0
            for name in names
        }
        for row in sums.to_pylist()
    }


def of_link(link: Path) -> Counts:
    """Return per vehicle the wire bytes of both directions."""
    rows = pq.read_table(link, columns=["vehicle_id", "direction", "wire_bytes"])
    sums = rows.group_by(["vehicle_id", "direction"]).aggregate([("wire_bytes", "sum")])
    found: Counts = {}
    for row in sums.to_pylist():
        found.setdefault(row["vehicle_id"], {})[f"wire_bytes_{row['direction']}"] = row["wire_bytes_sum"] or 0
    return found
