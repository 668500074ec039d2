"""`ivsim agent` itself: whom it takes, the senders it runs for a coordinator, and that nothing of them stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_agent import TOKEN, VERSION
from fake_mqtt_broker import PUBLISH, FakeBroker

from ivsim.agents.address import Address
from ivsim.agents.connection import AgentConnection
from ivsim.agents.hosted import HostedSender, sender_config
from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.agents.messages import Ended, Message, Refused, StartSender, message_of
from ivsim.agents.rig import Agents
from ivsim.agents.service import MAX_CONNECTIONS, Agent
from ivsim.testbed.paths import state_dir
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from simulator.emission_table import to_table
from simulator.fleet import emissions
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig
from tests.gateways.amqp.conftest import Wire

READY_S = 60.0
FLEET = Scenario(vehicles=5, interval_s=0.5, duration_s=2.0, seed=11)
ANY = Address("127.0.0.1", 0)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, session_record: RunRecord) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setattr("ivsim.agents.rig.version_line", lambda: VERSION)


@contextlib.asynccontextmanager
async def agent() -> AsyncIterator[Agent]:
    async with Agent(ANY, TOKEN, VERSION) as made:
        yield made


def connect(address: Address, token: str = TOKEN, version: str = VERSION) -> AgentConnection:
    return AgentConnection(address, token, version)


async def refusal(address: Address, **given: str) -> str:
    with pytest.raises(Refusal) as refused:
        await asyncio.to_thread(connect, address, **given)
    return str(refused.value).removeprefix(f"--agent {address}: ")


async def test_who_does_not_know_the_token_or_runs_other_code_is_refused_and_the_next_is_taken() -> None:
    async with agent() as made:
        words = "refused: it does not know the token of this agent"
        assert await refusal(made.address, token="a wrong token, long enough") == words
        # Its own check comes first; one that does not look is refused by the agent.
        assert (
            await refusal(made.address, version="ivsim 1")
            == f"it is {VERSION}, and this is ivsim 1: both must be the same"
        )
        assert await _raw_login(
            made.address,
            b'{"type":"login","protocol":1,"version":"ivsim 1","nonce":"%s","proof":"%s"}\n'
            % (b"0" * 64, b"0" * 64),
        ) == (f"it is ivsim 1, and this is {VERSION}: both must be the same")
        assert (
            await _raw_login(made.address, b"GET / HTTP/1.1\r\n")
            == "Invalid JSON: expected value at line 1 column 1"
        )
        assert await _raw_login(made.address, b'{"type":"bye"}\n') == "bye: no login"
        assert await _raw_login(made.address, b"x" * 5_000 + b"\n") == "no login"
        reader, writer = await asyncio.open_connection(*made.address)
        with contextlib.suppress(ConnectionError):  # what it did not read may reset the connection
            writer.write(b"x" * 5_000_000)
            while await reader.read(4_096):
                pass
        writer.close()
        connection = await asyncio.to_thread(connect, made.address)
        assert await refusal(made.address) == f"refused: it is busy with the run of {_name(made.address)}"
        for _ in range(3):
            # One that has taken its leave has left nothing that the next would have to wait for.
            await asyncio.to_thread(connection.close)
            connection = await asyncio.to_thread(connect, made.address)
        await asyncio.to_thread(connection.close)


def _name(address: Address) -> str:
    """Return where the one connection to an agent comes from."""
    (one,) = (each for each in psutil.Process().net_connections("tcp") if each.raddr == address)
    return "{}:{}".format(*one.laddr)


async def _taken(address: Address) -> None:
    """Connect, and take leave of the agent, whose loop is this one."""
    connection = await asyncio.to_thread(connect, address)
    await asyncio.to_thread(connection.close)


async def _until_free(address: Address) -> AgentConnection:
    """Connect as soon as the agent has taken leave of the last one."""
    for _ in range(200):
        with contextlib.suppress(Refusal):
            return await asyncio.to_thread(connect, address)
        await asyncio.sleep(0.05)
    raise AssertionError("the agent stays busy")


async def _raw_login(address: Address, line: bytes) -> str:
    """Return why an agent refuses one that answers its hello with this line."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        await reader.readline()
        writer.write(line)
        answer = message_of(await reader.readline())
        assert isinstance(answer, Refused)
        assert await reader.read() == b""
        return answer.reason
    finally:
        writer.close()


