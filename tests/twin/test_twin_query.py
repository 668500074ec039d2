"""The twin query, its live figures and its dead letters on a real broker, under both triggers."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from schemas.topics import vehicle_id
from tests import oracle
from tests.twin.made_up import SECOND, MadeUpRun, await_taken, payload_of, status_headers
from tests.twin.reference import WINDOW, fold
from twin import dead_letters, job, source
from twin.config import TwinConfig
from twin.run_queries import RunQueries
from twin.warm import WarmUp

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# When the tests are collected, which may be an hour before they run.
NOW = time.time_ns() - 30 * SECOND
DAY = 86_400 * SECOND
BAD: list[tuple[str, str | None, bytes | None, list[tuple[str, bytes]] | None]] = [
    ("no_key", None, payload_of(vehicle_id(1)), status_headers(1, 900, NOW, NOW)),
    ("no_key", "one two/three", payload_of(vehicle_id(1)), status_headers(1, 900, NOW, NOW)),
    ("header_missing", vehicle_id(1), payload_of(vehicle_id(1)), None),
    ("header_missing", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, None, NOW, NOW)),
    ("bad_header", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 900, NOW, NOW, mode="a\x1fb")),
    ("unknown_format", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 900, NOW, NOW, format="protobuff")),
    ("bad_epoch", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(-1, 900, NOW, NOW)),
    ("bad_sequence", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 2**63, NOW, NOW)),
    ("bad_sequence", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, "12.5", NOW, NOW)),
    ("bad_sequence", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 0, NOW, NOW)),
    ("bad_stamp", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 900, "yesterday", NOW)),
    ("stamp_in_future", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 900, NOW, NOW + DAY)),
    ("stamp_in_future", vehicle_id(1), payload_of(vehicle_id(1)), status_headers(1, 900, NOW + DAY, NOW)),
    ("other_vehicle", vehicle_id(1), payload_of(vehicle_id(2)), status_headers(1, 900, NOW, NOW)),
    ("no_payload", vehicle_id(1), None, status_headers(1, 900, NOW, NOW)),
    ("payload_too_large", vehicle_id(1), payload_of(vehicle_id(1), 10_000_000), status_headers(1, 900, NOW, NOW)),
    ("no_key", "x" * 300, b"", [("y" * 257, b""), ("long", b"z" * 257), *((f"{k}", b"h") for k in range(40))]),
]  # fmt: skip


def produce_messages(run: MadeUpRun, rng: random.Random) -> dict[str, list[tuple[int, int, int]]]:
    """Send lost, late and repeated messages of six vehicles; return what was appended for each."""
    rows = [run.due(v, s, 1 + s // 30) for v in range(1, 6) for s in range(1, 41) if rng.random() < 0.8]
    # Two messages of a sixth vehicle, more than a window apart, the older one last: what it received is not known.
    at = {"sampled_at_ns": run.start_at_ns, "due_at_ns": run.start_at_ns}
    too_late = [run.due(6, sequence, **at) for sequence in (2 * WINDOW, 1)]
    late = [row for row in rows if rng.random() < 0.1]
    order = [row for row in rows if row not in late] + late + rng.sample(rows, 20) + too_late
    sent: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, row in enumerate(order):
        received = row["due_at_ns"] + 40_000_000 + number
        run.append(row, received)
        sent[row["vehicle_id"]].append((row["epoch"], row["sequence"], received))
    return sent


def produce_counts(run: MadeUpRun, sent: dict[str, list[tuple[int, int, int]]]) -> None:
    """Send the owner's counts: what was emitted, and the bytes on the link, per vehicle and second."""
    start_s = run.start_at_ns // SECOND
    for second in range(start_s, start_s + 20):
        emitted = [{"vehicle_id": name, "second": second, "emitted": 2, "unsent": 1} for name in sent]
        run.produce(run.config.topics.emissions, None, json.dumps(emitted).encode(), None)
        crossed = [
            {"vehicle_id": name, "second": second, "direction": way, "wire_bytes": size}
            for name in sent
            for way, size in (("uplink", 900), ("downlink", 80))
        ]
        run.produce(run.config.topics.link, None, json.dumps(crossed).encode(), None)
        # A record may be one row, and some say what the page alone takes.
        asked = {"vehicle_id": next(iter(sent)), "second": second, "rtt_ms": 40.0}
        run.produce(run.config.topics.link, None, json.dumps(asked).encode(), None)
        run.produce(run.config.topics.emissions, None, b'[{"fleet_offered": 9}]', None)
    run.produce(run.config.topics.emissions, None, b"no json", None)


