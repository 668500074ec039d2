"""The ledger of a long run, to every row and figure: time and memory.

python -m bench.bench_ledger [--messages N] [--vehicles N] [--kafka]

Without --kafka the run is one of the echo topology, whose ledger is built of the emission log alone. With it Kafka's records are
kept first, a state of the twin for each message, as they are at the end of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.kafka_log import KafkaLog
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from ledger.config import LedgerConfig
from ledger.kept import Tally
from schemas.topics import KafkaTopics, vehicle_id
from twin.config import TwinConfig
from twin.kafka_topics import ensure_topics

START_NS = 1_800_000_000_000_000_000
SECOND_NS = 1_000_000_000
LOST_EACH = 50
TIMEOUT_S = 900.0


def emissions(messages: int, vehicles: int, *, echo: bool) -> pa.Table:
    """Return an emission log of a message a second and vehicle, one in fifty lost."""
    index = np.arange(messages)
    due = START_NS + index // vehicles * SECOND_NS + index % vehicles * 1_000
    names = pa.array([vehicle_id(number) for number in range(1, vehicles + 1)])
    arrived = index % LOST_EACH != 0
    nothing = pa.nulls(messages, pa.int64())
    words = pa.nulls(messages, pa.string())
    delay = np.random.default_rng(1).integers(20_000_000, 900_000_000, messages)
    return pa.table(
        {
            "vehicle_id": names.take(pa.array(index % vehicles)),
            "epoch": pa.array(np.ones(messages, np.int32)),
            "sequence": pa.array(index // vehicles + 1),
            "sampled_at_ns": pa.array(due),
            "due_at_ns": pa.array(due),
            "emitted_at_ns": pa.array(due + 100_000),
            "acknowledged_at_ns": pa.array(due + delay, mask=~arrived),
            "refused_at_ns": nothing,
            "refused_reason": words,
            "refused_by": words,
            "unanswered_at_ns": nothing,
            "received_at_ns": pa.array(due + delay, mask=~(arrived & echo)),
            "payload_bytes": pa.array(np.full(messages, 300, np.int32)),
            "unsent_reason": words,
            "buffered": pa.array(np.zeros(messages, bool)),
        }
    )


def write_run(directory: Path, log: pa.Table, *, echo: bool) -> None:
    """Write what a ledger reads from a run's directory."""
    pq.write_table(log, directory / "emissions.parquet")
    last = int(log["due_at_ns"][-1].as_py())
    words = {
        "start_at_ns": START_NS,
        "warmup_s": 0.0,
        "end_at_ns": last + 1,
        "stop_at_ns": last + 100 * SECOND_NS,
    }
    (directory / "run.json").write_text(json.dumps(words))
    if not echo:
        taken = log.filter(log["acknowledged_at_ns"].is_valid())
        columns = {name: taken[name] for name in ("vehicle_id", "epoch", "sequence")}
        pq.write_table(
            pa.table(columns | {"received_at_ns": taken["acknowledged_at_ns"]}),
            directory / "received.parquet",
        )


def fill(config: TwinConfig, log: pa.Table) -> None:
    """Write each message that arrived to vehicle.status, and behind it to twin.state as the newest of its vehicle's."""
    ensure_topics(config)
    producer = Producer(
        {"bootstrap.servers": config.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    common = [("format", b"protobuf"), ("protocol", b"mqtt"), ("mode", b"qos1"), ("epoch", b"1")]
    topics = KafkaTopics(config.topics_prefix)
    taken: dict[str, int] = defaultdict(int)
    for batch in log.filter(log["acknowledged_at_ns"].is_valid()).to_batches(100_000):
        states = []
        for name, sequence, at in zip(
            *(batch[column].to_pylist() for column in ("vehicle_id", "sequence", "acknowledged_at_ns")),
            strict=True,
        ):
            # The stamps of a run to come would be rejected.
            stamp = str(at - START_NS + SECOND_NS).encode()
            headers = [
                *common,
                ("sequence", b"%d" % sequence),
                ("sampled_at_ns", stamp),
                ("received_at_ns", stamp),
            ]
            payload = name.encode() + b"." * 40
            producer.produce(topics.status, payload, name, headers=headers)
            taken[name] += 1
            states.append((payload, name, [*headers, ("messages", b"%d" % taken[name])]))
        producer.flush()
        for payload, name, headers in states:
            producer.produce(topics.state, payload, name, headers=headers)
        producer.flush()


class Memory:
    """Resident memory of a process and all below it, the most of it, sampled five times a second."""

    def __init__(self, pid: int) -> None:
        self._pid, self._over = pid, threading.Event()
        self.most_bytes = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.most_bytes = max(self.most_bytes, sum(map(resident_bytes, below(self._pid))))


def below(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from below(int(child))


def resident_bytes(pid: int) -> int:
    """Return the process's share of memory, pages that it shares with others divided among them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1_024
    return 0


def measure(config: LedgerConfig) -> None:
    """Run the ledger in a process of its own and print what it took."""
    path = Path(config.run_dir) / "ledger.json"
    path.write_text(config.model_dump_json())
    began_s = time.monotonic()
    words = [sys.executable, "-m", "ledger", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as ledger:
        memory = Memory(ledger.pid)
        said, _ = ledger.communicate(timeout=TIMEOUT_S)
        memory.stop()
    took_s = time.monotonic() - began_s
    if ledger.returncode:
        raise SystemExit(f"the ledger ended with {ledger.returncode}")
    summary = json.loads(said.strip().splitlines()[-1])
    summary.pop("event", None)
    size = (Path(config.run_dir) / "ledger.parquet").stat().st_size
    print(f"  ledger: {took_s:.1f} s with its start; {memory.most_bytes / 2**30:.2f} GiB at most")
    print(f"  ledger.parquet: {size / 2**20:.0f} MiB")
    print(f"  {summary}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--vehicles", type=int, default=1_000)
    parser.add_argument("--kafka", action="store_true")
    chosen = parser.parse_args()
    log = emissions(chosen.messages, chosen.vehicles, echo=not chosen.kafka)
    print(
        f"{chosen.messages:,} messages of {chosen.vehicles:,} vehicles, {'with Kafka' if chosen.kafka else 'echo'}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        write_run(directory, log, echo=not chosen.kafka)
        if not chosen.kafka:
            measure(LedgerConfig(run_dir=scratch, topology="echo"))
            return
        with RunRecord("bench-ledger", directory) as record, KafkaServer(record, jit="full") as kafka:
            config = TwinConfig(run_dir=scratch, bootstrap=kafka.bootstrap)
            began_s = time.monotonic()
            fill(config, log)
            print(f"  topics filled in {time.monotonic() - began_s:.0f} s")
            del log
            ledger = LedgerConfig(run_dir=scratch)
            began_s, memory = time.monotonic(), Memory(os.getpid())
            address, path = KafkaAddress(kafka.bootstrap), directory / "kafka_records.parquet"
            records = KafkaLog(address, path, tally=Tally(ledger)).keep()
            memory.stop()
            print(
                f"  {records:,} records kept in {time.monotonic() - began_s:.0f} s;"
                f" {memory.most_bytes / 2**30:.2f} GiB at most, Kafka's with them"
            )
            measure(ledger)


if __name__ == "__main__":
    main()