@pytest.mark.parametrize("idle", [MAX_CONNECTIONS - 1, MAX_CONNECTIONS, 100 * MAX_CONNECTIONS])
async def test_connections_that_say_nothing_have_a_bound(idle: int) -> None:
    async with agent() as made, contextlib.AsyncExitStack() as stack:
        for _ in range(min(idle, 500)):
            _, writer = await asyncio.open_connection(made.address.host, made.address.port)
            stack.callback(writer.close)
        if idle < MAX_CONNECTIONS:
            await _taken(made.address)
        else:
            assert await refusal(made.address)
    async with agent() as made:
        await _taken(made.address)


async def test_a_standard_error_that_nobody_reads_makes_no_agent_deaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w") as unread:
        fcntl.fcntl(unread, fcntl.F_SETPIPE_SZ, 4_096)
        monkeypatch.setattr(sys, "stderr", unread)
        async with agent() as made:
            for _ in range(100):
                assert await _raw_login(made.address, b'{"type":"bye"}\n') == "bye: no login"
            await _taken(made.address)


async def test_a_port_that_is_taken_is_refused() -> None:
    async with agent() as made:
        with pytest.raises(Refusal, match=f"--listen {made.address}: "):
            async with Agent(made.address, TOKEN, VERSION):
                pass


def config_of(vehicles: list[int], broker: FakeBroker, log: Path, **more: Any) -> SenderConfig:
    return SenderConfig(
        scenario=FLEET,
        protocol="mqtt",
        mode="qos1",
        host=broker.host,
        port=broker.port,
        events_path=str(log),
        vehicles=vehicles,
        drain_s=5.0,
        **more,
    )


async def test_the_senders_of_two_agents_together_send_the_fleet_byte_for_byte(tmp_path: Path) -> None:
    shares = [[1, 3, 5], [2, 4]]
    async with FakeBroker() as broker, agent() as one, agent() as other:
        agents = Agents([str(one.address), str(other.address)], None)
        await asyncio.to_thread(agents.__enter__)
        try:
            logs = [tmp_path / f"emissions-{index}.events" for index in range(2)]
            senders = [
                agents.start(
                    index,
                    f"sender-{index}",
                    index,
                    config_of(own, broker, logs[index]),
                    tmp_path / f"{index}.raw",
                )
                for index, own in enumerate(shares)
            ]
            for sender in senders:
                await asyncio.to_thread(sender.wait_for, "ready", READY_S)
            await asyncio.to_thread(agents.compare)
            start_at_ns = time.time_ns() + 500_000_000
            for sender in senders:
                sender.send("start", at_ns=start_at_ns)
            for sender in senders:
                assert (await asyncio.to_thread(sender.wait_for, "done", READY_S))["emitted"] == 4 * len(
                    sender_vehicles(sender.number, shares)
                )
            assert [await asyncio.to_thread(sender.stop) for sender in senders] == [0, 0]
            await asyncio.to_thread(agents.settle, FLEET)
            facts = agents.facts()
        finally:
            await asyncio.to_thread(agents.__exit__, None, None, None)
        sent = Counter(
            body
            for connection in broker.connections
            for kind, _, body in connection.received
            if kind == PUBLISH
        )
    whole = [one.payload for one in emissions(FLEET, start_at_ns)]
    assert len(sent) == len(whole) == 20
    assert all(sum(body.endswith(payload) for body in sent) == 1 for payload in whole)
    rows = to_table(logs, FLEET, start_at_ns).to_pylist()
    assert all(row["due_at_ns"] - 10**6 <= row["emitted_at_ns"] <= row["acknowledged_at_ns"] for row in rows)
    assert [one["senders"] for one in facts] == [["sender-0"], ["sender-1"]]
    # Both clocks are one: what is found is its error, which its bound has to hold.
    assert all(abs(one["clock_ahead_before_ms"]) <= one["clock_uncertainty_ms"] for one in facts)


