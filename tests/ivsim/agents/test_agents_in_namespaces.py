"""Agents as processes, each in a network of its own: reached, compared and heard over a wire, not over loopback."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from fake_mqtt_broker import PUBLISH, FakeBroker

from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.agents.rig import Agents
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord
from schemas.namespace import inside
from simulator.emission_table import to_table
from simulator.fleet import emissions
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig

pytestmark = pytest.mark.netns

FLEET = Scenario(vehicles=4, interval_s=0.5, duration_s=1.5, seed=3)
SHARES = [[1, 3], [2, 4]]
READY_S = 60.0
PORT = 7_070
# Addresses for examples (RFC 5737): the coordinator's end of each wire, and the agent's.
WIRES = [("198.51.100.1", "198.51.100.2"), ("198.51.100.5", "198.51.100.6")]


class Networks:
    """A namespace for the coordinator and one for each agent, each of these on a wire to the coordinator's."""

    def __init__(self, record: RunRecord, stack: ExitStack) -> None:
        self.hub = self._made(f"ivsim-{record.run_id}-h", record, stack)
        self.agents = []
        for number, (near, far) in enumerate(WIRES):
            name = self._made(f"ivsim-{record.run_id}-a{number}", record, stack)
            ip(
                "-n",
                self.hub,
                "link",
                "add",
                f"to-{number}",
                "type",
                "veth",
                "peer",
                "name",
                "hub",
                "netns",
                name,
            )
            for namespace, device, address in ((self.hub, f"to-{number}", near), (name, "hub", far)):
                ip("-n", namespace, "address", "add", f"{address}/30", "dev", device)
                ip("-n", namespace, "link", "set", device, "up")
            self.agents.append(name)

    @staticmethod
    def _made(name: str, record: RunRecord, stack: ExitStack) -> str:
        record.namespace(name)
        ip("netns", "add", name)
        stack.callback(ip, "netns", "delete", name)
        ip("-n", name, "link", "set", "lo", "up")
        return name


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def networks(run_record: RunRecord) -> Iterator[Networks]:
    with ExitStack() as stack:
        yield Networks(run_record, stack)


async def test_agents_in_networks_of_their_own_send_the_fleet_and_are_stopped_with_nothing_left(
    networks: Networks, run_record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, secrets.token_hex(24))
    with ExitStack() as stack:
        processes = []
        for number, name in enumerate(networks.agents):
            (scratch := tmp_path / f"scratch-{number}").mkdir()
            process = OwnedProcess(
                f"agent-{number}",
                [sys.executable, "-m", "ivsim.cli", "agent", "--listen", f"{WIRES[number][1]}:{PORT}"],
                run_record,
                namespace=name,
                environment={**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
            )
            stack.callback(process.stop)
            processes.append(process)
        for process in processes:
            process.wait_ready(lambda process=process: "agent at" in process.log_path.read_text(), READY_S)
        start_at_ns, sent, logs, facts = await _run(networks, tmp_path)
        for process in processes:
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait_end(READY_S)
            assert process.stop() == 0
        assert [list((tmp_path / f"scratch-{number}").iterdir()) for number in range(2)] == [[], []]
    whole = [one.payload for one in emissions(FLEET, start_at_ns)]
    assert len(sent) == len(whole) == 12
    assert all(sum(body.endswith(payload) for body in sent) == 1 for payload in whole)
    rows = to_table(logs, FLEET, start_at_ns).to_pylist()
    assert all(row["acknowledged_at_ns"] is not None for row in rows)
    for fact, (_, far) in zip(facts, WIRES, strict=True):
        assert fact["address"] == f"{far}:{PORT}"
        assert abs(fact["clock_ahead_before_ms"]) <= fact["clock_uncertainty_ms"]


async def _run(
    networks: Networks, directory: Path
) -> tuple[int, Counter[bytes], list[Path], list[dict[str, object]]]:
    """Run the fleet on both agents; return its start, what came to the broker, its logs, and what is known of the agents."""
    logs = [directory / f"emissions-{number}.events" for number in range(2)]
    agents = Agents([f"{far}:{PORT}" for _, far in WIRES], None)

    def opened() -> None:
        with inside(networks.hub):
            agents.__enter__()

    brokers = [FakeBroker(listens_at=near) for near, _ in WIRES]
    async with _in(networks.hub, brokers[0]), _in(networks.hub, brokers[1]):
        await asyncio.to_thread(opened)
        try:
            senders = [
                agents.start(
                    number,
                    f"sender-{number}",
                    number,
                    SenderConfig(
                        scenario=FLEET, protocol="mqtt", mode="qos1", host=brokers[number].host,
                        port=brokers[number].port, events_path=str(logs[number]), vehicles=SHARES[number],
                    ),
                    directory / f"{number}.raw",
                )
                for number in range(2)
            ]  # fmt: skip
            for sender in senders:
                await asyncio.to_thread(sender.wait_for, "ready", READY_S)
            await asyncio.to_thread(agents.compare)
            start_at_ns = time.time_ns() + 500_000_000
            for sender in senders:
                sender.send("start", at_ns=start_at_ns)
            for sender in senders:
                await asyncio.to_thread(sender.wait_for, "done", READY_S)
                assert await asyncio.to_thread(sender.stop) == 0
            await asyncio.to_thread(agents.settle, FLEET)
        finally:
            await asyncio.to_thread(agents.__exit__, None, None, None)
        sent = Counter(
            body
            for broker in brokers
            for connection in broker.connections
            for kind, _, body in connection.received
            if kind == PUBLISH
        )
    return start_at_ns, sent, logs, agents.facts()


@asynccontextmanager
async def _in(namespace: str, broker: FakeBroker) -> AsyncIterator[None]:
    """Open a broker of paper in a namespace; sockets stay where they were made."""
    with inside(namespace):
        await broker.__aenter__()
    try:
        yield
    finally:
        await broker.__aexit__()
