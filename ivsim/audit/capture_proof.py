"""What the capture proves of messages in a mode without acknowledgements: which reached the cloud, which were held back.

The capture reads no sequences. A connection of TCP is one stream of bytes in each direction (RFC 9293, 3.8), and a client
puts its publishes into it one after another (MQTT 5, 4.6; AMQP 0-9-1, 4.7): the nth that begins in the stream is the nth
that the client was given and may send (MQTT 5, 3.2.2.3.6: none over the server's Maximum Packet Size). A stream that ends
has at most one unfinished message, its last. So what comes behind the last one that began was held back. A message of
another size, an unfinished one that is not the last, and one on the wire before it was given contradict the count, and
from there on nothing is known of the connection.

A stream can be without a publish, too: a client need not say more than its CONNECT (MQTT 5, 3.1), or than what opens its
connection and channel (AMQP 0-9-1, 2.2.4 and 2.2.5). Then all that the client was given was held back. Nobody may say so of
bytes that nobody understands: of what TLS protects only the length shows (RFC 8446, 5.2), and a stream without its beginning
or its end has bytes that are no whole unit of the protocol. Nor where it is not known whose a stream was: TCP delivers what it
took before its user closed (RFC 9293, 3.6), so a publish may leave when the client's next connection is up already.
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
_HEADERS: Final = {"transport", "ip", "link"}
_OBSCURE: Final = {"handshake", "secured", "opaque", "other"}


@dataclass
class _Connection:
    at_ns: int
    given: list[Event] = field(default_factory=list)
    streams: int = 0  # of the capture, with a publish
    on_wire: int = 0
    counts: bool = False  # it is known how many of its messages began on the wire
    broken: bool = False


def proven(
    emissions: Iterable[Row],
    events: Iterable[Event],
    wire_messages: Iterable[Row],
    wire_categories: Iterable[Row],
) -> list[Row]:
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
    reached, astray = _reached(vehicles, wire_messages)
    for vehicle in _understood(wire_categories) - astray:
        mine = vehicles.get(vehicle, [])
        if all(connection.streams <= 1 and not connection.broken for connection in mine):
            for connection in mine:
                connection.counts |= connection.streams == 0
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


def _understood(wire_categories: Iterable[Row]) -> set[str]:
    """Return the vehicles that have opened a connection, and of whose bytes behind the headers each was understood."""
    spent: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in wire_categories:
        if row["direction"] == "uplink" and row["layer"] not in _HEADERS:
            spent[row["vehicle_id"]].add((row["purpose"], row["layer"]))
    return {
        vehicle
        for vehicle, cells in spent.items()
        if ("connection", "protocol") in cells and not any(purpose in _OBSCURE for purpose, _ in cells)
    }


def _reached(
    vehicles: dict[str, list[_Connection]], wire_messages: Iterable[Row]
) -> tuple[dict[Key, int], set[str]]:
    """Return when messages had reached the cloud, and the vehicles with a stream that may be of any connection."""
    captured: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in wire_messages:
        captured[row["vehicle_id"], row["connection"]].append(row)
    reached: dict[Key, int] = {}
    astray: set[str] = set()
    for (vehicle, _), rows in sorted(captured.items()):
        rows.sort(key=lambda row: int(row["order"]))
        began_ns = rows[0]["first_sent_at_ns"]
        mine = vehicles.get(vehicle, [])
        index = bisect_right([connection.at_ns for connection in mine], began_ns or 0) - 1
        if began_ns and index >= 0:
            mine[index].streams += 1
            _join(mine[index], rows, reached)
        else:
            astray.add(vehicle)
    return reached, astray


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
