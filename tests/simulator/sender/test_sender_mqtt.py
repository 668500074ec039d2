"""The sender process against a real mosquitto."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import ProcessDied, hold_port
from ivsim.testbed.registry import RunRecord
from schemas.topics import vehicle_id
from simulator.emission_log import Kind
from simulator.emission_table import connections, read_events

pytestmark = pytest.mark.broker


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record) as server:
        yield server


def lose(broker: MosquittoServer, run) -> None:
    """Stop the broker before anything is due: then all that is due meanwhile has to wait, however long it takes."""
    broker.process.stop()
    while run.child.wait_for("progress", 10)["connected"] > 0:
        pass


@pytest.mark.parametrize("mode", ["qos0", "qos1", "qos2", pytest.param("qos1-v311", marks=pytest.mark.full)])
def test_everything_due_is_emitted_in_time_and_acknowledged(broker, start_sender, mode) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 10, "duration_s": 2.0}, mode=mode)
    run.start()
    done = run.child.wait_for("done", 30)
    assert (done["due"], done["emitted"], done["unsent"]) == (20, 20, 0)
    rows = run.rows()
    assert len(rows) == 20
    for row in rows:
        assert row["emitted_at_ns"] >= row["due_at_ns"] == row["sampled_at_ns"]
        assert row["unsent_reason"] is None
        if mode == "qos0":
            assert row["acknowledged_at_ns"] is None
        else:
            assert row["acknowledged_at_ns"] > row["emitted_at_ns"]
    assert run.child.popen.wait(10) == 0


def test_vehicles_connect_at_their_rate_whatever_became_of_those_before(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 5, "duration_s": 1.0}, connect_rate_per_s=20.0)
    run.start(0.1)
    run.child.wait_for("done", 30)
    steps = connections(run.events_path).to_pylist()
    due = [step["at_ns"] for step in steps if step["event"] == "connect_due"]
    assert [at - due[0] for at in due] == [0, 50_000_000, 100_000_000, 150_000_000, 200_000_000]
    for vehicle in range(1, 6):
        own = [step for step in steps if step["vehicle_id"] == vehicle_id(vehicle)]
        assert [step["event"] for step in own][:3] == ["connect_due", "connecting", "connected"]
        assert own[0]["at_ns"] <= own[1]["at_ns"] < own[2]["at_ns"]


def test_echo_notes_what_comes_back(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 3, "duration_s": 2.0}, topology="echo")
    run.start()
    assert run.child.wait_for("done", 30)["received"] == 6
    assert all(row["received_at_ns"] > row["emitted_at_ns"] for row in run.rows())


def test_echo_unwraps_small_sequences(broker, start_sender) -> None:
    scenario = {"vehicles": 1, "interval_s": 0.01, "duration_s": 2.5, "format": "small"}
    run = start_sender(broker.host, broker.port, scenario, topology="echo")
    run.start()
    assert run.child.wait_for("done", 30)["received"] == 250
    assert all(row["received_at_ns"] is not None for row in run.rows())


@pytest.mark.timing
@pytest.mark.parametrize(
    "mode", ["qos1", *(pytest.param(mode, marks=pytest.mark.full) for mode in ("qos0", "qos2"))]
)
def test_a_lost_broker_buffers_reconnects_and_sends_the_backlog(broker, start_sender, mode) -> None:
    run = start_sender(
        broker.host, broker.port, {"vehicles": 4, "interval_s": 0.1, "duration_s": 4.0}, mode=mode
    )
    run.start(0.2)
    # No sooner than every vehicle has sent, and no later: messages must still fall due once the broker is gone.
    while run.child.wait_for("progress", 10)["emitted"] < 4:
        pass
    broker.process.stop()
    while run.child.wait_for("progress", 10)["connected"] > 0:
        pass
    buffered = run.child.wait_for("progress", 10)["buffered"]
    assert buffered > 0
    broker.restart()
    done = run.child.wait_for("done", 40)
    assert (done["due"], done["unsent"], done["disconnections"]) == (160, 0, 4)
    rows = run.rows()
    if mode == "qos0":
        assert all(row["emitted_at_ns"] for row in rows)
    else:
        assert all(row["acknowledged_at_ns"] for row in rows)
    assert sum(row["buffered"] for row in rows) == done["buffered"] >= buffered
    kinds = Counter(int(kind) for kind in read_events(run.events_path)["kind"])
    assert kinds[Kind.CONNECTED] == 8
    assert kinds[Kind.DISCONNECTED] == 4
    assert kinds[Kind.CONNECT_FAILED] == done["connect_failures"] > 0


@pytest.mark.parametrize(
    ("policy", "reason"), [("drop_oldest", "dropped_oldest"), ("drop_newest", "dropped_newest")]
)
def test_a_full_outbox_drops_by_its_policy(broker, start_sender, policy, reason) -> None:
    run = start_sender(
        broker.host,
        broker.port,
        {"vehicles": 1, "interval_s": 0.05, "duration_s": 3.0},
        outbox_limit=5,
        outbox_policy=policy,
    )
    lose(broker, run)
    run.start(0.2)
    while run.child.wait_for("progress", 10)["unsent"] < 10:
        pass
    broker.restart()
    done = run.child.wait_for("done", 30)
    rows = run.rows()
    unsent = [row["sequence"] for row in rows if row["emitted_at_ns"] is None]
    kept = [row["sequence"] for row in rows if row["buffered"] and row["emitted_at_ns"]]
    assert {row["unsent_reason"] for row in rows} == {None, reason}
    assert len(unsent) == done["unsent"] > 0
    assert done["due"] == done["emitted"] + done["unsent"] == 60
    assert (min(kept) > min(unsent)) if policy == "drop_oldest" else (min(kept) < min(unsent))


def test_block_drops_nothing(broker, start_sender) -> None:
    run = start_sender(
        broker.host,
        broker.port,
        {"vehicles": 1, "interval_s": 0.05, "duration_s": 2.5},
        outbox_limit=2,
        outbox_policy="block",
    )
    lose(broker, run)
    run.start(0.2)
    while run.child.wait_for("progress", 10)["buffered"] < 10:
        pass
    broker.restart()
    done = run.child.wait_for("done", 30)
    assert (done["unsent"], done["acknowledged"]) == (0, 50)


def test_a_killed_sender_leaves_unsent_rows(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 5, "duration_s": 20.0})
    run.start()
    while run.child.wait_for("progress", 10)["emitted"] < 10:
        pass
    run.child.popen.send_signal(signal.SIGKILL)
    run.child.popen.wait(10)
    rows = run.rows()
    assert len(rows) == 100
    reasons = Counter(row["unsent_reason"] for row in rows)
    assert reasons[None] >= 5
    assert reasons["sender_ended"] == 100 - reasons[None]


def test_stop_in_the_middle_closes_and_says_so(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 5, "duration_s": 60.0})
    run.start()
    while run.child.wait_for("progress", 10)["emitted"] < 5:
        pass
    run.child.send("stop")
    done = run.child.wait_for("done", 10)
    assert done["stopped"] is True
    assert run.child.popen.wait(10) == 0


def test_the_owners_death_ends_the_sender(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 2, "duration_s": 60.0})
    run.child.popen.stdin.close()
    assert run.child.popen.wait(10) == 0


def test_no_broker_is_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "sender.json"
    with hold_port() as silent:
        port = silent.getsockname()[1]
        values = {
            "scenario": {"vehicles": 2}, "protocol": "mqtt", "mode": "qos1", "host": "127.0.0.1", "port": port,
            "events_path": str(tmp_path / "e.events"), "connect_wait_s": 1.0,
        }  # fmt: skip
        path.write_text(json.dumps(values))
        done = subprocess.run(
            [sys.executable, "-m", "simulator.sender", str(path)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=os.environ, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    event = json.loads(done.stdout)
    assert str(port) in event["message"]
    assert done.stderr == ""


def test_vehicles_bind_their_own_address(broker, start_sender) -> None:
    """Without the namespace's AnyIP route 198.18.0.1 cannot be bound: the setting reaches the socket."""
    with pytest.raises(Exception, match="1 of 1 vehicles are not connected"):
        start_sender(broker.host, broker.port, {"vehicles": 1}, bind_addresses=True, connect_wait_s=1.0)


def test_a_command_that_cannot_be_followed_is_an_error_and_not_a_silent_fleet(broker, start_sender) -> None:
    run = start_sender(broker.host, broker.port, {"vehicles": 1})
    run.child.send("start", at_ns="soon")
    with pytest.raises(ProcessDied, match="a command failed"):
        run.child.wait_for("done", 10)
    assert run.child.popen.wait(10) == 1
