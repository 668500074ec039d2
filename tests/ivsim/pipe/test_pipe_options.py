"""What a measurement is asked is checked as a whole before anything starts; profiles fill what is not given."""

from __future__ import annotations

import re
import sys

import pytest

from ivsim import cli
from ivsim.study.cells import Cell
from ivsim.study.engines.pipe import engine
from ivsim.study.engines.pipe.idioms import IDIOMS, RAW
from ivsim.study.engines.pipe.options import OPTIONS, PANELS, PROFILES, PipeOptions, pipe_options
from ivsim.study.engines.pipe.platforms import PLATFORMS, kafka, platform_named, redis
from ivsim.study.engines.pipe.platforms.kafka import Kafka
from ivsim.study.engines.pipe.preflight import check_records
from schemas.errors import Refusal
from schemas.formats import FORMATS

VARIED = {"link": "auto", "loss_ratio": 0.1, "trace": "paper-rtt", "rtt": "30", "link_varies": True}
CHOSEN = {
    "batching": "reactive",
    "rate": 100.0,
    "limit_ms": 100.0,
    "in_flight": 5,
    "partitioner": "own",
    "linger_ms": 50.0,
}

REFUSED = [
    ({"idempotence": True, "acks": "1"}, "--idempotence: needs --acks all, not 1"),
    ({"idempotence": True, "profile": "document"}, "--idempotence: needs --acks all, not 1"),
    ({"codec": "brotli"}, "--codec 'brotli': input should be 'none', 'gzip', 'snappy', 'lz4' or 'zstd'"),
    ({"linger_ms": 0, "batch_bytes": 1000}, "--batch-bytes 1000: has no effect with --linger 0: no batch waits to be filled"),
    ({"linger_ms": 0, "batch_messages": 50}, "--batch-messages 50: has no effect with --linger 0"),
    ({"platform": "null", "codec": "zstd"}, "--codec zstd: has no effect with --platform null, only with kafka, pulsar"),
    ({"platform": "null", "commit": "call"}, "--commit call: has no effect with --platform null, only with kafka"),
    ({"platform": "redis", "codec": "zstd"}, "--codec zstd: has no effect with --platform redis, only with kafka"),
    ({"platform": "pulsar", "codec": "gzip"}, "--codec gzip: with --platform pulsar it is one of none, snappy, lz4, zstd"),
    ({"platform": "pulsar", "linger_ms": 0.5}, "--linger 0.5: with --platform pulsar it is a whole number of ms"),
    ({"platform": "null", "durability": "synced"}, "--durability synced: has no effect with --platform null, only with"),
    ({"durability": "paper"}, "--durability 'paper': input should be 'cache' or 'synced'"),
    ({"platform": "carrier-pigeon"}, "--platform 'carrier-pigeon': allowed are kafka, kafka-aiokafka, "),
    ({"record": "s9"}, "--record 's9': allowed are current_status, s1, s2, s3, b500, b1k, b65k, b600k"),
    ({"format": "orjson"}, "--format 'orjson': --record current_status has json, protobuf"),
    ({"record": "b1k"}, "--format 'protobuf': --record b1k has raw"),
    ({"format": "raw"}, "--format 'raw': --record current_status has json"),
    ({"format": "small", "record": "s1"}, "--format 'small': --record s1 has json, json-compact, orjson"),
    ({"consumers": 4, "partitions": 3}, "--consumers 4: more than --partitions 3"),
    ({"warmup_s": 10}, "--warmup 10: must be shorter than --duration 10"),
    ({"rate": 0}, "--rate 0: input should be greater than 0"),
    ({"rate": 0.1, "duration_s": 3}, "--rate 0.1: no record would be due after the warm-up"),
    ({"rate": 9.0, "load_ratio": 0.5}, "--load-ratio 0.5: has no effect with --rate 9"),
    ({"load_ratio": 1.0}, "--load-ratio 1.0: input should be less than 1"),
    ({"rate": 1e6, "duration_s": 3600}, "--rate 1e+06: 3,600,000,000 records in all"),
    ({"emission_limit_ms": 3}, "--emission-limit 3: needs --rate"),
    ({"registry": "nowhere"}, "--registry 'nowhere': write http://HOST:PORT or https://HOST:PORT"),
    ({"brokers": 4}, "--brokers 4: input should be less than or equal to 3"),
    ({"brokers": 3, "platform": "null"}, "--brokers 3: has no effect with --platform null, only with kafka"),
    ({"replication": 3}, "--replication 3: more than --brokers 1: each of them keeps a record once"),
    ({"brokers": 3, "replication": 2, "min_insync": 3}, "--min-insync 3: more than --replication 2: nothing would"),
    ({"brokers": 3, "replication": 3, "min_insync": 2, "acks": "1"}, "--min-insync 2: needs --acks all"),
    ({"security": "tls", "platform": "null"}, "--security tls: has no effect with --platform null, only with kafka"),
    ({"security": "mtls"}, "--security 'mtls': input should be 'plain' or 'tls'"),
    ({"kill": "consumer@3s"}, "--kill consumer@3s: needs --rate"),
    ({"kill": "consumer", "rate": 9.0}, "--kill 'consumer': expected producer@5s, consumer@5s or broker@5s"),
    ({"kill": "vehicle@3s", "rate": 9.0}, "--kill 'vehicle@3s': expected producer@5s"),
    ({"kill": "consumer@3", "rate": 9.0}, "--kill 'consumer@3': expected producer@5s"),
    ({"kill": "consumer-1@3s", "rate": 9.0}, "--kill consumer-1@3s: there is 1 consumer, counted from 0"),
    ({"kill": "broker-1@3s", "rate": 9.0}, "--kill broker-1@3s: there is 1 broker, counted from 0"),
    ({"kill": "producer@10s", "rate": 9.0}, "--kill producer@10s: must lie within --duration 10"),
    ({"kill": "producer@0s", "rate": 9.0}, "--kill producer@0s: must lie within --duration 10"),
    ({"kill": "broker@3s", "rate": 9.0, "platform": "null"}, "--kill broker@3s: --platform null has no broker"),
    ({"arrivals": "poisson"}, "--arrivals poisson: needs --rate"),
    ({"limit_ms": 50}, "--limit 50: needs --rate"),
    ({"in_flight": 5, "platform": "redis"}, "--in-flight 5: has no effect with --platform redis, only with kafka"),
    ({"expiry_ms": 500, "platform": "null"}, "--expiry 500: has no effect with --platform null, only with kafka"),
    ({"partitioner": "own", "producers": 4}, "--partitioner own: --producers 4 are more than --partitions 3"),
    ({"partitioner": "own", "platform": "redis"}, "--partitioner own: with --platform redis it is one of spread, sticky, key"),
    ({"loss_burst": 3.0, "link": "auto"}, "--loss-burst 3: needs --loss"),
    ({"loss_direction": "uplink", "link": "auto"}, "--loss-direction uplink: needs --loss"),
    ({**VARIED, "rtt": None}, "--link-varies: needs --rtt"),
    ({**VARIED, "rtt": "paper-rtt"}, "--link-varies: needs --rtt as a number of ms, not paper-rtt"),
    ({**VARIED, "trace": "car-2024"}, "--link-varies: --trace car-2024 has rates; it must have delays alone"),
    ({**CHOSEN, "batching": "best"}, "--batching 'best': allowed are fixed, timely, reactive, pareto, deadline"),
    ({**CHOSEN, "rate": None}, "--batching reactive: needs --rate"),
    ({**CHOSEN, "limit_ms": None}, "--batching reactive: needs --limit"),
    ({**CHOSEN, "in_flight": None}, "--batching reactive: needs --in-flight 5, by which it predicts"),
    ({**CHOSEN, "partitioner": "spread"}, "--batching reactive: needs --partitioner own, not spread"),
    ({**CHOSEN, "batch_period_s": 0.05}, "--batch-period 0.05: shorter than a batch, which may wait 100 ms"),
    ({**CHOSEN, "link": "auto", "rtt": "100"}, "--limit 100: no batch setting keeps it, the link's round trip takes 100 ms"),
    ({"batch_period_s": 5.0}, "--batch-period 5: has no effect with --batching fixed: nothing is chosen anew"),
    ({"colour": "red"}, "--colour: no such option; options are --platform"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_what_cannot_be_is_refused_in_a_line(given, words):
    with pytest.raises(Refusal) as refusal:
        pipe_options(given)
    assert str(refusal.value).startswith(words)
    assert "\n" not in str(refusal.value)


def test_what_is_needed_for_each_of_them_is_enough():
    assert pipe_options(VARIED).link_varies
    assert pipe_options(CHOSEN).batching == "reactive"
    assert pipe_options({**CHOSEN, "in_flight": None, "idempotence": True}).in_flight is None


def test_one_by_one_is_linger_0_and_batches_of_1():
    found = pipe_options({"linger_ms": 0, "batch_messages": 1})
    assert (found.linger_ms, found.batch_messages) == (0, 1)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_sets_what_is_not_given_and_nothing_else(profile):
    found = pipe_options({"profile": profile, "codec": "lz4"})
    assert found.codec == "lz4"
    for name, value in PROFILES[profile].items():
        assert name == "codec" or getattr(found, name) == value


def test_the_document_profile_has_the_settings_of_the_document():
    found = pipe_options({"profile": "document"})
    assert (found.acks, found.codec, found.batch_bytes, found.linger_ms) == ("1", "snappy", 100_000, 100.0)
    assert (found.take, found.take_records, found.take_ms, found.commit) == ("full", 5_000, 100.0, "call")
    single = pipe_options({"profile": "document-single"})
    assert (single.batch_bytes, single.linger_ms, single.take_records) == (1_000_000, 5.0, 1)


def test_what_a_profile_sets_without_effect_is_no_wish():
    assert pipe_options({"profile": "document", "platform": "null", "consumers": 1}).codec == "snappy"


def test_options_read_back_from_a_manifest_are_the_same():
    found = pipe_options({"profile": "document", "record": "s2", "rate": 50.0})
    assert PipeOptions.model_validate(found.model_dump(mode="json")) == found


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform_says_what_each_durability_is_or_has_none(name):
    row = platform_named(name)
    assert set(row.durability) == ({"cache", "synced"} if "durability" in row.settings else set())
    assert len(set(row.durability.values())) == len(row.durability)


def test_every_option_has_a_panel_and_every_platform_its_settings():
    assert {one.option.panel for one in OPTIONS.values()} <= set(PANELS)
    for name in PLATFORMS:
        assert platform_named(name).settings <= set(OPTIONS)


def test_a_record_over_the_limit_of_its_platform_is_refused(monkeypatch):
    options = pipe_options({"record": "s3", "format": "json", "different": 3})
    assert 11_000 < check_records(options) < 12_500
    monkeypatch.setattr(type(platform_named("kafka")), "record_bytes", 10_000)
    with pytest.raises(Refusal, match=r"--record s3: 11,\d\d\d B in json; kafka takes at most 10,000 B"):
        check_records(options)


def test_a_codec_that_librdkafka_was_built_without_is_refused(monkeypatch):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert pipe_options({"codec": codec}).codec == codec
        assert kafka.codec_lack(codec) is None
    # What no build has stands for what this one has not.
    lack = kafka.codec_lack("brotli")
    assert re.match(r'librdkafka 2[.\d]+: Invalid value "brotli"', lack)
    monkeypatch.setattr(kafka, "codec_lack", {"zstd": lack}.get)
    with pytest.raises(
        Refusal, match=r"--codec zstd: with --platform kafka cannot be had here: librdkafka 2"
    ):
        pipe_options({"codec": "zstd"})
    assert pipe_options({"codec": "gzip"}).codec == "gzip"


def test_records_that_would_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(redis, "machine_bytes", lambda: 8 * 2**30)
    options = pipe_options({"platform": "redis", "rate": 10_000.0, "duration_s": 3_600, "record": "s1"})
    with pytest.raises(
        Refusal,
        match=r"--rate 10000 for 3600 s: 6,3\d\d MiB of payload; redis keeps all of it in memory,"
        r" and has room for 1,966 MiB",
    ):
        check_records(options)
    assert check_records(pipe_options({"platform": "redis", "rate": 1_000.0, "record": "s1"})) > 100


@pytest.mark.parametrize("words", [["--acks", "2"], ["--codec", "brotli"], ["--idempotence", "--acks", "0"]])
def test_a_refusal_of_the_command_line_starts_and_leaves_nothing(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ivsim", "pipe", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_formats_of_the_command_line_are_those_of_the_tables():
    assert set(OPTIONS["format"].choices) == {*FORMATS, *IDIOMS, RAW}


def test_what_the_environment_says_of_runs_is_not_of_pipes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IVSIM_RUN_FORMAT", "morse")
    monkeypatch.setattr(sys, "argv", ["ivsim", "pipe", "--rate", "0"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err.startswith("ivsim: --rate 0")


def test_cells_behind_a_link_say_what_is_missing_for_it(monkeypatch):
    """AUTO is no back end of its own: what is missing is what all of them lack."""

    def none_here(name):
        raise Refusal(f"no link {name}")

    cells = [Cell("a", "", {}, pipe_options({"link": "auto"}))]
    monkeypatch.setattr(engine, "choose", lambda name: name)
    monkeypatch.setattr(Kafka, "missing", lambda self: None)
    assert engine.Pipe().missing_for(cells) is None
    monkeypatch.setattr(engine, "choose", none_here)
    assert engine.Pipe().missing_for(cells) == "no link auto"