@pytest.mark.parametrize(
    ("trigger", "live"),
    [("realtime", "consumer"), pytest.param("microbatch", "spark", marks=pytest.mark.full)],
)
def test_twin_holds_the_newest_and_counts_exactly(
    spark: SparkSession, run: MadeUpRun, trigger: str, live: str
) -> None:
    config = run.config.model_copy(update={"trigger": trigger, "live": live, "live_interval_s": 0.5})
    queries = RunQueries(spark, config, WarmUp(), lambda: None)
    try:
        queries.open()
        sent = produce_messages(run, random.Random(3))
        for _, key, value, headers in BAD:
            run.produce(config.topics.status, key, value, headers)
        produce_counts(run, sent)
        run.flush()
        await_taken(config, sum(map(len, sent.values())))
        assert queries.finish(len(BAD)) == []
    finally:
        queries.close()
    assert_twins(config, sent)
    assert_dead_letters(config)
    assert_live(config, sent)


def assert_twins(config: TwinConfig, sent: dict[str, list[tuple[int, int, int]]]) -> None:
    records = oracle.read_topic(config.bootstrap, config.topics.state)
    newest = {
        record["key"].decode(): record
        for record in sorted(records, key=lambda r: (r["partition"], r["offset"]))
    }
    assert set(newest) == set(sent)
    for identity, record in newest.items():
        headers = {name: value.decode() for name, value in record["headers"].items()}
        expected = fold(sent[identity])
        assert {name: int(headers[name]) for name in expected} == expected
        assert record["value"] == payload_of(identity)
        assert (headers["format"], headers["protocol"], headers["mode"]) == ("protobuf", "mqtt", "qos1")
    if config.trigger == "realtime":
        assert len(records) == sum(map(len, sent.values()))  # one update for each message


def assert_dead_letters(config: TwinConfig) -> None:
    letters = oracle.read_topic(config.bootstrap, config.topics.dead_letter)
    found = Counter(letter["headers"]["reason"].decode() for letter in letters)
    assert found == Counter(reason for reason, *_ in BAD)
    records = oracle.read_topic(config.bootstrap, config.topics.status)
    bad = {(str(r["partition"]).encode(), str(r["offset"]).encode()): r for r in records}
    places = [(letter["headers"]["partition"], letter["headers"]["offset"]) for letter in letters]
    assert len(set(places)) == len(BAD)
    for place, letter in zip(places, letters, strict=True):
        record = bad[place]
        said = {
            name: letter["headers"].pop(name) for name in ("reason", "partition", "offset", "payload_bytes")
        }
        assert said["payload_bytes"] == (b"" if record["value"] is None else b"%d" % len(record["value"]))
        assert letter["key"] == (None if record["key"] is None else record["key"][:256])
        assert letter["value"] == (None if record["value"] is None else record["value"][:1_024])
        short = [one for one in (record["headers"] or {}).items() if max(map(len, one)) <= 256]
        assert letter["headers"] == dict(short[:32])


