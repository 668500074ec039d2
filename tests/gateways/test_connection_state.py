"""The life of a connection on paper: whatever comes when, it is kept, and what nobody expected is heard of."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateways.protocols.backoff import Backoff
from gateways.protocols.connection_state import ConnectionState, KeptConnection, Phase
from gateways.protocols.ends import ConnectError

WAIT_S = 20.0


class AnyOrder(RuleBasedStateMachine):
    """Every call in every order; `accepted` and `lost` also with the number of an attempt long over."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ConnectionState()
        self.ended: set[int] = set()
        self.closed = False

    @rule()
    def dial(self) -> None:
        before = self.state.phase
        generation = self.state.generation
        if before is Phase.DOWN:
            assert self.state.dial() == generation + 1
            assert self.state.phase is Phase.DIALLING
        else:
            with pytest.raises(ValueError, match=before.value):
                self.state.dial()
            assert (self.state.phase, self.state.generation) == (before, generation)

    @rule(back=st.integers(0, 3))
    def accepted(self, back: int) -> None:
        generation = self.state.generation - back
        up = self.state.accepted(generation)
        assert up == (back == 0 and generation > 0 and generation not in self.ended and not self.closed)

    @rule(back=st.integers(0, 3))
    def lost(self, back: int) -> None:
        before, generation = self.state.phase, self.state.generation - back
        told = self.state.lost(generation)
        if back == 0 and before in {Phase.DIALLING, Phase.UP}:
            assert (told, self.state.phase) == (before, Phase.DOWN)
            self.ended.add(generation)
        else:
            assert told in {Phase.DOWN, Phase.CLOSED}
            assert self.state.phase is before

    @rule()
    def close(self) -> None:
        self.state.close()
        self.closed = True

    @invariant()
    def only_one_generation_is_current(self) -> None:
        current = {g for g in range(self.state.generation + 2) if self.state.current(g)}
        alive = self.state.phase in {Phase.DIALLING, Phase.UP}
        assert current == ({self.state.generation} if alive else set())
        assert not current & self.ended
        assert not self.closed or self.state.phase is Phase.CLOSED


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30)


class Peer:
    """Does with each attempt what the script says, then accepts; counts what the owner is told."""

    def __init__(self, script: list[str]) -> None:
        self.script = list(script)
        self.told: list[str] = []
        self.kept = KeptConnection("vehicle 7", self.dial, self, backoff=Backoff(0.0, 0.0))

    def dialling(self) -> None:
        self.told.append("dialling")

    def dial_failed(self, error: ConnectError) -> None:
        assert str(error)
        self.told.append("failed")

    def connection_lost(self, reason: str) -> None:
        assert reason
        self.told.append("lost")

    async def dial(self, generation: int) -> None:
        for step in (self.script.pop(0) if self.script else "accept").split():
            await getattr(self, f"_{step}")(generation)

    async def _accept(self, _generation: int) -> None:
        self.kept.accepted()

    async def _wait(self, _generation: int) -> None:
        await asyncio.sleep(0)

    async def _reset(self, _generation: int) -> None:
        self.kept.lost("reset by peer")

    async def _old_reset(self, generation: int) -> None:
        self.kept.lost("an old socket's reset", generation - 1)

    async def _refuse(self, _generation: int) -> None:
        raise ConnectError("refused")

    async def _reset_soon(self, generation: int) -> None:
        asyncio.get_running_loop().call_soon(self.kept.lost, "reset soon", generation)

    async def _break(self, _generation: int) -> None:
        raise KeyError("nobody thought of that")

    async def _cancel(self, _generation: int) -> None:
        raise asyncio.CancelledError

    async def settled(self) -> None:
        """Wait until the script is over and the connection has come to rest, cutting it while some is left."""
        async with asyncio.timeout(WAIT_S):
            rest = 0
            while rest < 10:
                await asyncio.sleep(0)
                rest = rest + 1 if self.kept.state.phase is Phase.UP else 0
                if rest == 10 and self.script:
                    self.kept.lost("cut")
                    rest = 0


STEPS = ["accept", "wait", "reset", "old_reset", "refuse", "reset_soon"]
SCRIPTS = st.lists(st.lists(st.sampled_from(STEPS), max_size=6).map(" ".join), max_size=8)


