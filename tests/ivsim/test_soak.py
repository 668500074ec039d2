"""What `make soak` calls flat and what it says grows, on series that are made up; and its schedule."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.java_heap import EACH_S, heaps, java_options
from bench.slope import FEWEST, slope_of
from bench.soak import LEGS, Series, bytes_below, legs, mix_of, promise_of_part, table, write_samples
from ivsim.chaos.promises import KEEPS, SAVED, Promise
from ivsim.chaos.schedule import Planned, Schedule
from ivsim.option_rules import run_options
from ivsim.testbed.kafka import java_command
from ivsim.testbed.paths import installed_jars


@given(st.integers(0, 10_000), st.floats(0, 1_000))
def test_noise_is_flat_and_growth_is_found_in_it(seed: int, level: float) -> None:
    stream = Random(seed)
    seconds = [5.0 * index for index in range(140)]
    noise = [level + stream.gauss(0, 0.5) for _ in seconds]
    found = slope_of(seconds, noise)
    assert found is not None
    assert found.low <= found.per_hour <= found.high
    assert found.verdict(least=60.0) == "flat"
    leaking = [value + at_s / 3_600 * 1_000 for at_s, value in zip(seconds, noise, strict=True)]
    grown = slope_of(seconds, leaking)
    assert grown is not None
    assert grown.per_hour == pytest.approx(1_000, abs=40)
    assert grown.verdict(least=60.0) == "grows"


def test_a_warm_up_is_left_out_and_too_few_samples_say_nothing() -> None:
    seconds = [5.0 * index for index in range(100)]
    warming = [min(at_s, 100.0) for at_s in seconds]
    found = slope_of(seconds, warming)
    assert found is not None
    assert (found.median, found.per_hour) == (100.0, 0.0)
    assert slope_of(seconds[:FEWEST], warming[:FEWEST]) is None


def test_what_is_level_after_twenty_minutes_of_45_is_flat_and_what_never_is_grows() -> None:
    minutes = [index / 12 for index in range(45 * 12)]
    for until, verdict in ((20.0, "flat"), (45.0, "grows")):
        found = slope_of([at * 60 for at in minutes], [50.0 + 2.5 * min(at, until) for at in minutes])
        assert found is not None
        assert found.verdict(least=10.0) == verdict


def test_what_is_not_sure_is_unclear() -> None:
    for each_s, verdict in ((5.0, "short"), (30.0, "unclear")):
        found = slope_of([each_s * index for index in range(24)], [float(index % 5) for index in range(24)])
        assert found is not None
        assert found.verdict(least=1.0) == verdict


def test_one_protocols_faults_may_have_all_the_time() -> None:
    ((schedule, length_s),) = legs(30.0, 1, "amqp")
    assert (schedule.protocol, length_s) == ("amqp", 1_800)
    assert len(schedule.faults) == 10


@pytest.mark.parametrize("minutes", [3.0, 5.0, 30.0, 120.0])
def test_a_fault_comes_each_three_minutes_within_the_legs(minutes: float) -> None:
    planned = legs(minutes, 1)
    assert planned == legs(minutes, 1)
    assert [(schedule.protocol, schedule.mode) for schedule, _ in planned] == list(LEGS)
    assert sum(length_s for _, length_s in planned) == pytest.approx(minutes * 60)
    assert sum(len(schedule.faults) for schedule, _ in planned) == round(minutes / 3)
    for schedule, length_s in planned:
        assert all(0 < fault.at_s < fault.end_s < length_s for fault in schedule.faults)


def test_all_protocols_speak_in_each_leg_and_the_first_is_the_one_with_faults() -> None:
    for schedule, _ in legs(30.0, 1):
        parts = run_options(mix=mix_of(schedule), vehicles=500).parts
        assert sorted(part.words for part in parts) == sorted(f"{protocol} {mode}" for protocol, mode in LEGS)
        assert (parts[0].protocol.name, parts[0].mode.name) == (schedule.protocol, schedule.mode)
        assert {len(part.vehicles) for part in parts} <= {165, 170}


@pytest.mark.parametrize(("whose", "mqtt"), [(LEGS[0], SAVED), (LEGS[1], KEEPS)])
def test_a_protocol_answers_for_its_own_broker_and_gateway_alone(
    whose: tuple[str, str], mqtt: Promise
) -> None:
    faults = tuple(Planned(name, 5.0, 1.0) for name in ("broker-kill", "gateway-kill", "kafka-kill"))
    schedule = Schedule("-".join(whose), *whose, 1, faults)
    parts = run_options(mix=mix_of(schedule), vehicles=500).parts
    promises = {part.protocol.name: promise_of_part(schedule, part) for part in parts}
    assert promises == {"mqtt": mqtt, "amqp": KEEPS, "coap": KEEPS}


def test_the_table_fits_80_columns_and_names_what_grows() -> None:
    series: Series = defaultdict(list)
    for index in range(140):
        at_s = 5.0 * index
        series["gateway-0-of-many", 1_234_567, "memory", 2].append((at_s, 9_000.0 + 9.0 * at_s))
        series["kafka", 0, "log", 1].append((at_s, 999.0 * index))
        series["kafka", 7, "heap", 0].append((at_s, 300.0))
    series["echo", 3, "threads", 1].append((0.0, 1.0))
    lines, growing = table(series)
    assert max(map(len, lines)) <= 80
    assert growing == ["gateway-0-of-many (1234567): memory in leg 2"]
    assert "1 series are too short" in lines[-1]


def test_samples_are_written_as_they_were_taken(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    write_samples({("kafka", 7, "heap", 0): [(60.29, 9.5)], ("kafka", 7, "memory", 1): [(5.0, 1.0)]}, path)
    assert path.read_text().splitlines() == [
        "process,pid,quantity,leg,at_s,value",
        "kafka,7,heap,0,60.29,9.5",
        "kafka,7,memory,1,5.0,1.0",
    ]


def test_only_what_full_collections_leave_is_read(tmp_path: Path) -> None:
    (tmp_path / "17.gc").write_text(
        "[0.007s] Using Parallel\n"
        "[0.287s] GC(0) Pause Young (System.gc()) 11M->10M(123M) 2.028ms\n"
        "[60.291s] GC(1) Pause Full (System.gc()) 10M->9M(123M) 3.283ms\n"
        "[61.949s] GC(9) Pause Full (G1 Periodic Collection) 81M->80M(128M) 12.654ms\n"
    )
    (tmp_path / "18.gc").write_text("[0.007s] Using G1\n")
    assert heaps(tmp_path) == {17: [(60.291, 9 * 1.048576), (61.949, 80 * 1.048576)]}


@pytest.mark.kafka
def test_java_takes_the_options_and_writes_a_heap_that_is_whole_from_the_start(tmp_path: Path) -> None:
    """With G1, as Kafka has it: the parallel collector, Spark's, has no period of its own."""
    options = java_options(tmp_path).replace(f"={EACH_S * 1_000}", "=100")
    # A tool of Kafka's that asks a broker which is not there, for a minute.
    asking = ["org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", "127.0.0.1:1"]
    class_path = f"{installed_jars('kafka').resolve()}/*"
    with subprocess.Popen(
        [java_command(), "-Xmx32m", "-XX:+UseG1GC", "-cp", class_path, *asking],
        env={**os.environ, "JAVA_TOOL_OPTIONS": options},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until = time.monotonic() + 30
            while len(heaps(tmp_path).get(process.pid, ())) < 3 and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            process.kill()
    rows = heaps(tmp_path)[process.pid]
    assert len(rows) >= 3
    assert all(0 < left_mb < 32 for _, left_mb in rows)
    log = (tmp_path / f"{process.pid}.gc").read_text()
    assert set(re.findall(r"Pause Full .*\((\d+)M\)", log)) == {"32"}


def test_what_goes_while_files_are_counted_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka deletes the directories of an ended run's topics while those of the next are counted."""
    for name in ("staying", "going"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"." * 10_000)
    listed = os.scandir

    def scandir(path: Any) -> Iterator[os.DirEntry[str]]:
        if not isinstance(path, int) and Path(path).name == "going":
            shutil.rmtree(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert bytes_below(tmp_path) == (tmp_path / "staying/file").lstat().st_blocks * 512
