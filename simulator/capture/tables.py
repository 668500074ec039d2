"""The attribution's tables: bytes by purpose and layer, one row a message, and one a handshake."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from simulator.capture.byte_totals import (
    ATTRIBUTED,
    CELL_SIZE,
    LAYERS,
    PHASES,
    PROBE,
    PURPOSES,
    RUN,
    SHARES,
    STRIDE,
    ByteTotals,
    cumulative,
)
from simulator.capture.fields import DIRECTIONS
from simulator.capture.second_log import vehicle_name

_TWO_WAYS = DIRECTIONS[:2]
# In the metadata of each of these tables: the numbers of those whose bytes it is about, as JSON; null: everybody's.
ATTRIBUTED_ENDS = b"attributed_ends"


def attributed_count(schema: pa.Schema) -> int | None:
    """Return of how many vehicles, or gateways at the edge, a table is a sample; None: it is about all."""
    ends = json.loads((schema.metadata or {}).get(ATTRIBUTED_ENDS, b"null"))
    return None if ends is None else len(ends)


def categories_table(totals: ByteTotals) -> pa.Table:
    """Return bytes of frames by phase, vehicle, direction, purpose and layer; they add up to all."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("phase", "vehicle_id", "direction", "purpose", "layer", "bytes")
    }
    for (phase, vehicle, direction), cell in sorted(totals.cells.items()):
        for index, amount in enumerate(cell[:CELL_SIZE]):
            if amount:
                purpose, layer = divmod(index, len(LAYERS))
                values: tuple[Any, ...] = (PHASES[phase], vehicle_name(vehicle), DIRECTIONS[direction])
                values += (PURPOSES[purpose], LAYERS[layer], amount)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
    types = [*[pa.string()] * 5, pa.int64()]
    columns = [pa.array(column, kind) for column, kind in zip(rows.values(), types, strict=True)]
    return pa.table(columns, names=list(rows))


def messages_table(totals: ByteTotals) -> pa.Table:
    """Return one row a message, in the order in which they were first seen.

    `connection` counts a vehicle's connections from 0, `order` its publishes in that connection from 0.
    Per direction the seven shares of a message and its `unattributed_bytes` (what belonged to no message of
    the vehicle in the run, spread evenly) add up, over a vehicle's messages, to its captured bytes but for
    the link's own probes, which are no message's cost.
    """
    messages = totals.messages
    columns: dict[str, pa.Array] = {
        "vehicle_id": _named(messages.vehicle.numbers(), vehicle_name),
        "connection": pa.array(messages.connection.numbers(), pa.int32()),
        "order": pa.array(messages.order.numbers(), pa.int32()),
        "protocol": _named(messages.protocol.numbers(), messages.protocols.__getitem__),
        "complete": pa.array(messages.complete.numbers().astype(bool), pa.bool_()),
    }
    for name in ("first_sent_at_ns", "last_sent_at_ns", "reached_cloud_at_ns", "acknowledged_at_ns"):
        stamps = getattr(messages, name).numbers()
        columns[name] = pa.array(stamps, pa.int64(), mask=stamps == 0)
    shares = messages.shares.numbers().reshape(-1, STRIDE)
    for way, direction in enumerate(_TWO_WAYS):
        for index, name in enumerate(SHARES):
            values = np.ascontiguousarray(shares[:, way * len(SHARES) + index])
            columns[f"{name}_{direction}"] = pa.array(values, pa.int64())
        columns[f"unattributed_bytes_{direction}"] = pa.array(_spread(totals, way), pa.int64())
    return pa.table(columns)


def handshakes_table(totals: ByteTotals) -> pa.Table:
    """Return one row a handshake of TLS that came to its end, in the order of their beginnings."""
    rows = sorted(totals.handshakes, key=lambda one: (one.begun_at_ns, one.vehicle))
    columns = {
        "vehicle_id": pa.array([vehicle_name(row.vehicle) for row in rows], pa.string()),
        "begun_at_ns": pa.array([row.begun_at_ns for row in rows], pa.int64()),
        "ended_at_ns": pa.array([row.ended_at_ns for row in rows], pa.int64()),
        "resumed": pa.array([row.resumed for row in rows], pa.bool_()),
        "record_bytes": pa.array([row.record_bytes for row in rows], pa.int64()),
    }
    return pa.table(columns)


def _named(numbers: npt.NDArray[np.int64], name: Callable[[int], str | None]) -> pa.Array:
    """Return the name of each number; few different ones."""
    different, places = np.unique(numbers, return_inverse=True)
    return pa.array([name(number) for number in different.tolist()], pa.string()).take(pa.array(places))


def _spread(totals: ByteTotals, direction: int) -> npt.NDArray[np.int64]:
    """Spread a vehicle's bytes of the run that are no message's evenly over its messages, in whole bytes."""
    vehicles = totals.messages.vehicle.numbers()
    result = np.zeros(len(vehicles), np.int64)
    if not len(vehicles):
        return result
    order = np.argsort(vehicles, kind="stable")
    numbers, heads = np.unique(vehicles[order], return_index=True)
    for number, group in zip(numbers.tolist(), np.split(order, heads[1:]), strict=True):
        cell = totals.cells.get((RUN, number, direction))
        if cell is not None:
            probes = sum(cell[PROBE * len(LAYERS) : (PROBE + 1) * len(LAYERS)])
            rest = sum(cell[:CELL_SIZE]) - cell[ATTRIBUTED] - probes
            result[group] = cumulative(rest, [1] * len(group))
    return result