@given(SCRIPTS)
def test_the_connection_comes_up_whatever_the_peer_does(script: list[str]) -> None:
    async def drive() -> list[str]:
        peer = Peer(script)
        first = peer.kept.start()
        await peer.settled()
        assert first.done()
        assert peer.kept.state.phase is Phase.UP
        await peer.kept.close()
        return peer.told

    told = asyncio.run(drive())
    assert told[-1] == "dialling"
    assert told.count("dialling") == told.count("failed") + told.count("lost") + 1
    # One attempt ends before the next begins.
    for before, after in itertools.pairwise(told):
        assert (before == "dialling") != (after == "dialling")


def test_the_first_attempt_of_a_gateway_is_the_callers_to_judge() -> None:
    async def drive() -> list[str]:
        peer = Peer(["refuse", "accept", "refuse"])
        with pytest.raises(ConnectError, match="refused"):
            await peer.kept.open()
        assert peer.kept.state.phase is Phase.DOWN
        await peer.kept.open()
        peer.kept.lost("cut")
        await peer.settled()
        await peer.kept.close()
        return peer.told

    assert asyncio.run(drive()) == ["dialling", "dialling", "lost", "dialling", "failed", "dialling"]


@pytest.mark.parametrize("steps", ["break", "accept break", "reset break", "cancel", "accept cancel"])
def test_what_nobody_expected_reaches_the_loops_handler(steps: str) -> None:
    async def drive() -> dict[str, Any]:
        told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.set_result(context))
        peer = Peer(["refuse", steps])
        peer.kept.start()
        async with asyncio.timeout(WAIT_S):
            context = await told
        await peer.kept.close()
        return context

    context = asyncio.run(drive())
    assert "vehicle 7" in context["message"]
    assert ("cancel" in steps) == ("exception" not in context)


class Waits(Backoff):
    """Counts the waits of a row, and takes no time."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)
        self.row = 0
        self.rows: list[int] = []

    def next_s(self) -> float:
        self.row += 1
        self.rows.append(self.row)
        return super().next_s()

    def reset(self) -> None:
        self.row = 0


@pytest.mark.parametrize(
    ("lasting_s", "useful", "rows"),
    [
        (0.0, False, [1, 1, 1]),  # accepted is enough
        (60.0, False, [1, 2, 3]),
        (60.0, True, [1, 1, 1]),
        (0.001, False, [1, 1, 1]),  # each stays up for longer
    ],
)
def test_the_waits_begin_anew_behind_a_connection_that_was_good(
    lasting_s: float, useful: bool, rows: list[int]
) -> None:
    async def drive() -> list[int]:
        peer, waits = Peer([]), Waits()
        peer.kept = KeptConnection("7", peer.dial, peer, backoff=waits, lasting_s=lasting_s)
        await peer.kept.start()
        for _ in range(3):
            if useful:
                peer.kept.useful()
            if lasting_s == 0.001:
                await asyncio.sleep(0.01)
            generation = peer.kept.state.generation
            peer.kept.lost("cut")
            async with asyncio.timeout(WAIT_S):
                while peer.kept.state.accepted_generation == generation:
                    await asyncio.sleep(0)
        await peer.kept.close()
        return waits.rows

    assert asyncio.run(drive()) == rows


def test_after_close_nothing_dials() -> None:
    async def drive() -> None:
        peer = Peer(["wait wait wait"])
        first = peer.kept.start()
        await asyncio.sleep(0)
        await peer.kept.close()
        peer.kept.lost("late")
        for _ in range(10):
            await asyncio.sleep(0)
        assert peer.kept.state.phase is Phase.CLOSED
        assert peer.told == ["dialling"]
        assert first.cancelled()
        await peer.kept.close()

    asyncio.run(drive())


def test_the_gate_lets_only_so_many_dial_at_once() -> None:
    async def drive() -> int:
        gate, dialling, most = asyncio.Semaphore(3), 0, 0

        async def dial(_generation: int) -> None:
            nonlocal dialling, most
            dialling += 1
            most = max(most, dialling)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            dialling -= 1

        peer = Peer([])
        kept = [KeptConnection(str(k), dial, peer, backoff=Backoff(0, 0), gate=gate) for k in range(20)]
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(one.start() for one in kept))
        for one in kept:
            await one.close()
        return most

    assert asyncio.run(drive()) == 3
