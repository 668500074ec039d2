"""The table of limits says what the code has."""

from __future__ import annotations

import re

import pytest

from gateways.bridge import TRACKS_MAX
from gateways.protocols.amqp.reader import MAX_BODY_BYTES, MAX_FRAME_BYTES
from gateways.protocols.coap import blocks, dtls_server, echo, message_ids, message_layer
from gateways.protocols.mqtt import intake, members
from gateways.protocols.mqtt.packets import MOST_WORDS
from gateways.protocols.mqtt.session import MAXIMUM_PACKET_BYTES, RETAINED_MAX
from ivsim.agents import connection as agents_connection
from ivsim.agents import messages, service
from ivsim.runs import served
from ivsim.runs.memory import MEASURED, SURE_RATIO
from ivsim.study.engines.pipe.schema_registry import MOST_BYTES
from ivsim.testbed import relay, udp_relay
from ivsim.testbed.paths import ROOT
from schemas import control, outlet, page_server
from twin.config import TwinConfig
from twin.service import connection, ditto, rql
from twin.service.config import ServiceConfig

TEXT = (ROOT / "docs" / "limits.md").read_text()
STRANGERS, _, MEMORY = TEXT.partition("## Memory of a run")
ROWS = [row for row in STRANGERS.splitlines() if row.startswith("| ") and "limit |" not in row]
LIMITS = {
    "a packet of {} bytes": MAXIMUM_PACKET_BYTES,
    "{} connections in a row": intake.RIVALRY,
    "{} topics whose retained": RETAINED_MAX,
    "{} vehicles whose messages": TRACKS_MAX,
    "{} answers a second": members.ANSWERS_PER_S,
    "{} characters of a server's own words": MOST_WORDS,
    "a frame of {} bytes": MAX_FRAME_BYTES,
    "a body of {} bytes": MAX_BODY_BYTES,
    "a payload of {} bytes, in blocks": blocks.MAX_PAYLOAD_BYTES,
    "{} bytes in payloads that are not whole": blocks.MAX_HELD_BYTES,
    "{} DTLS handshakes": dtls_server.PENDING_MAX,
    "{} payloads that are not whole": blocks.MAX_ASSEMBLIES,
    "{} Message IDs of CON": message_ids.MAX_MESSAGE_IDS,
    "{} peers whose": message_ids.MAX_PEERS,
    "{} responses and notifications": message_layer.MAX_EXCHANGES,
    "{} states, and 268": echo.MAX_STATES,
    "states, and {} bytes": echo.MAX_STATE_BYTES,
    "{} observers": echo.MAX_OBSERVERS,
    "a request's header of {} bytes": page_server.MAX_HEADER_BYTES,
    "{} connections at a time | 503": page_server.MAX_CONNECTIONS,
    "{} s from the first byte": page_server.ANSWER_S,
    "{} connections, with one request each": connection.MAX_CONNECTIONS,
    "{} s for a request's head": connection.HEAD_S,
    "{} s without a request behind an answer": connection.KEEP_ALIVE_S,
    "{} `ids`": ditto.MAX_IDS,
    "a filter of {} characters": rql.MAX_LENGTH,
    "nested {} deep": rql.MAX_DEPTH,
    "`max_streams` streams ({})": ServiceConfig.model_fields["max_streams"].default,
    "{} connections at a time | closed": service.MAX_CONNECTIONS,
    "{} s and 4,096 bytes for a login": service.LOGIN_S,
    "10 s and {} bytes for a login": messages.MAX_LOGIN_BYTES,
    "{} s for a message of 4,096 bytes": agents_connection.ANSWER_S,
    "a message of {} bytes": messages.MAX_LINE_BYTES,
    "{} s and 1,048,576 bytes for a request": served.REQUEST_S,
    "5 s and {} bytes for a request": served.MAX_REQUEST_BYTES,
    "the last word waits {} s": served.PATIENCE_S,
    "{} connections, of CoAP addresses": relay.MAX_CONNECTIONS,
    "a schema of {} bytes": MOST_BYTES,
    "a command of {} bytes": control.MAX_COMMAND_BYTES,
    "any other event waits {} s": outlet.PATIENCE_S,
}


@pytest.mark.parametrize("words", LIMITS)
def test_a_limit_is_the_codes(words: str) -> None:
    said = words.format(f"{LIMITS[words]:,.0f}")
    assert [row for row in ROWS if said in row], said


def test_every_row_is_held_to_the_code() -> None:
    plain = [words.format(f"{value:,.0f}") for words, value in LIMITS.items()]
    named = re.compile(r"`receive_max`|whoever does not read")
    assert [row for row in ROWS if not named.search(row) and not any(said in row for said in plain)] == []


def test_both_relays_have_room_for_as_many() -> None:
    assert relay.MAX_CONNECTIONS == udp_relay.MAX_PEERS


def test_what_the_twin_takes_is_the_twins() -> None:
    assert f"{TwinConfig.model_fields['max_payload_bytes'].default:,} bytes" in TEXT


def test_what_a_run_is_taken_to_need_is_less_than_what_was_measured() -> None:
    """Each part of each size, and by no more than 200 MB."""
    head, _, *rows = [
        [cell.strip() for cell in row.strip("| ").split("|")]
        for row in MEMORY.splitlines()
        if row.startswith("|")
    ]
    seen = set()
    for protocol, vehicles, _, *cells in rows:
        for part, cell in zip(head[3:], cells, strict=True):
            if cell == "-":
                continue
            name = f"{part} {protocol}" if part in {"sender", "gateway"} else part
            seen.add(name)
            one = MEASURED[name]
            line_mb = one.at_rest_mb + int(vehicles.replace(",", "")) * one.vehicle_kb / 1_000
            assert SURE_RATIO * line_mb < float(cell) < SURE_RATIO * line_mb + 200, (name, vehicles)
            assert line_mb < 1.05 * float(cell), (name, vehicles)
    assert seen == set(MEASURED)
