"""A vehicle against a server of somebody else's, which takes blocks in ways of its own (RFC 7959)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest
from aiocoap import Message
from aiocoap.numbers.codes import CHANGED, CONTINUE, REQUEST_ENTITY_TOO_LARGE
from aiocoap.numbers.types import ACK, CON, NON, RST

from gateways.protocols.coap.datagram import Remote, decoded

PAYLOAD = bytes(range(256)) * 12  # three blocks of 1,024


class Server:
    """Answers each request as `answer` says: a code, and the Block1 option's value or None.

    Attributes:
        parts: (Block1 option's value or None, payload) of every request.
        options: bytes of further options, behind those of each answer.
        separate: whether a CON is answered in a CON of its own, with the Message ID 7.
        kinds: (type, Message ID) of what came and is no request.
    """

    def __init__(self) -> None:
        self.answer: Callable[[tuple[int, bool, int] | None], tuple[int, tuple[int, bool, int] | None]]
        self.parts: list[tuple[tuple[int, bool, int] | None, bytes]] = []
        self.kinds: list[tuple[int, int]] = []
        self.options = b""
        self.separate = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._socket, self._take)

    def _take(self) -> None:
        datagram, peer = self._socket.recvfrom(65_535)
        request = decoded(datagram, Remote(peer))
        assert request is not None
        if not 0 < int(request.code) < 32:
            self.kinds.append((request.mtype, request.mid))
            return
        block = None if request.opt.block1 is None else tuple(request.opt.block1)
        self.parts.append((block, request.payload))
        code, block1 = self.answer(block)
        said = Message(
            code=code, _mtype=ACK if request.mtype is CON else NON, _mid=request.mid, _token=request.token
        )
        if block1 is not None:
            said.opt.block1 = block1
        if self.separate:
            said.mtype, said.mid = CON, 7
        self._socket.sendto(said.encode() + self.options, peer)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()


@pytest.fixture
async def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_a_server_that_takes_each_block_by_itself_gets_them_all(
    coap, server: Server, mode: str
) -> None:
    """2.3: 2.04 with M = 0 to a block that is not the last says that this block is taken, and no more."""
    server.answer = lambda block: (CHANGED, (block[0], False, block[2]))
    client, events = await coap.vehicle(server.port, mode=mode)
    client.send(1, PAYLOAD)
    await events.until(lambda: events.acked == [1])
    assert b"".join(part for _, part in server.parts) == PAYLOAD
    assert [block for block, _ in server.parts] == [(0, True, 6), (1, True, 6), (2, False, 6)]


async def test_a_success_without_block1_to_a_part_is_none_of_the_whole(coap, server: Server) -> None:
    server.answer = lambda _block: (CHANGED, None)
    client, events = await coap.vehicle(server.port)
    client.send(1, PAYLOAD)
    await events.until(lambda: events.gone)
    assert events.gone == [(1, "2.04 Changed to a part of the message, without Block1")]
    assert (events.acked, len(server.parts)) == ([], 1)


@pytest.mark.parametrize("whole", [False, True], ids=["in blocks", "in one datagram"])
async def test_blocks_become_as_small_as_a_4_13_asks(coap, server: Server, whole: bool) -> None:
    """2.9.3, and the next message begins with that size."""

    def answer(block: tuple[int, bool, int] | None) -> tuple[int, tuple[int, bool, int]]:
        if block is None or block[2] > 4:
            return REQUEST_ENTITY_TOO_LARGE, (0, False, 4)
        return (CONTINUE if block[1] else CHANGED), block

    server.answer = answer
    client, events = await coap.vehicle(server.port, **({"coap_block_bytes": None} if whole else {}))
    payload = PAYLOAD[:700] if whole else PAYLOAD
    client.send(1, payload)
    await events.until(lambda: events.acked == [1])
    assert b"".join(part for _, part in server.parts[1:]) == payload
    assert server.parts[0][0] == (None if whole else (0, True, 6))
    refused = len(server.parts)
    client.send(2, payload)
    await events.until(lambda: events.acked == [1, 2])
    assert server.parts[refused][0] == (0, True, 4)


@pytest.mark.parametrize("offered", [None, (0, False, 6), (0, False, 7)])
async def test_a_4_13_that_offers_nothing_smaller_refuses_the_message(coap, server: Server, offered) -> None:
    server.answer = lambda _block: (REQUEST_ENTITY_TOO_LARGE, offered)
    client, events = await coap.vehicle(server.port)
    client.send(1, PAYLOAD)
    await events.until(lambda: events.gone)
    assert events.gone[0][1].startswith("4.13")
    assert len(server.parts) == 1


CRITICAL = b"\xe1" + (65_001 - 269).to_bytes(2, "big") + b"x"
ELECTIVE = b"\xe1" + (65_002 - 269).to_bytes(2, "big") + b"x"


@pytest.mark.parametrize(("mode", "separate"), [("con", False), ("con", True), ("non", False)])
async def test_a_response_with_an_unknown_critical_option_acknowledges_nothing(
    coap, server: Server, quick, mode: str, separate: bool
) -> None:
    """5.4.1: it is rejected, by a Reset, and in an ACK by ignoring it (4.2); one without it is taken later."""
    server.answer = lambda _block: (CHANGED, None)
    server.options, server.separate = CRITICAL, separate
    client, events = await coap.vehicle(server.port, mode=mode)
    client.send(1, b"hello")
    if mode == "con" and not separate:
        async with asyncio.timeout(20):  # retransmitted, as if nothing had come
            while len(server.parts) < 3:
                await asyncio.sleep(0.01)  # the server's lists tell nobody that they have grown
        assert server.kinds == []
    else:
        async with asyncio.timeout(20):
            while not server.kinds:
                await asyncio.sleep(0.01)  # likewise
        assert server.kinds[0][0] is RST
        assert server.kinds[0][1] == 7 or mode == "non"
    assert (events.acked, events.gone) == ([], [])
    server.options, server.separate = ELECTIVE, False
    if mode == "non":
        await events.until(client.ready)
        client.send(2, b"next")
        await events.until(lambda: events.acked == [2])
    else:
        await events.until(lambda: events.acked == [1])
