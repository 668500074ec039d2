"""The coordinator's end: whom it refuses, what it learns of a clock, and what the end of an agent leaves."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from pathlib import Path

import pytest
from fake_agent import TOKEN, VERSION, FakeAgent

from ivsim.agents import rig
from ivsim.agents.address import Address
from ivsim.agents.connection import AgentConnection
from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.agents.messages import Bye, Command, Ended, Event, Log, Message, StartSender
from ivsim.agents.remote_sender import AgentLost, RemoteSender
from ivsim.testbed.process import NotReady, ProcessDied, hold_port
from schemas.errors import Refusal
from simulator.emission_log import RECORD, WORDS_RECORD, Kind
from simulator.emission_table import read_events, to_table
from simulator.fleet import schedule
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig

AHEAD_NS = 3_600 * 10**9
FLEET = Scenario(vehicles=4, interval_s=1.0, duration_s=5.0, seed=7)
OWN = [2, 4]
# Its kernel may reset what comes too late.
GONE = "(it has closed the connection|the connection broke: (Connection reset by peer|Broken pipe))"


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        ({"first": b"SSH-2.0-OpenSSH_9.2\n"}, "it is no agent of ivsim"),
        ({"first": b"x" * 10_000}, "it is no agent of ivsim"),
        ({"first": b'{"type":"bye"}\n'}, "bye: that is no agent's first word"),
        (
            {"version": "ivsim 0.0.1 (old)"},
            f"it is ivsim 0.0.1 (old), and this is {VERSION}: both must be the same",
        ),
        ({"token": "another token of enough"}, "it does not know the token"),
    ],
)
def test_who_is_no_agent_of_ours_is_refused(agent: dict[str, object], says: str) -> None:
    with FakeAgent(**agent) as fake, pytest.raises(Refusal) as refused:  # type: ignore[arg-type]
        AgentConnection(fake.address, TOKEN, VERSION)
    assert str(refused.value) == f"--agent {fake.address}: {says}"


@pytest.mark.parametrize("between_s", [0.1, 60.0])
def test_who_drips_or_falls_silent_is_left(between_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivsim.agents.connection.ANSWER_S", 0.5)
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        with contextlib.suppress(OSError), listening.accept()[0] as taken:
            while not over.is_set():
                taken.send(b"x")
                over.wait(between_s)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        began_s = time.monotonic()
        with pytest.raises(Refusal, match=r"it says no whole message within 0\.5 s: it is no agent of ivsim"):
            AgentConnection(Address("127.0.0.1", listening.getsockname()[1]), TOKEN, VERSION)
        took_s = time.monotonic() - began_s
        over.set()
        dripping.join()
    assert took_s < 5


def test_nobody_there_is_refused() -> None:
    with hold_port() as nobody:
        address = Address("127.0.0.1", nobody.getsockname()[1])
        with pytest.raises(Refusal) as refused:
            AgentConnection(address, TOKEN, VERSION)
    assert str(refused.value) == f"--agent {address}: no answer: Connection refused"


def test_a_run_without_a_token_is_refused_and_so_is_a_weak_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(
        Refusal, match=f"needs the token of the agents: --agent-token-file FILE, or {TOKEN_VARIABLE}"
    ):
        rig.agent_token(None)
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(Refusal, match="a token has at least 16 printable ASCII characters"):
        rig.agent_token(str(tmp_path / "token"))
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert rig.agent_token(None) == TOKEN


def test_how_far_the_clock_is_ahead_is_found_within_its_bound_and_leave_is_taken() -> None:
    with FakeAgent(ahead_ns=AHEAD_NS) as fake:
        with AgentConnection(fake.address, TOKEN, VERSION) as connection:
            found = connection.compare()
            assert found is not None
            assert abs(found.ahead_ns - AHEAD_NS) <= found.uncertainty_ns
            newest = connection.newest()
            assert newest is not None
            assert newest.at_ns >= found.at_ns
            assert (connection.welcome.name, connection.welcome.cores) == ("paper", 4)
        fake.wait_for(lambda message: isinstance(message, Bye))
        assert connection.lost == ""


def emitted(vehicle: int, sequence: int, at_ns: int) -> bytes:
    return RECORD.pack(Kind.EMITTED, 0, 0, vehicle, 1, 100, sequence, at_ns)


class Rig:
    """One fake agent with one sender, whose run begins now."""

    def __init__(self, fake: FakeAgent, directory: Path) -> None:
        self.end = rig.AgentEnd(fake.address, TOKEN, VERSION)
        self.log = directory / "emissions-1.events"
        config = SenderConfig(
            scenario=FLEET,
            protocol="mqtt",
            mode="qos1",
            host="192.0.2.1",
            port=1_883,
            events_path=str(self.log),
            vehicles=OWN,
        )
        self.sender: RemoteSender = self.end.start("sender-1", 1, config, directory / "raw.events")


def is_start(message: Message) -> bool:
    return isinstance(message, Command) and message.command["command"] == "start"


def test_a_sender_is_started_and_told_when_by_its_own_clock_and_its_log_is_by_ours(tmp_path: Path) -> None:
    with FakeAgent(ahead_ns=AHEAD_NS) as fake:
        made = Rig(fake, tmp_path)
        asked = fake.wait_for(lambda message: isinstance(message, StartSender))
        assert isinstance(asked, StartSender)
        assert "events_path" not in asked.config
        assert asked.config["vehicles"] == OWN
        made.sender.wait_for("ready", 20.0)
        made.end.compare()
        start_at_ns = fake.now_ns() - AHEAD_NS
        made.sender.send("start", at_ns=start_at_ns)
        told = fake.wait_for(is_start)
        assert isinstance(told, Command)
        assert told.command["at_ns"] == start_at_ns
        assert abs(told.command["clock_ahead_ns"] - AHEAD_NS) < 10**9

        started = RECORD.pack(Kind.STARTED, 0, 0, 0, 1, 0, 0, start_at_ns)
        words = WORDS_RECORD.pack(Kind.WORDS, 0, 1, 0, b"words, and not a time")
        fake.say(Log.of(1, started + words + emitted(2, 1, start_at_ns + AHEAD_NS + 10**9)))
        fake.say(Event(sender=1, event={"event": "done", "cpu_s": 0.1}))
        fake.say(Ended(sender=1, exit_code=0))
        assert made.sender.stop() == 0
        made.sender.check()
        made.end.settle(FLEET)
        made.end.connection.close()
        line = made.end.line()
    events = read_events(made.log)
    assert events["kind"].tolist() == [Kind.STARTED, Kind.WORDS, Kind.EMITTED]
    assert events["at_ns"][0] == start_at_ns
    assert events[1].tobytes() == words
    assert line is not None
    assert abs(int(events["at_ns"][2]) - start_at_ns - 10**9) <= line.uncertainty_ns
    facts = made.end.facts()
    assert (facts["vehicles"], facts["senders"], facts["lost"]) == (2, ["sender-1"], None)
    assert facts["senders_cpu_s"] == 0.1
    assert facts["clock_ahead_before_ms"] == pytest.approx(3.6e6, abs=1_000)


def test_what_an_agent_that_dies_has_not_sent_is_unsent_with_that_reason(tmp_path: Path) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        made.end.compare()
        start_at_ns = fake.now_ns()
        due = list(schedule(FLEET, OWN))
        fake.say(
            Log.of(
                1, b"".join(emitted(d.vehicle, d.sequence, start_at_ns + d.due_offset_ns) for d in due[:3])
            )
        )
        fake.say(Event(sender=1, event={"event": "progress", "emitted": 3}))
        made.sender.wait_for("progress", 20.0)
        fake.die()
        with pytest.raises(AgentLost) as lost:
            made.sender.wait_for("done", 20.0)
        assert re.fullmatch(f"sender-1 on agent {fake.address} is lost: {GONE}", str(lost.value))
        with pytest.raises(AgentLost):
            made.sender.check()
        with pytest.raises(AgentLost):
            made.sender.send("stop")
        assert made.sender.stop() == 0
        made.end.settle(FLEET)
        made.end.connection.close()
    rows = to_table(made.log, FLEET, start_at_ns, OWN).to_pylist()
    assert [row["unsent_reason"] for row in rows] == [None] * 3 + ["agent_lost"] * (len(due) - 3)
    assert len(due) == 10
    facts = made.end.facts()
    assert re.fullmatch(GONE, facts["lost"])
    assert facts["clock_uncertainty_ms"] is not None
    assert facts["senders_cpu_s"] is None


def test_a_sender_that_dies_alone_leaves_a_whole_log_and_its_last_words(tmp_path: Path) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        made.end.compare()
        fake.say(Ended(sender=1, exit_code=-9, words="the last line"))
        with pytest.raises(ProcessDied) as died:
            made.sender.wait_for("done", 20.0)
        assert not isinstance(died.value, AgentLost)
        assert f"sender-1 on agent {fake.address} was ended by SIGKILL" in str(died.value)
        assert "the last line" in str(died.value)
        made.end.settle(FLEET)
        assert not made.log.exists()
        made.end.connection.close()


@pytest.mark.parametrize(
    "nonsense",
    [Event(sender=5, event={}), Log(sender=1, records="AAAA"), Log(sender=1, records="?"), Bye()],
)
def test_an_agent_that_talks_nonsense_is_lost(tmp_path: Path, nonsense: Message) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        fake.say(nonsense)
        with pytest.raises(AgentLost, match="is lost: it said what is no message: "):
            made.sender.wait_for("done", 20.0)
        made.end.connection.close()


def test_an_agent_that_is_gone_before_the_start_ends_the_run_by_name(tmp_path: Path) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        fake.die()
        with pytest.raises(NotReady, match=f"agent {fake.address}: {GONE}"):
            made.end.compare()
        made.end.connection.close()


def test_an_agent_of_which_nothing_is_heard_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        made.end.compare()
        known = made.end.before
        fake.mute = True
        for name, value in {"SILENCE_S": 0.3, "HEARTBEAT_S": 0.05, "_COMPARE_S": 0.1}.items():
            monkeypatch.setattr(f"ivsim.agents.connection.{name}", value)
        silence = "(it does not say its time|nothing was heard of it for 0.3 s)"
        with pytest.raises(NotReady, match=f"agent {fake.address}: {silence}"):
            made.end.compare()
        with pytest.raises(AgentLost, match=r"is lost: nothing was heard of it for 0\.3 s"):
            made.sender.wait_for("done", 20.0)
        made.end.before = known
        made.end.settle(FLEET)
        fake.die()
        made.end.connection.close()
    # Its last answer is what is known of its clock behind the run.
    line = made.end.line()
    assert line is not None
    assert line.after.at_ns >= line.before.at_ns


def test_a_log_that_cannot_be_written_loses_the_agent_and_not_the_thread_alone(tmp_path: Path) -> None:
    with FakeAgent() as fake:
        made = Rig(fake, tmp_path)
        made.sender.wait_for("ready", 20.0)
        made.log.mkdir()
        fake.say(Log.of(1, emitted(2, 1, 5)))
        with pytest.raises(AgentLost, match="its log cannot be written here: Is a directory"):
            made.sender.wait_for("done", 20.0)
        made.end.connection.close()
