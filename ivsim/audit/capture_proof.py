"""What the capture proves of messages in a mode without acknowledgements: which reached the cloud, which were held back.

The capture reads no sequences. A connection of TCP is one stream of bytes in each direction (RFC 9293, 3.8), and a client
puts its publishes into it one after another (MQTT 5, 4.6; AMQP 0-9-1, 4.7): the nth that begins in the stream is the nth
that the client was given and may send (MQTT 5, 3.2.2.3.6: none over the server's Maximum Packet Size). A stream that ends
has at most one unfinished message, its last. So what comes behind the last one that began was held back. A message of
another size, an unfinished one that is not the last, and one on the wire before it was given contradict the count, and
from there on nothing is known of the connection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ivsim.audit import logs
from ivsim.audit.due import Key, vehicle_name
from ivsim.audit.ledger import key_of
from ivsim.audit.logs import Event

Row = dict[str, Any]
_NEVER_SENT: Final = logs.REASONS.index("beyond_peers_limit")


@dataclass
class _Connection:
    at_ns: int
    given: list[Event] = field(default_factory=list)
    on_wire: int = 0
    counts: bool = False  # any row of the capture was joined to it
    broken: bool = False


def proven(emissions: Iterable[Row], events: Iterable[Event], wire_messages: Iterable[Row]) -> list[Row]:
    """Return the rows with `reached_cloud_at_ns` and `held_back`, None where nothing is proven."""
    vehicles: dict[str, list[_Connection]] = defaultdict(list)
    for event in events:
        mine = vehicles[vehicle_name(event.vehicle)]
        if event.kind == logs.CONNECTED:
            mine.append(_Connection(event.at_ns))
        elif event.kind == logs.EMITTED and mine:
            mine[-1].given.append(event)
        elif event.kind == logs.REFUSED and mine and event.reason == _NEVER_SENT:
            mine[-1].given = [one for one in mine[-1].given if one.key != event.key]
    reached = _reached(vehicles, wire_messages)
    held = {
        event.key
        for mine in vehicles.values()
        for connection in mine
        if connection.counts and not connection.broken
        for event in connection.given[connection.on_wire :]
    }
    return [
        row
        | {
            "reached_cloud_at_ns": reached.get(key_of(row)),
            "held_back": True if key_of(row) in held else None,
        }
        for row in emissions
    ]


def _reached(vehicles: dict[str, list[_Connection]], wire_messages: Iterable[Row]) -> dict[Key, int]:
    captured: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in wire_messages:
        captured[row["vehicle_id"], row["connection"]].append(row)
    reached: dict[Key, int] = {}
    for (vehicle, _), rows in sorted(captured.items()):
        rows.sort(key=lambda row: int(row["order"]))
        began_ns = rows[0]["first_sent_at_ns"]
        mine = vehicles.get(vehicle, [])
        index = bisect_right([connection.at_ns for connection in mine], began_ns or 0) - 1
        if began_ns and index >= 0:
            _join(mine[index], rows, reached)
    return reached


def _join(connection: _Connection, rows: list[Row], reached: dict[Key, int]) -> None:
    for row in rows:
        if connection.broken or row["order"] >= len(connection.given):
            continue
        event = connection.given[row["order"]]
        size, sent_at_ns = row["payload_bytes_uplink"], row["first_sent_at_ns"]
        unfinished = size < event.size and row is rows[-1]
        if not (size == event.size or unfinished) or not sent_at_ns or sent_at_ns < event.at_ns:
            connection.broken = True
            continue
        connection.counts, connection.on_wire = True, row["order"] + 1
        if row["reached_cloud_at_ns"] is not None and not unfinished:
            reached[event.key] = row["reached_cloud_at_ns"]
