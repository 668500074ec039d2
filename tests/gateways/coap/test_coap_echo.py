"""CoAP's echo: an observable resource per vehicle, its observer, and what Observe does not promise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest
from aiocoap import Message
from aiocoap.numbers.codes import CHANGED, CONTENT, GET, POST
from aiocoap.numbers.types import NON

from gateways.__main__ import main
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.coap import echo as echo_module
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.echo import CoapEcho
from gateways.protocols.ends import ConnectError


@pytest.fixture
async def echo(coap):
    async with contextlib.AsyncExitStack() as stack:

        async def start(mode, number=1):
            server = await serve(mode)
            return server, await observer(server, mode, number)

        async def serve(mode, port=0):
            server = CoapEcho(Endpoint("127.0.0.1", port), con=mode == "con")
            await server.open()
            stack.push_async_callback(server.close)
            return server

        async def observer(server, mode, number=1):
            """Return an observer, what it is told, and the wire between it and the server."""
            _, events = await coap.vehicle(server.endpoint()[1], mode=mode)
            wire = coap.wire(server)
            subscriber = coap.protocol.subscriber(
                Endpoint("127.0.0.1", wire.port), number, coap.protocol.modes[mode], events, VehicleSettings()
            )
            await subscriber.open()
            stack.push_async_callback(subscriber.close)
            return subscriber, events, wire

        start.observer, start.serve = observer, serve
        yield start


@pytest.mark.parametrize("mode", ["con", "non"])
@pytest.mark.parametrize("size", [1, 1024, 1025, 1157, 12_187])
async def test_a_post_comes_back_to_its_observer(coap, echo, mode, size):
    server, (_, mine, _) = await echo(mode)
    _, other, _ = await echo.observer(server, mode, number=2)
    client, events = await coap.vehicle(server.endpoint()[1], mode=mode)
    for token in range(3):
        payload = bytes([token]) + os.urandom(size - 1)  # the next one is another
        client.send(token, payload)
        await mine.until(lambda p=payload: mine.echoes and mine.echoes[-1] == (p, False))
        await events.until(lambda t=token: t in events.acked)
    assert len(mine.echoes) == 3
    assert other.echoes == []


@pytest.mark.parametrize(("block_bytes", "datagrams"), [(64, 19), (1024, 2), (None, 1)])
async def test_a_state_goes_back_in_blocks_of_the_size_in_which_it_came(coap, echo, block_bytes, datagrams):
    server, (_, mine, wire) = await echo("con")
    wire.down.clear()
    client, _ = await coap.vehicle(server.endpoint()[1], coap_block_bytes=block_bytes)
    payload = os.urandom(1157)
    client.send(1, payload)
    await mine.until(lambda: mine.echoes == [(payload, False)])
    assert len([one for one in wire.down if one[1] == 0x45]) == datagrams, "2.05 Content"


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_what_a_process_that_is_gone_observed_is_not_sent_beside_the_new_one(coap, echo, mode):
    """Its farewell was lost: each message of the vehicle came back twice, and took twice the link."""
    server, (gone, _, wire) = await echo(mode)
    wire.lets_up = lambda datagram: False
    await gone.close()
    _, mine, _ = await echo.observer(server, mode)
    _, other, _ = await echo.observer(server, mode, number=2)
    assert server.observers() == 2
    client, _ = await coap.vehicle(server.endpoint()[1], mode=mode)
    client.send(1, b"once")
    await mine.until(lambda: mine.echoes == [(b"once", False)])
    assert other.echoes == []
    counters = server.counters()
    assert (counters["notifications"], counters["observers_replaced"]) == (1, 1)


async def test_a_retransmitted_notification_is_a_duplicate(coap, echo, quick):
    server, (_, mine, wire) = await echo("con")
    wire.up.clear()
    wire.lets_up = lambda datagram: len(wire.up) > 1
    client, _ = await coap.vehicle(server.endpoint()[1])
    client.send(1, b"twice on the wire")
    await mine.until(lambda: len(mine.echoes) == 2)
    assert mine.echoes == [(b"twice on the wire", False), (b"twice on the wire", True)]


async def test_a_newer_state_supersedes_a_notification_still_being_retransmitted(coap, echo, faster):
    # Four of the quick ones are over in 0.3 s: the three posts may take longer than that.
    faster(max_retransmit=20)
    server, (_, mine, wire) = await echo("con")
    client, events = await coap.vehicle(server.endpoint()[1])
    wire.lets_down = lambda datagram: False
    for token, payload in enumerate((b"first", b"second", b"third")):
        client.send(token, payload)
        await events.until(lambda t=token: t in events.acked)
    wire.lets_down = lambda datagram: True
    await mine.until(lambda: bool(mine.echoes))
    assert mine.echoes[0][0] == b"third"
    counters = server.counters()
    assert counters["superseded"] == 2


class Stranger:
    """Posts to whatever path it likes and reads the answers."""

    def __init__(self, server):
        self._server, self._mid = server, 0
        self.answers = []
        server._udp.layer.transmit = lambda datagram, remote: self.answers.append(decoded(datagram, remote))

    def ask(self, identity, payload=b"", *, code=POST, port=40_000, **options):
        """Return the answer to one request."""
        self._mid += 1
        request = Message(code=code, payload=payload, _mtype=NON, _mid=self._mid, _token=b"t")
        request.opt.uri_path = coap_path(identity)
        for name, value in options.items():
            setattr(request.opt, name, value)
        self.answers.clear()
        self._server._udp.receive(request.encode(), Remote(("127.0.0.1", port)))
        return self.answers[0]

    def state(self, identity):
        """Return the state of a path, empty where it was forgotten."""
        return self.ask(identity, code=GET).payload


@pytest.mark.parametrize("count", [9, 10, 11, 1_000])
async def test_the_oldest_states_are_forgotten_beyond_the_limit(echo, monkeypatch, count):
    monkeypatch.setattr(echo_module, "MAX_STATES", 10)
    server = await echo.serve("non")
    stranger = Stranger(server)
    for number in range(count):
        assert stranger.ask(f"v{number}", b"%d" % number).code == CHANGED
        assert len(server._states) <= 10
    kept = min(count, 10)
    assert server.counters()["states_forgotten"] == count - kept
    assert stranger.state(f"v{count - kept}") == b"%d" % (count - kept)
    assert stranger.state(f"v{count - kept - 1}") == b""


@pytest.mark.parametrize("size", [99, 100, 101, 10_000])
async def test_states_are_bounded_in_bytes(echo, monkeypatch, size):
    monkeypatch.setattr(echo_module, "MAX_STATE_BYTES", 10_000 + 100)
    server = await echo.serve("non")
    stranger = Stranger(server)
    stranger.ask("old", b"older" * 20)
    stranger.ask("old", bytes(100))  # in place of the older one, which counts no more
    stranger.ask("large", bytes(9_900))
    assert len(stranger.state("old")) == 100
    stranger.ask("new", bytes(size))
    assert len(stranger.state("new")) == size
    assert len(stranger.state("old")) == (100 if size <= 100 else 0)
    assert len(stranger.state("large")) == (9_900 if size <= 200 else 0)


async def test_who_asks_only_makes_no_state_and_is_not_listed(echo):
    server = await echo.serve("non")
    stranger = Stranger(server)
    for number in range(100):
        assert stranger.state(f"v{number}") == b""
    assert (server._states, server._resources) == ({}, {})


async def test_an_observer_of_a_state_that_was_forgotten_is_told_the_next_one_as_newer(echo, monkeypatch):
    monkeypatch.setattr(echo_module, "MAX_STATES", 1)
    server = await echo.serve("non")
    stranger = Stranger(server)
    stranger.ask("seen", b"first")
    told = [stranger.ask("seen", code=GET, observe=0, port=40_001)]
    stranger.ask("other", b"x")
    told.append(stranger.ask("seen", code=GET, observe=0, port=40_001))
    stranger.ask("seen", b"second")
    told += [answer for answer in stranger.answers if answer.code == CONTENT]
    assert [answer.payload for answer in told] == [b"first", b"", b"second"]
    numbers = [answer.opt.observe for answer in told]
    assert numbers == sorted(set(numbers))


async def test_a_state_that_is_forgotten_is_not_sent_again_to_who_waits_for_it(echo, monkeypatch):
    monkeypatch.setattr(echo_module, "MAX_STATES", 1)
    server = await echo.serve("con")
    stranger = Stranger(server)
    stranger.ask("seen", code=GET, observe=0, port=40_001)
    stranger.ask("seen", b"first")
    (open_one,) = [answer for answer in stranger.answers if answer.code == CONTENT]
    stranger.ask("seen", b"second")  # waits: the first is not acknowledged
    stranger.ask("other", b"x")
    stranger.answers.clear()
    acknowledgement = b"\x60\x00" + open_one.mid.to_bytes(2, "big")
    server._udp.receive(acknowledgement, Remote(("127.0.0.1", 40_001)))
    assert stranger.answers == []
    assert server.counters()["superseded"] == 1


@pytest.mark.parametrize("count", [9, 10, 11, 1_000])
async def test_observers_are_bounded_and_leave_nothing_behind(echo, monkeypatch, count):
    monkeypatch.setattr(echo_module, "MAX_OBSERVERS", 10)
    server = await echo.serve("non")
    stranger = Stranger(server)
    answers = [stranger.ask(f"v{n}", code=GET, observe=0, port=40_000 + n) for n in range(count)]
    assert [a.opt.observe is not None for a in answers] == [n < 10 for n in range(count)]
    assert {a.code for a in answers} == {CONTENT}
    assert server.observers() == min(count, 10)
    for number in range(count):
        stranger.ask(f"v{number}", code=GET, observe=1, port=40_000 + number)
    assert (server.observers(), server._observers, server._of_vehicle) == (0, {}, {})


async def test_an_observer_that_has_gone_is_forgotten(coap, echo, quick):
    server, (subscriber, _, _) = await echo("con")
    assert server.observers() == 1
    await subscriber.close()
    client, events = await coap.vehicle(server.endpoint()[1])
    client.send(1, b"x")
    await events.until(lambda: events.acked == [1])
    async with asyncio.timeout(10):
        while server.observers():
            await asyncio.sleep(0.005)


async def test_an_observer_whose_host_fell_silent_is_forgotten_after_the_retransmissions(coap, echo, quick):
    server, (_, _, wire) = await echo("con")
    wire.lets_up = wire.lets_down = lambda datagram: False
    client, events = await coap.vehicle(server.endpoint()[1])
    client.send(1, b"x")
    await events.until(lambda: events.acked == [1])
    async with asyncio.timeout(10):
        while server.observers():
            await asyncio.sleep(0.005)
    assert server.counters()["observers_gone"] == 1


async def test_an_observation_is_renewed_after_silence(coap, echo, monkeypatch):
    monkeypatch.setattr("gateways.protocols.coap.subscriber.MAX_AGE_DEFAULT_S", 0)
    monkeypatch.setattr("gateways.protocols.coap.subscriber.random.uniform", lambda a, b: 0.05)
    server, (_, mine, _) = await echo("con")
    await server.close()
    server = await echo.serve("con", server.endpoint()[1])
    assert server.observers() == 0
    async with asyncio.timeout(10):
        while not server.observers():
            await asyncio.sleep(0.005)
    client, _ = await coap.vehicle(server.endpoint()[1])
    client.send(1, b"after all")
    await mine.until(lambda: (b"after all", False) in mine.echoes)


async def test_nobody_to_observe_is_a_connect_error(coap):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        subscriber = coap.protocol.subscriber(
            Endpoint("127.0.0.1", silent.getsockname()[1]),
            1,
            coap.protocol.modes["con"],
            None,
            VehicleSettings(connect_timeout_s=0.05),
        )
        with pytest.raises(ConnectError, match="no answer"):
            await subscriber.open()
    intake, _ = await coap.gateway()
    subscriber = coap.protocol.subscriber(
        Endpoint(*intake.endpoint()), 1, coap.protocol.modes["con"], None, VehicleSettings()
    )
    with pytest.raises(ConnectError, match=r"4\.05"):
        await subscriber.open()


def test_the_process_announces_its_port_and_ends_with_its_owner(tmp_path):
    config = tmp_path / "echo.json"
    config.write_text(json.dumps({"host": "127.0.0.1", "port": 0}))
    argv = [sys.executable, "-m", "gateways", "coap-echo", "--config", str(config)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        assert ready["port"] > 0
        process.stdin.close()
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert last["event"] == "done"
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"host": "h"}', "port: Field required"), ("nonsense", "no JSON"), ("[]", "Input"),
     ('{"host": "h", "port": 0, "mode": "qos1"}', "allowed with coap-echo con, non"),
     ('{"host": "h", "port": 0, "colour": 1}', "colour")],
)  # fmt: skip
def test_a_wrong_configuration_is_refused(tmp_path, capsys, text, reason):
    config = tmp_path / "echo.json"
    config.write_text(text)
    assert main(["coap-echo", "--config", str(config)]) == 2
    assert reason in json.loads(capsys.readouterr().out)["message"]