def sender_vehicles(number: int, shares: list[list[int]]) -> list[int]:
    return shares[number]


async def test_a_coordinator_that_goes_without_a_word_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    async with FakeBroker() as broker, agent() as made, contextlib.AsyncExitStack() as cable:
        notes = set(state_dir().iterdir())
        wire = await Wire().open(cable, made.address)
        agents = Agents([f"{wire.endpoint.host}:{wire.endpoint.port}"], None)
        await asyncio.to_thread(agents.__enter__)
        sender = agents.start(0, "sender", 0, config_of([1, 2], broker, tmp_path / "log"), tmp_path / "raw")
        await asyncio.to_thread(sender.wait_for, "ready", READY_S)
        (process,) = children()
        work = Path(process.cmdline()[-1]).parent
        assert work.is_dir()
        assert set(state_dir().iterdir()) > notes
        wire.cut()
        again = await _until_free(made.address)
        assert not process.is_running()
        assert not work.exists()
        assert not [pid for pid in children() if pid.pid != process.pid]
        await asyncio.to_thread(again.close)
        await asyncio.to_thread(agents.__exit__, None, None, None)
    assert set(state_dir().iterdir()) == notes


async def test_an_agent_that_is_stopped_takes_its_senders_along(tmp_path: Path) -> None:
    async with FakeBroker() as broker:
        async with agent() as made:
            agents = Agents([str(made.address)], None)
            await asyncio.to_thread(agents.__enter__)
            sender = agents.start(0, "sender", 0, config_of([1], broker, tmp_path / "log"), tmp_path / "raw")
            await asyncio.to_thread(sender.wait_for, "ready", READY_S)
            (process,) = children()
        assert not process.is_running()
        await asyncio.to_thread(sender.stop, READY_S)
        assert sender.gone()
        await asyncio.to_thread(agents.__exit__, None, None, None)


async def test_one_who_waits_for_a_senders_end_and_is_cancelled_leaves_no_process(
    tmp_path: Path, run_record: RunRecord
) -> None:
    """A coordinator that goes in the moment in which a sender ends cancels who follows it."""
    async with FakeBroker() as broker:
        said: asyncio.Queue[Message] = asyncio.Queue()
        hosted = HostedSender(0, config_of([1], broker, tmp_path / "log"), run_record, said)
        (process,) = children()
        following = asyncio.ensure_future(hosted.stop())
        await asyncio.sleep(0)  # it has begun, and is at its first wait
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await hosted.stop()
        assert not process.is_running()


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "simulator.sender" in one.cmdline()]


async def test_a_sender_whose_broker_does_not_answer_says_so(tmp_path: Path) -> None:
    async with FakeBroker() as broker:
        pass
    async with agent() as made:
        agents = Agents([str(made.address)], None)
        await asyncio.to_thread(agents.__enter__)
        config = config_of([1], broker, tmp_path / "log", connect_wait_s=0.2)
        sender = agents.start(0, "sender", 0, config, tmp_path / "raw")
        with pytest.raises(Exception, match=r"1 of 1 vehicles are not connected to 127\.0\.0\.1"):
            await asyncio.to_thread(sender.wait_for, "ready", READY_S)
        await asyncio.to_thread(agents.__exit__, None, None, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"certificates": "/etc/keys"}, "certificates: names a file"),
        ({"tls": {"ca_file": "/etc/ca.pem"}}, "tls: names a file"),
        ({"bind_addresses": True}, "bind_addresses: vehicles of an agent have no addresses"),
        ({"scenario": {"vehicle_log": "/drive.csv"}}, "scenario.vehicle_log: names a file"),
        ({"scenario": {"format": "morse"}}, "scenario.format: Value error, 'morse': allowed are"),
        ({"port": 0}, "port: "),
        ({"anything": 1}, "anything: "),
    ],
)
async def test_a_configuration_that_an_agent_cannot_have_is_refused(
    tmp_path: Path, more: dict[str, Any], says: str
) -> None:
    asked = {"scenario": {}, "protocol": "mqtt", "mode": "qos1", "host": "h", "port": 1, **more}
    with pytest.raises(Refusal) as refused:
        sender_config(asked, tmp_path / "log")
    assert str(refused.value).startswith(f"start_sender: {says}")
    ended: asyncio.Queue[Message] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with agent() as made:

        def opened() -> AgentConnection:
            return AgentConnection(
                made.address,
                TOKEN,
                VERSION,
                lambda message: loop.call_soon_threadsafe(ended.put_nowait, message),
            )

        connection = await asyncio.to_thread(opened)
        connection.send(StartSender(sender=0, config=asked))
        async with asyncio.timeout(READY_S):
            message = await ended.get()
        assert isinstance(message, Ended)
        assert (message.exit_code, message.words) == (2, str(refused.value))
        await asyncio.to_thread(connection.close)


