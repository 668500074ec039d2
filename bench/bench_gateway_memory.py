"""One gateway at 1,000 messages/s for minutes: is its memory flat? Ten of them: `python -m bench.bench_gateway_memory 600`."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from bench.bench_bridge import PACED_PER_S, Stand, cpu_s, messages, resident_mb, wait_delivered
from bench.mqtt_load import publish_paced
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord

SECONDS = 60
SAMPLES = 10


def main(seconds: int = SECONDS) -> None:
    """Print resident memory and CPU at ten instants of the soak."""
    with tempfile.TemporaryDirectory() as name:
        record = RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(name))
        with record, KafkaServer(record) as kafka, MosquittoServer(record) as broker:
            soak(Stand(record, kafka.bootstrap, broker), seconds)


def soak(stand: Stand, seconds: int) -> None:
    total = PACED_PER_S * seconds
    with stand.gateway() as gateway:
        load = messages(total)
        sender = threading.Thread(
            target=publish_paced, args=(stand.broker, f"load-{stand.run}", load, PACED_PER_S), daemon=True
        )
        sender.start()
        for sample in range(1, SAMPLES + 1):
            sender.join(seconds / SAMPLES)
            print(
                f"{sample * seconds / SAMPLES:6.0f} s  {resident_mb(gateway.pid):6.1f} MB resident"
                f"  {cpu_s(gateway.pid):6.1f} s CPU",
                flush=True,
            )
        sender.join()
        began_s = time.monotonic()
        event = wait_delivered(gateway, total)
        waited_s = time.monotonic() - began_s
        print(
            f"{event['delivered']:,} of {total:,} in Kafka {waited_s:.1f} s after the last, duplicates {event['duplicates']}"
        )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:2]))