def age_of_information_ms(records: list[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Return mean and peak from one vehicle's records in twin.state, by the integral of the saw-tooth itself."""
    steps: list[tuple[float, float]] = []  # (applied, sampled) in ms, where a fresher reading was applied
    for record in records:
        sampled = int(record["headers"]["sampled_at_ns"]) / 1e6
        if not steps or sampled > steps[-1][1]:
            steps.append((record["timestamp_ns"] / 1e6, sampled))
    pairs = list(itertools.pairwise(steps))
    if not pairs:
        return None, None
    area = sum((b - a) * ((a - s) + (b - s)) / 2 for (a, s), (b, _) in pairs)
    # The mean is over the sampling times: the triangle before the first update belongs to it, the last one's does not.
    (a, s), (b, t) = steps[0], steps[-1]
    area += (a - s) ** 2 / 2 - (b - t) ** 2 / 2
    return area / (t - s), max(b - s for (_, s), (b, _) in pairs)


def assert_ages(config: TwinConfig, figures: dict[bytes, dict[str, Any]]) -> None:
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in oracle.read_topic(config.bootstrap, config.topics.state):
        records[record["key"].decode()].append(record)
    for identity, own in records.items():
        mean, peak = age_of_information_ms(sorted(own, key=lambda r: r["offset"]))
        run = figures[f"{identity}/run".encode()]
        assert run["age_of_information_mean_ms"] == pytest.approx(mean)
        assert run["age_of_information_peak_ms"] == pytest.approx(peak)
    peaks = [figures[f"{identity}/run".encode()]["age_of_information_peak_ms"] for identity in records]
    fleet = figures[b"*/run"]["age_of_information_peak_ms"]
    assert fleet == max((peak for peak in peaks if peak is not None), default=None)


def assert_live(config: TwinConfig, sent: dict[str, list[tuple[int, int, int]]]) -> None:
    figures: dict[bytes, dict[str, Any]] = {
        record["key"]: json.loads(record["value"])
        for record in oracle.read_topic(config.bootstrap, config.topics.metrics)
    }
    for identity, messages in sent.items():
        run = figures[f"{identity}/run".encode()]
        assert run["given_up"] == fold(messages)["given_up"]
        if run["given_up"]:
            unknown = (
                "received",
                "duplicates",
                "gaps",
                "payload_bytes",
                "delivery_ratio",
                "overhead_bytes_per_message",
            )
            assert [run[name] for name in unknown] == [None] * len(unknown)
            continue
        distinct = len({message[:2] for message in messages})
        assert run["received"] == distinct
        assert run["duplicates"] == len(messages) - distinct
        assert run["payload_bytes"] == 300 * distinct
        assert (run["emitted"], run["unsent"]) == (40, 20)
        assert (run["wire_bytes_uplink"], run["wire_bytes_downlink"]) == (18_000, 1_600)
        assert run["gaps"] == fold(messages)["gaps"]
        windows = [
            f for f in figures.values() if f["vehicle_id"] == identity and f["window_start_s"] is not None
        ]
        assert sum(f["received_in_window"] or 0 for f in windows) == distinct
        assert sum(f["gaps_in_window"] or 0 for f in windows) == run["gaps"]
        assert run["delivery_ratio"] == pytest.approx(distinct / 60)
        assert run["overhead_bytes_per_message"] == pytest.approx((19_600 - 300 * distinct) / distinct)
    assert_ages(config, figures)
    fleet = figures[b"*/run"]
    assert (fleet["emitted"], fleet["wire_bytes_uplink"]) == (240, 108_000)
    assert fleet["end_to_end_latency_p50_ms"] > 0
    windows = [f for f in figures.values() if f["vehicle_id"] == "*" and f["window_start_s"] is not None]
    assert sum(f["emitted"] or 0 for f in windows) == 240


def test_a_runs_plans_are_made_with_few_calls_of_java(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes a fifth of a millisecond, and a run waits for its queries: they took 8,000 of them, and a second."""
    called: list[str] = []
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *more: Any, **words: Any) -> Any:
        # What Python no longer needs is given back by calls of its own, whenever its garbage is collected.
        if not command.startswith(MEMORY_COMMAND_NAME):
            called.append(command)
        return send(client, command, *more, **words)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    config = TwinConfig(run_dir=str(tmp_path), bootstrap="127.0.0.1:1")
    stream = source.read_stream(spark, config, "a")
    job.state_records(stream, config)
    dead_letters.dead_letters(stream, config)
    assert 50 < len(called) < 500