async def test_a_coordinator_of_which_nothing_is_heard_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivsim.agents.session.SILENCE_S", 0.3)
    monkeypatch.setattr("ivsim.agents.connection.HEARTBEAT_S", 1_000.0)
    async with agent() as made:
        connection = await asyncio.to_thread(connect, made.address)
        again = await _until_free(made.address)
        async with asyncio.timeout(READY_S):
            while not connection.lost:
                await asyncio.sleep(0.02)
        assert connection.lost == "it has closed the connection"
        for one in (connection, again):
            await asyncio.to_thread(one.close)


class _Slow(asyncio.Protocol):
    """One end of a way between two that holds up what it passes on."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self.delay_s, self._pass_on, data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None:
            self.other.close()

    def _pass_on(self, data: bytes) -> None:
        assert self.other is not None
        self.other.write(data)


@contextlib.asynccontextmanager
async def way(address: Address, there_s: float, back_s: float) -> AsyncIterator[Address]:
    """Yield an address from which everything goes to another, and comes back, as slowly as said."""
    loop = asyncio.get_running_loop()
    opened: list[asyncio.Task[None]] = []

    def taken() -> _Slow:
        near = _Slow(there_s)

        async def join() -> None:
            transport, far = await loop.create_connection(lambda: _Slow(back_s), *address)
            near.other, far.other = transport, near.transport  # type: ignore[assignment]

        opened.append(loop.create_task(join()))
        return near

    server = await loop.create_server(taken, "127.0.0.1", 0)
    yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    server.close()
    await asyncio.gather(*opened)


@pytest.mark.parametrize(("there_s", "back_s"), [(0.04, 0.0), (0.0, 0.04)])
async def test_ways_that_are_unequal_deceive_by_no_more_than_the_bound(there_s: float, back_s: float) -> None:
    """Both clocks are one: all that is found is the error."""
    async with agent() as made, way(made.address, there_s, back_s) as address:
        connection = await asyncio.to_thread(connect, address)
        found = await asyncio.to_thread(connection.compare)
        await asyncio.to_thread(connection.close)
    assert found is not None
    assert abs(found.ahead_ns) <= found.uncertainty_ns
    assert found.uncertainty_ns >= 20_000_000


async def test_a_process_that_cannot_be_started_is_the_senders_end_and_not_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeBroker() as broker, agent() as made:
        agents = Agents([str(made.address)], None)
        await asyncio.to_thread(agents.__enter__)
        monkeypatch.setattr("ivsim.testbed.process.command", lambda *_: [str(tmp_path / "no-program")])
        sender = agents.start(0, "sender", 0, config_of([1], broker, tmp_path / "log"), tmp_path / "raw")
        with pytest.raises(Exception, match=r"No such file or directory: '.*/no-program'"):
            await asyncio.to_thread(sender.wait_for, "ready", READY_S)
        await asyncio.to_thread(agents.__exit__, None, None, None)
