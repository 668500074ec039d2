"""One model of options: the command line, the reference and the refusals come from it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from ivsim import cli
from ivsim.option import asks_nothing, ineffective
from ivsim.option_reference import reference
from ivsim.option_rules import possible_options, run_options
from ivsim.options import OPTIONS, PANELS, RunOptions, option_name
from ivsim.study.engines.pipe.client_loops.options import ClientOptions
from ivsim.study.engines.pipe.options import PipeOptions
from schemas.errors import Refusal

ROOT = Path(__file__).resolve().parents[2]

# An option that was given, what else was given, and what the refusal says.
MIX = "mqtt qos1=70,coap con=30"
LOG = {
    "vehicle_log": str(ROOT / "examples/drives/two-trucks.csv"),
    "vehicle_mapping": str(ROOT / "examples/drives/two-trucks.toml"),
}
QUERY = {"query": "nearest-station", "stations": str(ROOT / "examples/stations.csv")}
START_AT = "2026-11-30T09:00:00Z"
THROUGH_REDIS = {"topology": "ingest", "platform": "redis"}
IDLE: list[tuple[str, dict[str, Any], str]] = [
    ("vehicle_log", {**LOG, "format": "small"}, f"--vehicle-log {LOG['vehicle_log']}: has no effect with --format small"),
    ("vehicle_mapping", {"vehicle_mapping": "m.toml"}, "--vehicle-mapping m.toml: needs --vehicle-log"),
    (
        "protocol",
        {"protocol": "mqtt", "mix": MIX},
        f"--protocol mqtt: has no effect with --mix '{MIX}', which says what each vehicle speaks",
    ),
    ("mode", {"mode": "qos1", "mix": MIX}, f"--mode qos1: has no effect with --mix '{MIX}'"),
    ("kafka_brokers", {"kafka_brokers": 3, "topology": "echo"}, "--kafka-brokers 3: needs --topology gateway"),
    ("brokers", {"brokers": 2, "topology": "edge"}, "--brokers 2: needs --topology gateway"),
    (
        "brokers",
        {"brokers": 2, "target": "mqtt://127.0.0.1"},
        "--brokers 2: needs the run's own brokers, not --target mqtt://127.0.0.1",
    ),
    (
        "brokers",
        {"brokers": 2, "protocol": "coap", "mode": "con"},
        "--brokers 2: has no effect with --protocol coap, which has no broker, only with mqtt, amqp",
    ),
    (
        "kafka_brokers",
        {"kafka_brokers": 3, "kafka": "127.0.0.1:9092"},
        "--kafka-brokers 3: needs the run's own Kafka, not --kafka 127.0.0.1:9092",
    ),
    ("kafka_login", {"kafka_login": "login.properties"}, "--kafka-login login.properties: needs --kafka"),
    ("keep_topics", {"keep_topics": True}, "--keep-topics: needs --kafka"),
    ("kafka_topic_prefix", {"kafka_topic_prefix": "mine."}, "--kafka-topic-prefix mine.: needs --kafka"),
    ("kafka_producer", {"kafka_producer": ["linger.ms=5"], "topology": "echo"}, "--kafka-producer: needs --topology gateway"),
    (
        "kafka_producer",
        {"kafka_producer": ["linger.ms=5"], "kafka_client": "python"},
        "--kafka-producer: needs --kafka-client confluent, which alone takes settings of librdkafka; it is python",
    ),
    ("kafka_client", {"kafka_client": "jpype", "topology": "echo"}, "--kafka-client jpype: needs --topology gateway"),
    (
        "kafka_client",
        {"kafka_client": "aiokafka", "topology": "edge"},
        "--kafka-client aiokafka: not with --topology edge, where the ledger needs a library that",
    ),
    ("spark_conf", {"spark_conf": ["spark.driver.memory=4g"], "topology": "echo"}, "--spark-conf: needs --topology gateway"),
    ("kafka_partitions", {"kafka_partitions": 4, "topology": "echo"}, "--kafka-partitions 4: needs --topology gateway"),
    *(
        # Copies need brokers, which are told first that they have no effect.
        (field, {"kafka_brokers": 3, "kafka_replication": 2, "kafka_min_insync": 2, "topology": "echo"}, "--kafka-brokers 3:")
        for field in ("kafka_replication", "kafka_min_insync")
    ),
    ("mix", {"mix": MIX, "topology": "echo"}, f"--mix {MIX}: needs --topology gateway"),
    ("mix", {"mix": MIX, "topology": "edge"}, f"--mix {MIX}: needs --topology gateway"),
    (
        "security",
        {"security": "tls", "mix": MIX},
        f"--security tls: has no effect with --mix '{MIX}', only with mqtt, amqp",
    ),
    (
        "tcp",
        {"tcp": "bbr", "protocol": "coap", "mode": "con"},
        "--tcp bbr: has no effect with --protocol coap, only with mqtt, amqp",
    ),
    ("security", {"security": "tls", "topology": "echo"}, "--security tls: needs --topology gateway"),
    (
        "security",
        {"security": "tls", "protocol": "coap", "mode": "con"},
        "--security tls: has no effect with --protocol coap, only with mqtt, amqp",
    ),
    (
        "security",
        {"security": "mtls", "protocol": "coap", "mode": "con"},
        "--security mtls: has no effect with --protocol coap, only with mqtt, amqp",
    ),
    (
        "security",
        {"security": "oscore"},
        "--security oscore: has no effect with --protocol mqtt, only with coap",
    ),
    (
        "security",
        {"security": "dtls-psk"},
        "--security dtls-psk: has no effect with --protocol mqtt, only with coap",
    ),
    (
        "keepalive_s",
        {"keepalive_s": 5, "protocol": "coap", "mode": "con"},
        "--keepalive 5: has no effect with --protocol coap, only with mqtt, amqp",
    ),
    (
        "connect_rate_per_s",
        {"connect_rate_per_s": 50.0, "protocol": "coap", "mode": "con"},
        "--connect-rate 50: has no effect with --protocol coap, only with mqtt, amqp",
    ),
    (
        "coap_block_bytes",
        {"coap_block_bytes": "64"},
        "--coap-block-bytes 64: has no effect with --protocol mqtt, only with coap",
    ),
    ("message_bytes", {"message_bytes": 100}, "--message-bytes 100: needs --topology echo"),
    ("trace", {"trace": "car-2024", "link": "direct"}, "--trace car-2024: has no effect with --link direct"),
    (
        "trace_offsets",
        {"trace_offsets": False, "link": "direct"},
        "--no-trace-offsets: has no effect with --link direct",
    ),
    ("trace_offsets", {"trace_offsets": True, "link": "direct"}, "--trace-offsets: has no effect"),
    ("rate_factor", {"rate_factor": 2.0, "link": "direct"}, "--rate-factor 2: has no effect"),
    ("rate_factor", {"rate_factor": 2.0, "trace": "car-rtt-2023"}, "--rate-factor 2: needs a trace with a rate"),
    ("rtt", {"rtt": "50", "link": "direct"}, "--rtt 50: has no effect with --link direct"),
    ("outage", {"outage": ["20:10"], "link": "direct"}, "--outage: has no effect with --link direct"),
    ("shaping", {"shaping": "cloud_egress", "link": "direct"}, "--shaping cloud_egress: has no effect"),
    ("loss_ratio", {"loss_ratio": 0.5, "link": "direct"}, "--loss 0.5: has no effect with --link direct"),
    ("loss_ratio", {"loss_ratio": 0.5, "trace": "LOSSY"}, "--loss 0.5: needs a trace without a column of losses"),
    ("loss_direction", {"loss_direction": "uplink", "link": "direct"}, "--loss-direction uplink: has no effect"),
    (
        "loss_direction",
        {"loss_direction": "uplink", "loss_ratio": 0.0},
        "--loss-direction uplink: needs --loss above 0",
    ),
    ("loss_burst", {"loss_burst": 3.0, "link": "direct"}, "--loss-burst 3: has no effect with --link direct"),
    ("loss_burst", {"loss_burst": 3.0, "loss_ratio": 0.0}, "--loss-burst 3: needs --loss above 0"),
    ("jitter_ms", {"jitter_ms": 3.0, "link": "direct"}, "--jitter 3: has no effect with --link direct"),
    (
        "jitter_distribution",
        {"jitter_ms": 3.0, "jitter_distribution": "pareto", "link": "direct"},
        "--jitter 3: has no effect",
    ),
    ("jitter_distribution", {"jitter_distribution": "normal"}, "--jitter-distribution normal: needs --jitter"),
    ("jitter_distribution", {"jitter_distribution": "pareto", "link": "direct"}, "--jitter-distribution pareto"),
    ("reorder_ratio", {"reorder_ratio": 0.1, "link": "direct"}, "--reorder 0.1: has no effect"),
    ("reorder_ratio", {"reorder_ratio": 0.1, "rtt": "0"}, "--reorder 0.1: has no effect with --rtt 0"),
    ("duplicate_ratio", {"duplicate_ratio": 0.1, "vehicles": 1, "link": "direct"}, "--duplicate 0.1: has no"),
    ("queue_bytes", {"queue_bytes": 9_000, "link": "direct"}, "--queue-bytes 9000: has no effect"),
    ("queue_bytes", {"queue_bytes": 9_000, "trace": "car-rtt-2023"}, "--queue-bytes 9000: needs a trace with"),
    ("gateways", {"gateways": 2, "topology": "echo"}, "--gateways 2: needs --topology gateway"),
    ("early_ack", {"early_ack": True, "topology": "echo"}, "--early-ack: needs --topology gateway"),
    ("probe", {"probe": False, "link": "direct"}, "--no-probe: has no effect with --link direct"),
    ("prove_link", {"prove_link": True, "link": "direct"}, "--prove-link: has no effect with --link direct"),
    ("early_ack", {"early_ack": True, "mode": "qos0"}, "--early-ack: has no effect with mqtt qos0, which the gateway"),
    ("early_ack", {"early_ack": True, "protocol": "amqp", "mode": "auto"}, "--early-ack: has no effect with amqp auto"),
    ("batching", {"batching": "fixed", "topology": "echo"}, "--batching fixed: needs --topology gateway"),
    (
        "batching",
        {"batching": "fixed", "kafka_client": "aiokafka"},
        "--batching fixed: needs --kafka-client confluent, which alone sends a batch as one request; it is aiokafka",
    ),
    (
        "batch_messages",
        {"batch_messages": 5, "batching": "fixed", "topology": "echo"},
        "--batching fixed: needs --topology gateway",
    ),
    ("batch_messages", {"batch_messages": 10}, "--batch-messages 10: needs --batching fixed, timely, reactive, pareto, deadline"),
    (
        "batch_ms",
        {"batch_ms": 5.0, "batching": "fixed", "topology": "echo"},
        "--batching fixed: needs --topology gateway",
    ),
    ("batch_ms", {"batch_ms": 5.0}, "--batch-ms 5: needs --batching fixed"),
    (
        "batch_limit_ms",
        {"batch_limit_ms": 400.0, "batching": "timely", "topology": "echo"},
        "--batching timely: needs --topology gateway",
    ),
    (
        "batch_limit_ms",
        {"batch_limit_ms": 400.0, "batching": "fixed"},
        "--batch-limit 400: needs --batching timely, reactive, pareto, deadline",
    ),
    (
        "batch_period_s",
        {"batch_period_s": 5.0, "batching": "timely", "topology": "echo"},
        "--batching timely: needs --topology gateway",
    ),
    ("batch_period_s", {"batch_period_s": 5.0}, "--batch-period 5: needs --batching timely, reactive"),
    ("trigger", {"trigger": "microbatch", "topology": "echo"}, "--trigger microbatch: needs --topology gateway"),
    ("live", {"live": "spark", "topology": "echo"}, "--live spark: needs --topology gateway"),
    ("query", {**QUERY, "topology": "echo"}, "--query nearest-station: needs --topology gateway or edge"),
    (
        "query",
        {**QUERY, "format": "small"},
        "--query nearest-station: has no effect with --format small, whose payloads have no position",
    ),
    ("stations", {"stations": "s.csv"}, "--stations s.csv: needs --query nearest-station"),
    ("answer_limit_ms", {"answer_limit_ms": 50.0}, "--answer-limit 50: needs --query nearest-station"),
    ("future_tolerance_s", {"future_tolerance_s": 9.0, "topology": "echo"}, "--future-tolerance 9: needs --topology gateway"),
    ("kafka", {"kafka": "localhost:9092", "topology": "echo"}, "--kafka localhost:9092: needs --topology gateway"),
    ("kafka", {"kafka": "localhost:9092", "topology": "edge"}, "--kafka localhost:9092: needs --topology gateway"),
    (
        "target",
        {"target": "mqtt://localhost", "topology": "edge"},
        "--target mqtt://localhost: needs --topology gateway or ingest or echo or peer",
    ),
    (
        "kafka_security",
        {"kafka_security": "sasl-ssl", "topology": "echo"},
        "--kafka-security sasl-ssl: needs --topology gateway",
    ),
    (
        "kafka_security",
        {"kafka_security": "sasl-ssl", "kafka": "localhost:9092"},
        "--kafka-security sasl-ssl: needs the run's own Kafka, not --kafka localhost:9092",
    ),
    ("platform", {"platform": "redis"}, "--platform redis: needs --topology ingest"),
    (
        "platform_durability",
        {"platform_durability": "synced"},
        "--platform-durability synced: needs --topology ingest",
    ),
    *(
        (field, {field: value, **THROUGH_REDIS}, f"{typed}: needs --platform kafka; it is redis")
        for field, value, typed in (
            ("kafka", "localhost:9092", "--kafka localhost:9092"),
            ("kafka_client", "aiokafka", "--kafka-client aiokafka"),
            ("kafka_producer", ("linger.ms=5",), "--kafka-producer"),
            ("kafka_security", "sasl-ssl", "--kafka-security sasl-ssl"),
            ("kafka_brokers", 2, "--kafka-brokers 2"),
            ("kafka_replication", 1, "--kafka-replication 1"),
            ("kafka_min_insync", 1, "--kafka-min-insync 1"),
        )
    ),
    *(
        (field, {field: value, "topology": "ingest", **more}, f"{typed}: needs --topology gateway or edge")
        for field, value, typed, more in (
            ("trigger", "microbatch", "--trigger microbatch", {}),
            ("page", True, "--page", {}),
            ("batching", "fixed", "--batching fixed", {}),
            ("history", "past", "--history past", {}),
        )
    ),
    ("target_consent", {"target_consent": "b"}, "--target-consent b: needs --target"),
    ("target_accounts", {"target_accounts": "a.json"}, "--target-accounts a.json: needs --target"),
    ("target_ca", {"target_ca": "ca.pem"}, "--target-ca ca.pem: needs --target"),
    ("target_keys", {"target_keys": "k.json"}, "--target-keys k.json: needs --target"),
    ("target_certificates", {"target_certificates": "d"}, "--target-certificates d: needs --target"),
    ("spark_master", {"spark_master": "yarn", "topology": "echo"}, "--spark-master yarn: needs --topology gateway"),
    (
        "spark_checkpoint",
        {"spark_checkpoint": "s3a://b/twins", "topology": "echo"},
        "--spark-checkpoint s3a://b/twins: needs --topology gateway",
    ),
    ("s3_endpoint", {"s3_endpoint": "http://h:9000", "topology": "echo"}, "--s3-endpoint http://h:9000: needs --topology"),
    ("history", {"history": "past", "topology": "echo"}, "--history past: needs --topology gateway"),
    (
        "spark_driver_host",
        {"spark_driver_host": "192.0.2.1", "topology": "echo"},
        "--spark-driver-host 192.0.2.1: needs --topology gateway",
    ),
    ("page", {"page": True, "topology": "echo"}, "--page: needs --topology gateway"),
    ("page_port", {"page_port": 8080}, "--page-port 8080: needs --page"),
    (
        "agents",
        {"agents": ["h:7070"], "link": "direct"},
        "--agent: needs --target, or --entrance to the run's own broker",
    ),
    (
        "agents",
        {"agents": ["h:7070"], "link": "direct", "topology": "edge", "entrance": "192.0.2.1"},
        "--agent: needs --topology gateway or ingest or echo or peer",
    ),
    ("entrance", {"entrance": "192.0.2.1"}, "--entrance 192.0.2.1: needs --agent"),
    (
        "entrance",
        {"entrance": "192.0.2.1", "agents": ["h:7070"], "link": "direct", "target": "mqtt://b"},
        "--entrance 192.0.2.1: needs the run's own brokers, not --target mqtt://b",
    ),
    ("agents", {"agents": ["h:7070"], "target": "mqtt://b"}, "--agent: needs --link direct"),
    ("agents_only", {"agents_only": True}, "--agents-only: needs --agent"),
    ("agent_token_file", {"agent_token_file": "t"}, "--agent-token-file t: needs --agent"),
    ("share", {"share": "1/2", "start_at": START_AT}, "--share 1/2: needs --target"),
    (
        "share",
        {"share": "1/2", "start_at": START_AT, "target": "mqtt://b", "link": "direct"},
        "--share 1/2: needs --topology peer",
    ),
    (
        "share",
        {"share": "1/2", "start_at": START_AT, "target": "mqtt://b", "topology": "peer"},
        "--share 1/2: needs --link direct",
    ),
    ("start_at", {"start_at": START_AT}, f"--start-at {START_AT}: needs --share"),
    ("share_results", {"share_results": "s3a://b/load"}, "--share-results s3a://b/load: needs --share"),
    (
        "pcap",
        {"agents": ["h:7070"], "link": "direct", "target": "mqtt://b", "pcap": True},
        "--pcap: has no effect with --agent: frames of other machines are not captured",
    ),
]  # fmt: skip


@pytest.fixture
def lossy(tmp_path: Path) -> str:
    path = tmp_path / "lossy.csv"
    path.write_text(
        "# rate_meaning: capacity\ntime_s,uplink_kbps,rtt_ms,loss_ratio\n0,1000,50,0.1\n1,1000,50,0.2\n"
    )
    return str(path)


@pytest.mark.parametrize(("field", "given", "says"), IDLE)
def test_an_option_without_effect_is_refused(
    field: str, given: dict[str, Any], says: str, lossy: str
) -> None:
    given = {name: lossy if value == "LOSSY" else value for name, value in given.items()}
    with pytest.raises(Refusal) as refused:
        run_options(**given)
    assert str(refused.value).startswith(says)


def test_every_condition_of_every_option_has_its_case(lossy: str) -> None:
    """A condition is met in a run by default or not at all: each must have been seen to fail above."""
    failed: set[tuple[str, int]] = set()
    for field, given, _ in IDLE:
        named = {name: lossy if value == "LOSSY" else value for name, value in given.items()}
        options = possible_options(named, option_name)
        for number, need in enumerate(OPTIONS[field].option.effective):
            if not need.holds(options):
                failed.add((field, number))
    wanted = {(name, number) for name, one in OPTIONS.items() for number in range(len(one.option.effective))}
    assert failed == wanted


def test_a_recorded_drive_lasts_as_long_as_the_run() -> None:
    run_options(**LOG, duration_s=180.0)
    with pytest.raises(Refusal, match="the drive of 'north' lasts 180 s, and --duration is 181"):
        run_options(**LOG, duration_s=181.0)
    with pytest.raises(Refusal, match="a csv log needs a mapping"):
        run_options(vehicle_log=LOG["vehicle_log"])
    with pytest.raises(
        Refusal, match=r"no log that can be read: its name must end in one of \.csv, \.parquet, \.gpx, "
    ):
        run_options(vehicle_log="drive.kml")


STATE = {"spark_checkpoint": "s3a://b/twins"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"spark_master": "spark://h:7077"}, "--spark-master spark://h:7077: needs --spark-checkpoint, a URI that"),
        (
            {"spark_checkpoint": "file:///twins", "spark_master": "cluster[2]"},
            r"--spark-checkpoint file:///twins: not with --spark-master cluster\[2\], whose workers do not see",
        ),
        ({"spark_checkpoint": "s3://b/twins"}, "--spark-checkpoint 's3://b/twins': write s3a://, by which Spark"),
        *(
            (
                {field: f"s3a://{place}"},
                f"--{field.replace('_', '-')} 's3a://{said}': write (a directory, or )?s3a://BUCKET/PATH, with no key",
            )
            for field in ("spark_checkpoint", "history", "share_results")
            for place, said in (*((bad, bad) for bad in ("b", "/x", "b//x", "b/x//y")), ("key:hunter2@b/x", "...@b/x"))
        ),
        ({"history": "s3://bucket/x"}, "--history 's3://bucket/x': write a directory, or s3a://BUCKET/PATH"),
        ({"history": ""}, "--history '': write a directory, or"),
        ({"s3_endpoint": "http://h:9000"}, "--s3-endpoint: needs --spark-checkpoint or --history s3a://"),
        ({"s3_endpoint": "http://h", "spark_checkpoint": "file:///t"}, "--s3-endpoint: needs --spark-checkpoint or --history s3a://"),
        ({**STATE, "s3_endpoint": "h:9000"}, "--s3-endpoint 'h:9000': write http://HOST:PORT or https://HOST, without"),
        ({**STATE, "s3_endpoint": "https://h/path"}, "--s3-endpoint 'https://h/path': write http://HOST:PORT"),
        ({**STATE, "s3_endpoint": "https://me:secret@h"}, "--s3-endpoint '.*': write http://HOST:PORT"),
        ({"spark_driver_host": "192.0.2.1"}, "--spark-driver-host: needs --spark-master of another's cluster"),
        ({**STATE, "spark_master": "yarn"}, "--spark-master yarn: needs --spark-driver-host, this machine's address"),
        (
            {**STATE, "spark_master": "yarn", "spark_driver_host": "192.0.2.1"},
            "--spark-master yarn: needs --kafka: its executors do not reach the run's own Kafka",
        ),
        (
            {**STATE, "spark_master": "yarn", "spark_driver_host": "192.0.2.1:7"},
            "--spark-driver-host '192.0.2.1:7': write a name or an address, without a port",
        ),
        (
            {"spark_checkpoint": "/twins", "spark_master": "yarn"},
            "--spark-checkpoint '/twins': write a URI, such as s3a://BUCKET/PATH",
        ),
        ({"spark_master": "cluster[0]"}, r"--spark-master 'cluster\[0\]': write local\[N\], cluster\[1\] to cluster\[9\]"),
        ({"spark_master": "cluster[12]"}, r"--spark-master 'cluster\[12\]': write "),
    ],
)  # fmt: skip
def test_a_cluster_has_a_place_for_the_twins_state(fields: dict[str, str], says: str) -> None:
    with pytest.raises(Refusal, match=says):
        run_options(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {**STATE, "spark_master": "yarn", "spark_driver_host": "192.0.2.1", "kafka": "192.0.2.2:9092"},
        {**STATE, "spark_master": "spark://127.0.0.1:7077"},
        {"spark_master": "cluster[9]"},
    ],
)
def test_a_cluster_whose_executors_reach_everything_is_taken(fields: dict[str, str]) -> None:
    assert run_options(**fields).spark_master == fields["spark_master"]


def test_a_query_has_its_stations_and_decodes_on_this_machine(tmp_path: Path) -> None:
    assert len(run_options(**QUERY).station_table.every) == 40
    assert run_options().station_table is None
    with pytest.raises(Refusal, match=r"^--query nearest-station: needs --stations$"):
        run_options(query="nearest-station")
    with pytest.raises(Refusal, match=r"^--query nearest-station: needs --spark-master local\[N\], not yarn"):
        run_options(**QUERY, spark_master="yarn")
    bad = tmp_path / "bad.csv"
    bad.write_text("station,latitude_deg,longitude_deg\na,91,0\n")
    with pytest.raises(Refusal, match=rf"^{bad}: line 2: latitude_deg '91'"):
        run_options(query="nearest-station", stations=str(bad))


def test_a_default_is_told_apart_from_what_was_not_given() -> None:
    run_options(topology="echo")
    for field in ("gateways", "trigger"):
        with pytest.raises(Refusal, match="needs --topology gateway"):
            run_options(topology="echo", **{field: OPTIONS[field].default})


@pytest.mark.parametrize(
    "given",
    [
        {"link": "direct", "loss_ratio": 0.0, "jitter_ms": 0.0, "rate_factor": 1.0},
        {"topology": "echo", "early_ack": False, "page": False, "security": "plain"},
        {"protocol": "coap", "mode": "con", "security": "plain"},
    ],
)
def test_what_asks_for_nothing_is_no_option_without_effect(given: dict[str, Any]) -> None:
    assert ineffective(run_options(**given), OPTIONS, option_name) == []


def test_every_default_asks_for_something_or_is_off() -> None:
    """`off` is a default or the value that switches off; a wrong one would let an option pass that does nothing."""
    for one in OPTIONS.values():
        if one.option.off is not None and one.field != "loss_ratio":
            assert asks_nothing(one, one.default), one.field


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--link", "direct", "--loss", "0.5", "--outage", "5:10"],
            "--outage: has no effect with --link direct",
        ),
        (["--topology", "echo", "--trigger", "realtime"], "--trigger realtime: needs --topology gateway"),
        (["--topology", "echo", "--spark-master", "local[2]"], "--spark-master local[2]: needs --topology"),
        (["--page-port", "8080"], "--page-port 8080: needs --page"),
        (["--loss", "0", "--loss-burst", "3"], "--loss-burst 3: needs --loss above 0"),
        (["--no-trace-offsets", "--link", "direct"], "--no-trace-offsets: has no effect with --link direct"),
        (["--trace", "car-2024,tunnel", "--vehicles", "1"], "--trace car-2024,tunnel: 2 traces need as many"),
        (
            ["--spark-master", "nowhere"],
            "--spark-master 'nowhere': write local[N], cluster[1] to cluster[9], spark://HOST:PORT",
        ),
        (["--trace", "x" * 50_000], "--trace 'xxx"),
        (["--batching", "best"], "--batching 'best': "),
        (["--query", "nearest"], "--query 'nearest': "),
        (["--query", "nearest-station", "--stations", "none.csv"], "none.csv: No such file or directory"),
        (
            ["--topology", "edge", "--batching", "timely", "--batch-limit", "60", "--rtt", "80"],
            "--batch-limit 60: no batch setting keeps it, the link's round trip takes 80 ms at least; it must be above 80",
        ),
        (
            ["--batching", "timely", "--batch-period", "0.4"],
            "--batch-period 0.4: must be longer than a batch may wait, 0.5 s by --batch-limit and --batch-ms",
        ),
        (["--trace", "/"], "--trace '/': no file, and no bundled trace"),
        (["--trace", ""], "--trace '': no name"),
        (["--faults", "{"], "--faults no JSON"),
    ],
)
def test_the_command_line_names_what_was_typed(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ivsim", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ivsim: {says}")
    assert len(said) < 400


@pytest.mark.parametrize("model", [RunOptions, PipeOptions, ClientOptions])
def test_no_option_is_checked_by_a_pattern(model: type[BaseModel]) -> None:
    """What pydantic says of a pattern that does not fit is the pattern; people are told what to write."""
    schema = model.model_json_schema()
    assert '"pattern"' not in json.dumps(schema)
    assert set(schema["properties"]) == set(model.model_fields)


def test_help_is_grouped_and_fits_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["ivsim", "run", "-h"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    for one in OPTIONS.values():
        assert (f"{one.word} " in text) == (one.option.cli and not one.option.hidden), one.word


def test_the_reference_is_the_models_own() -> None:
    assert (ROOT / "docs" / "options.md").read_text() == reference(), "python -m ivsim.option_reference"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"vehicles": True}, "--vehicles True: expected a whole number"),
        ({"vehicles": "20"}, "--vehicles '20': expected a whole number"),
        ({"vehicles": "1_000"}, "--vehicles '1_000': expected a whole number"),
        ({"vehicles": 20.0}, "--vehicles 20.0: expected a whole number"),
        ({"duration_s": "10"}, "--duration '10': expected a number"),
        ({"duration_s": True}, "--duration True: expected a number"),
        ({"page": 1}, "--page 1: expected true or false"),
        ({"page": "yes"}, "--page 'yes': expected true or false"),
        ({"rtt": True}, "--rtt True: input should be a valid string"),
        ({"protocol": 5}, "--protocol 5: input should be a valid string"),
    ],
)
def test_a_value_of_another_kind_is_refused_as_the_command_line_does(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**given)
    assert str(refused.value) == says


def test_numbers_mean_themselves_where_they_stand_beside_words() -> None:
    assert run_options(rtt=60) == run_options(rtt="60")
    assert run_options(rtt=30.7) == run_options(rtt="30.7")
    assert run_options(shards=2) == run_options(shards="2")
    assert run_options(vehicles=np.int64(7), duration_s=np.float64(9.5)) == run_options(
        vehicles=7, duration_s=9.5
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kafka_replication": 2}, "--kafka-replication 2: at most --kafka-brokers 1"),
        ({"kafka_brokers": 3, "kafka_replication": 4}, "--kafka-replication 4: at most --kafka-brokers 3"),
        ({"kafka_min_insync": 2}, "--kafka-min-insync 2: at most --kafka-replication 1"),
        ({"kafka_brokers": 6}, "--kafka-brokers 6: input should be less than or equal to 5"),
        ({"kafka_partitions": 0}, "--kafka-partitions 0: input should be greater than or equal to 1"),
    ],
)
def test_copies_have_brokers_to_be_on(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**given)
    assert str(refused.value).startswith(says)
    run_options(kafka_brokers=3, kafka_replication=3, kafka_min_insync=2)
    run_options(kafka="cluster.example:9092", kafka_replication=3, kafka_min_insync=2)
