"""A run whose vehicles are on three machines, one of which dies: agents as processes, a real broker, and the ledger."""

from __future__ import annotations

import os
import re
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim import Testbed
from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.audit import audit
from ivsim.option_rules import run_options
from ivsim.runs.preflight import preflight
from ivsim.runs.started import StartedRun
from schemas.errors import Refusal
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.netns]

VEHICLES, SECONDS, KILLED_AT_S = 6, 6, 3.0
ENDS_S = 20.0


# A wall clock that is ahead, and gains; the monotonic one is the machine's. Python imports a module of this name first.
CLOCK = """
import time
real_ns, begun_ns = time.time_ns, time.time_ns()
def time_ns():
    now_ns = real_ns()
    return now_ns + {ahead_ns} + (now_ns - begun_ns) * {gains_us_per_s} // 1_000_000
time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
"""


class AgentProcess:
    """`ivsim agent` on a free port of loopback, with a state directory and a directory for files of its own.

    Its clock, and that of its senders, is ahead by so much and gains so much.
    """

    def __init__(
        self, directory: Path, token_file: Path, *, ahead_ms: int = 0, gains_us_per_s: int = 0
    ) -> None:
        self.state, self.scratch = directory / "state", directory / "scratch"
        self.scratch.mkdir(parents=True)
        environment = os.environ | {"IVSIM_STATE_DIR": str(self.state), "TMPDIR": str(self.scratch)}
        if ahead_ms or gains_us_per_s:
            clock = CLOCK.format(ahead_ns=ahead_ms * 1_000_000, gains_us_per_s=gains_us_per_s)
            (directory / "sitecustomize.py").write_text(clock)
            environment["PYTHONPATH"] = os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])
        environment.pop(TOKEN_VARIABLE, None)
        self._errors = (directory / "errors").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ivsim.cli", "agent", "--listen", "127.0.0.1:0", "--token-file", str(token_file)],
            stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[2]

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(ENDS_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        return code

    def left(self) -> list[Path]:
        """Return what it has left, beside the directory of its notes."""
        return [*self.scratch.iterdir(), *(self.state.iterdir() if self.state.is_dir() else ())]


@contextmanager
def agents(
    directory: Path,
    count: int,
    token_file: Path,
    *,
    ahead_ms: Sequence[int] = (0, 0),
    gains_us_per_s: int = 0,
) -> Iterator[list[AgentProcess]]:
    with ExitStack() as stack:
        made = [
            AgentProcess(
                directory / f"agent-{number}", token_file, ahead_ms=ahead_ms[number], gains_us_per_s=gains_us_per_s
            )
            for number in range(count)
        ]  # fmt: skip
        for one in made:
            stack.callback(one.end)
        yield made


@pytest.mark.full
def test_an_agent_that_dies_takes_its_own_vehicles_alone(
    testbed: Testbed, mosquitto_loopback: tuple[str, int], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(24))
    host, port = mosquitto_loopback
    with agents(tmp_path, 2, token) as (one, other):
        asked = {
            "vehicles": VEHICLES, "duration_s": SECONDS, "loss_timeout_s": 5, "topology": "echo", "link": "direct",
            "target": f"mqtt://{host}:{port}", "agents": [one.address, other.address],
        }  # fmt: skip
        (tmp_path / "wrong").write_text(secrets.token_hex(24))
        with pytest.raises(Refusal, match=f"^--agent {one.address}: refused: it does not know the token"):
            preflight(run_options(**asked, agent_token_file=str(tmp_path / "wrong")))

        def kill_the_other(started: StartedRun) -> None:
            if time.time_ns() >= started.start_at_ns + KILLED_AT_S * 1e9 and other.process.poll() is None:
                other.process.kill()

        options = run_options(**asked, agent_token_file=str(token))
        outcome = testbed.run(options, tmp_path / "run", disturb=kill_the_other)
        assert outcome.error is None
        assert one.process.poll() is None
        assert one.end() == 0
        assert one.left() == []
    metrics = outcome.metrics
    assert metrics["due"] == VEHICLES * SECONDS
    (lost,) = (cause for cause in metrics["validity"]["causes"] if cause["name"] == "agent_lost")
    assert lost["severity"] == "degraded"
    assert f"sender-2 on agent {other.address} is lost: " in lost["words"]
    assert "2 of 6 vehicles" in lost["words"]

    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    dead = [row for row in rows if row["vehicle_id"] in {vehicle_id(3), vehicle_id(6)}]
    living = [row for row in rows if row not in dead]
    assert {row["fate"] for row in living} == {"delivered"}
    assert len(living) == 4 * SECONDS
    reasons = [row["unsent_reason"] for row in dead if row["fate"] == "unsent"]
    assert set(reasons) == {"agent_lost"}
    assert 2 * 2 <= len(reasons) < 2 * SECONDS

    first, second = metrics["agents"]
    assert (first["senders"], first["vehicles"], first["lost"]) == (["sender-1"], 2, None)
    assert second["senders"] == ["sender-2"]
    # Its kernel resets the connection where it had not read all.
    assert re.fullmatch(
        "it has closed the connection|the connection broke: Connection reset by peer", second["lost"]
    )
    # All processes have one clock here: how far another one is ahead is the error, which its bound has to hold.
    for agent in (first, second):
        assert abs(agent["clock_ahead_before_ms"]) <= agent["clock_uncertainty_ms"]
    # No capture saw the agents' vehicles, and so none says what all of them sent.
    assert metrics["wire_bytes_uplink"] is metrics["overhead_bytes_per_message"] is None
    report = (tmp_path / "run" / "report.html").read_text()
    assert one.address in report
    assert f"lost: {second['lost']}" in report
    sheets = audit(tmp_path / "run").sheets
    assert {sheet.name: sheet.differences for sheet in sheets if sheet.differences} == {}


@pytest.mark.full
def test_clocks_that_are_half_a_second_apart_and_drift_change_no_delay(
    testbed: Testbed, tmp_path: Path
) -> None:
    """The agents' vehicles stamp by clocks of +500 and -500 ms that gain 30 us/s; the gateway by the coordinator's.

    The delays across two clocks are times that can be, and the report states how wrong they may be.
    """
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(24))
    with agents(tmp_path, 2, token, ahead_ms=(500, -500), gains_us_per_s=30) as (one, other):
        options = run_options(
            vehicles=9, duration_s=10, loss_timeout_s=5, link="direct", entrance="127.0.0.1", shards="3",
            agents=[one.address, other.address], agent_token_file=str(token),
        )  # fmt: skip
        outcome = testbed.run(options, tmp_path / "run")
        assert outcome.error is None
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    assert {row["fate"] for row in rows} == {"delivered"}
    assert len(rows) == 90
    delays_ms: dict[int, list[float]] = {}
    for row in rows:
        number = next(n for n in range(1, 10) if row["vehicle_id"] == vehicle_id(n))
        delay_ms = (row["received_at_ns"] - row["emitted_at_ns"]) / 1e6
        assert delay_ms >= 0
        delays_ms.setdefault((number - 1) % 3, []).append(delay_ms)
    # Uncorrected, one agent's delays would be half a second below 0, and the other's a second above those.
    assert all(statistics.median(values) < 250 for values in delays_ms.values())
    for agent, ahead_ms in zip(outcome.metrics["agents"], (500, -500), strict=True):
        within_ms = agent["clock_uncertainty_ms"]
        assert within_ms < 5
        # It has gained since the agent began, for some tens of seconds.
        assert 0 <= agent["clock_ahead_before_ms"] + within_ms - ahead_ms < 5
        gained_ms = agent["clock_ahead_after_ms"] - agent["clock_ahead_before_ms"]
        assert 10 * 0.03 - 2 * within_ms < gained_ms < 30 * 0.03 + 2 * within_ms
