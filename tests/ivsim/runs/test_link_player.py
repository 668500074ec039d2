"""The process that plays a schedule on a link which another one has opened, and what its owner has of it afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ivsim.runs.children import Children
from ivsim.runs.crossing import Crossing
from ivsim.runs.link_log import link_tables
from ivsim.runs.link_player import LINK_PLAYED, LINK_ROWS, LinkPlayer
from ivsim.runs.processes import capture_config
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.topics import end_id
from simulator.link_schedule import LinkSchedule, SideBySide
from simulator.links import LINKS, Condition, Link, LinkError
from simulator.links.proof.probes import Flow, run
from simulator.links.row_file import RowFile
from simulator.traces import Trace

pytestmark = pytest.mark.netns
VEHICLES = 3
SECONDS = np.arange(60.0)
ROAD = Trace(SECONDS, 2_000.0 + SECONDS, 9_000.0 - SECONDS, np.full(60, 40.0))
FREE = Condition(None, 5.0)


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with LINKS["uml"](f"t{uuid.uuid4().hex[:7]}", VEHICLES) as opened:
        yield opened


@contextmanager
def ready(record: RunRecord, work: Path, schedule: LinkSchedule) -> Iterator[LinkPlayer]:
    with ExitStack() as stack:
        made = LinkPlayer(Children(record, work, stack), schedule, work, probed=schedule.numbers)
        stack.callback(made.stop)
        made.wait_ready()
        yield made


@pytest.fixture
def player(run_record: RunRecord, tmp_path: Path) -> Iterator[LinkPlayer]:
    with ready(run_record, tmp_path, LinkSchedule(ROAD, VEHICLES, 1, offsets=False)) as made:
        yield made


def wait_until(happened: Callable[[], bool], timeout_s: float = 10) -> None:
    end_s = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def steps(player: LinkPlayer) -> int:
    return int((player.properties() or {}).get("steps", 0))


def passes(link: Link) -> int:
    flow = Flow(1, "uplink", 114, 0.01, 20)
    run(link, [flow], settle_s=0.3)
    return len(flow.received_at_ns)


def test_what_is_played_is_in_force_and_comes_back(link: Link, player: LinkPlayer) -> None:
    start_at_ns = time.time_ns() + 500_000_000
    player.start(link, start_at_ns)
    wait_until(lambda: steps(player) >= 2)
    player.check()
    second, asked = player.in_force()
    assert second == (time.time_ns() - start_at_ns) // 10**9
    assert asked[3][0].rate_bps == (2_000.0 + second) * 1_000
    cut_s = player.in_force()[0] + 2
    player.cut(30.0)
    wait_until(lambda: steps(player) >= cut_s + 2)
    assert player.in_force()[1][1][0].rate_bps == 0
    player.silence()
    assert "silent" in player._child.latest
    wait_until(lambda: "done" in player._child.latest)  # it leaves what was played without being asked
    assert player.stop() is None
    assert player.stop() is None
    player.silence()  # it has been for long
    rows = [row for table in player.rows() for row in table.to_pylist()]
    played = 1 + max(row["second"] for row in rows)
    assert len(rows) == 2 * VEHICLES * played
    assert (player.properties() or {})["steps"] == played
    up = [row for row in rows if row["direction"] == "uplink" and row["vehicle_id"] == rows[0]["vehicle_id"]]
    assert [row["asked_rate_bps"] for row in up] == [
        0.0 if second >= cut_s else (2_000.0 + second) * 1_000 for second in range(played)
    ]
    first = [row for row in rows if 0 < row["second"] < cut_s - 1]
    assert all(row["probe_sent"] == row["probe_received"] == 1 for row in first)
    assert all(row["qdisc_packets"] >= 1 and row["counted_at_ns"] for row in first)
    assert len(player.distinct()) == min(played, cut_s) + 1
    # The owner knows what was told: nothing leaves until it lets the queue go.
    assert passes(link) == 0
    link.update({1: (FREE, FREE)})
    assert passes(link) == 20


def test_a_player_does_without_pandas(
    link: Link, run_record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run waits for its rows: pyarrow would load pandas, for a third of a second."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with ready(run_record, tmp_path, LinkSchedule(ROAD, VEHICLES, 1, offsets=False)) as player:
        player.start(link, time.time_ns())
        wait_until(lambda: steps(player) >= 2)
        assert player.stop() is None
        assert len(list(player.rows())) > 0
        lines = player._child.log_path.read_text().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "pyarrow" in loaded
    assert "pandas.core" not in loaded  # the attempt alone is named, too


def test_a_player_that_is_killed_is_named_and_the_link_goes_on(link: Link, player: LinkPlayer) -> None:
    player.start(link, time.time_ns())
    player.cut(30.0)
    wait_until(lambda: player.in_force()[1][1][0].rate_bps == 0 and steps(player) >= 4)
    os.kill(player.pid, signal.SIGKILL)
    problem = player.stop()
    assert problem is not None
    assert problem.startswith("replay was ended by SIGKILL")
    assert (list(player.rows()), player.properties()) == ([], None)
    assert passes(link) == 0
    link.update({1: (FREE, FREE)})
    assert passes(link) == 20


def test_a_player_whose_owner_is_gone_leaves_its_rows_without_asking_the_link(
    link: Link, player: LinkPlayer, run_record: RunRecord, tmp_path: Path
) -> None:
    player.start(link, time.time_ns())
    wait_until(lambda: steps(player) >= 3)
    child = player._child
    assert child.popen.stdin is not None
    child.popen.stdin.close()
    assert child.wait_end(10)
    rows = [row for table in RowFile(tmp_path / LINK_ROWS) for row in table.to_pylist()]
    last = max(row["second"] for row in rows)
    assert len(rows) == 2 * VEHICLES * (last + 1)
    assert last >= 2
    for row in rows:
        assert (row["qdisc_packets"] is None) == (row["second"] == last)
        assert row["update_ms"] is not None
    said = json.loads((tmp_path / "replay.done.json").read_text())
    assert said["replay"]["steps"] == last + 1
    assert said["replay"]["failure"] is said["failure"] is None
    player.stop()
    link.update({1: (FREE, FREE)})
    assert passes(link) == 20


def test_a_player_that_is_killed_while_it_leaves_its_rows_is_named(
    link: Link, player: LinkPlayer, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "link.part")  # whose writer waits for a reader
    player.start(link, time.time_ns())
    wait_until(lambda: steps(player) >= 1)

    def kill() -> None:
        wait_until((tmp_path / LINK_PLAYED).exists)
        os.kill(player.pid, signal.SIGKILL)

    with ThreadPoolExecutor(1) as other:
        killed = other.submit(kill)
        problem = player.stop()
        killed.result()
    assert problem is not None
    assert problem.startswith("replay was ended by SIGKILL")
    assert list(player.rows()) == []


def test_rows_that_find_no_room_are_a_problem_with_its_reason(
    link: Link, player: LinkPlayer, tmp_path: Path
) -> None:
    (tmp_path / "link.part").mkdir()
    player.start(link, time.time_ns())
    wait_until(lambda: steps(player) >= 1)
    problem = player.stop()
    assert problem is not None
    assert problem.startswith("the rows of the link: ")
    assert problem.endswith("Is a directory")
    assert list(player.rows()) == []


@pytest.fixture
def crossing(link: Link, run_record: RunRecord, tmp_path: Path) -> Iterator[Crossing]:
    """Two schedules: vehicle 1 starts the road, vehicles 2 and 3 are the first and second of a fleet 7 times as fast."""
    slow = LinkSchedule(ROAD, 1, 1, offsets=False)
    fast = LinkSchedule(ROAD, 2, 1, offsets=False, rate_factor=7.0)
    schedule = SideBySide([(range(1, 2), slow), (range(2, 4), fast)])
    capture = capture_config(device=link.vehicles_device, directory=tmp_path, echo=True)
    with Crossing(
        link, schedule, probed=range(0), capture=capture, record=run_record, work=tmp_path
    ) as opened:
        yield opened
    link.update({1: (FREE, FREE)})
    assert passes(link) == 20


def test_schedules_are_played_side_by_side_without_probes(link: Link, crossing: Crossing) -> None:
    crossing.begin(time.time_ns() + 300_000_000)
    sent = passes(link)
    wait_until(lambda: steps(crossing.player) >= 3)
    crossing.check()
    crossing.end()
    table = pa.concat_tables(link_tables(crossing.rows(), crossing.wire_events))
    rows = [row for row in table.to_pylist() if row["second"] >= 0]
    assert {row["second"] for row in rows} >= {0, 1, 2}
    assert crossing.properties["steps"] == 1 + max(row["second"] for row in rows)
    for row in rows:
        factor = 1 if row["vehicle_id"] == end_id(1) else 7
        base = 2_000.0 + row["second"] if row["direction"] == "uplink" else 9_000.0 - row["second"]
        assert row["asked_rate_bps"] == base * 1_000 * factor
        assert row["probe_sent"] is None
    assert crossing.capture_drops == 0
    # Some of them before second 0.
    assert pc.sum(table.filter(pc.equal(table["direction"], "uplink"))["wire_packets"]).as_py() >= sent == 20


def test_a_crossing_whose_player_is_killed_says_so_and_gives_the_link_back(
    link: Link, crossing: Crossing
) -> None:
    crossing.begin(time.time_ns())
    os.kill(crossing.player.pid, signal.SIGKILL)
    with pytest.raises(ProcessDied, match="replay was ended by SIGKILL"):
        wait_until(lambda: crossing.check() is not None)  # type: ignore[func-returns-value]
    with pytest.raises(LinkError, match="replay was ended by SIGKILL"):
        crossing.end()


def test_conditions_that_no_link_can_have_are_refused_by_name(run_record: RunRecord, tmp_path: Path) -> None:
    schedule = LinkSchedule(ROAD, 1, 1, offsets=False, rate_factor=1e-6)
    with (
        LINKS["direct"](f"t{uuid.uuid4().hex[:7]}", 1) as one,
        ready(run_record, tmp_path, schedule) as player,
        pytest.raises(ProcessDied, match=f"{end_id(1)} uplink: rate_bps 2: allowed"),
    ):
        player.start(one, time.time_ns())


@pytest.mark.full  # nobody answers for a guest that is gone: half a minute
def test_a_router_that_dies_is_heard_of(player: LinkPlayer) -> None:
    with LINKS["uml"](f"t{uuid.uuid4().hex[:7]}", VEHICLES) as own:
        player.start(own, time.time_ns())
        wait_until(lambda: steps(player) >= 1)
        pids = subprocess.run(
            ["ip", "netns", "pids", own.namespaces[-1]], check=True, capture_output=True, text=True
        )
        (guest,) = {os.getpgid(int(pid)) for pid in pids.stdout.split()}
        os.kill(guest, signal.SIGKILL)
        with pytest.raises(LinkError, match="link-replay: link uml: the guest"):
            wait_until(lambda: player.check() is not None, 45)  # type: ignore[func-returns-value]
        assert "the guest" in (player.stop() or "")
