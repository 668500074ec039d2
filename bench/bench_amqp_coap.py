"""Measures the AMQP and CoAP bridges into Kafka: messages per second, CPU per message, response times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from bench.amqp_load import delete_queue, fill_queue
from bench.coap_load import WARM_UP
from gateways.protocols.amqp.address import amqp_routing_key
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id
from simulator.fleet import emissions
from simulator.scenario import Scenario

AMQP_MESSAGES = 100_000
COAP_MESSAGES = 10_000
VEHICLES = 100
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Gateway:
    """One gateway process under measurement; with a profile path it runs under cProfile."""

    def __init__(self, protocol: str, directory: Path, profile: str | None = None, **config: Any) -> None:
        path = directory / f"{config['name']}.json"
        path.write_text(json.dumps(config))
        profiler = [] if profile is None else ["-m", "cProfile", "-o", profile]
        self._errors = (directory / "gateway.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, *profiler, "-m", "gateways", protocol, "--config", str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self.ready = self.wait("ready")

    def wait(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "error":
                raise RuntimeError(event["message"])
            if event["event"] == kind:
                return event
        raise RuntimeError("the gateway has ended")

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE_BYTES / 2**20

    def stop(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write('{"command":"stop"}\n')
        self.process.stdin.flush()
        done = self.wait("done")
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        return done


def payloads(format_name: str, count: int) -> list[tuple[int, bytes]]:
    """Return (vehicle, payload) of a fleet, `count` of them."""
    scenario = Scenario(vehicles=VEHICLES, interval_s=1.0, duration_s=count / VEHICLES, format=format_name)
    return [(e.vehicle, e.payload) for e in emissions(scenario, 1_700_000_000_000_000_000)]


def config_of(bootstrap: str, directory: Path, **extra: Any) -> dict[str, Any]:
    run = uuid.uuid4().hex[:8]
    topics = KafkaTopics(f"{run}.")
    create_topics(bootstrap, topics)
    return {
        "bootstrap": bootstrap, "topics_prefix": topics.prefix, "name": f"bench-{run}",
        "receive_log": str(directory / f"{run}.events"), **extra,
    }  # fmt: skip


def amqp(directory: Path, bootstrap: str, broker: tuple[str, int], profile: str | None = None) -> None:
    """Fill the gateway's queue while it is away, then time how it is emptied."""
    load = [(amqp_routing_key(vehicle_id(v)), payload) for v, payload in payloads("protobuf", AMQP_MESSAGES)]
    config = config_of(
        bootstrap, directory, host=broker[0], port=broker[1], mode="manual-confirms-persistent"
    )
    fill_queue(broker, config["name"], load)
    gateway = Gateway("amqp", directory, profile, **config)
    begin_s, cpu_s = time.monotonic(), gateway.cpu_s()
    while gateway.wait("progress")["delivered"] < len(load):
        pass
    took_s, used_s = time.monotonic() - begin_s, gateway.cpu_s() - cpu_s
    done = gateway.stop()
    delete_queue(broker, config["name"])
    mean_bytes = sum(len(payload) for _, payload in load) / len(load)
    print(
        f"amqp {config['mode']} {len(load)} x {mean_bytes:.0f} B: {len(load) / took_s:,.0f} messages/s, "
        f"{used_s / len(load) * 1e6:.1f} us CPU each; delivered {done['delivered']}, "
        f"duplicates {done['duplicates']}, redelivered {done['redelivered']}"
    )


def coap(
    directory: Path, bootstrap: str, format_name: str, *, rate: float, profile: str | None = None
) -> None:
    """POST from 100 endpoints, each with one request outstanding, at a rate or as fast as answers come."""
    count = COAP_MESSAGES
    config = config_of(bootstrap, directory, host="127.0.0.1", port=0, mode="con", format=format_name)
    gateway = Gateway("coap", directory, profile, **config)
    load_path = directory / "load.hex"
    lines = (f"{vehicle} {payload.hex()}" for vehicle, payload in payloads(format_name, 1000))
    load_path.write_text("\n".join(lines))
    cpu_s = gateway.cpu_s()
    argv = [sys.executable, "-m", "bench.coap_load", "127.0.0.1", str(gateway.ready["port"]), str(count)]
    done = subprocess.run(
        [*argv, str(load_path)], env={**os.environ, "BENCH_RATE": str(rate)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    figures = json.loads(done.stdout)
    used_s, resident_mb = gateway.cpu_s() - cpu_s, gateway.resident_mb()
    end = gateway.stop()
    per_message = end["requests"] / (count + WARM_UP)
    asked = f"{rate:,.0f}/s asked" if rate else "closed loop"
    print(
        f"coap con {format_name:9} {asked:13}: {figures['per_s']:,.0f} messages/s = "
        f"{figures['per_s'] * per_message:,.0f} CON requests/s, p50 {figures['p50_ms']:.1f} ms, "
        f"p99 {figures['p99_ms']:.1f} ms, {used_s / end['requests'] * 1e6:.0f} us CPU per request, "
        f"{resident_mb:.0f} MB; failed {figures['failed']:.0f}, delivered {end['delivered']}, "
        f"dead letters {end['dead_letters']}, separate {end['separate']}"
    )


def main(words: list[str] | None = None) -> None:
    """Print one line per measurement; `amqp FILE` or `coap FILE` profiles that gateway."""
    which, profile = (*(words or []), None, None)[:2]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            RunRecord(f"b{uuid.uuid4().hex[:8]}", directory) as record,
            KafkaServer(record, jit="full") as kafka,
        ):
            if which in {None, "amqp"}:
                with RabbitmqServer(record) as broker:
                    amqp(directory, kafka.bootstrap, (broker.host, broker.port), profile)
            if which in {None, "coap"}:
                coap(directory, kafka.bootstrap, "small", rate=0, profile=profile)
                coap(directory, kafka.bootstrap, "small", rate=900)
                coap(directory, kafka.bootstrap, "protobuf", rate=0)


if __name__ == "__main__":
    main(sys.argv[1:])
