"""`ivsim serve`: a stranger's message over a broker that is there becomes a twin, and all of it is closed in order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

from ivsim.testbed.kafka_admin import topics_of
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker]

STATUS = (
    b'{"header":{"vehicleId":"truck-7","sequenceNumber":"%d","sampledAtMs":"1767225600000","epoch":1},'
    b'"position":{"latitudeDeg":52.1,"longitudeDeg":13.4,"groundSpeedKmh":81.5}}'
)
READY_S = 200.0


def answer(url: str) -> bytes:
    """Return what is at a URL, b"" while nothing is there."""
    try:
        with urllib.request.urlopen(url, timeout=10) as found:
            return found.read()
    except urllib.error.HTTPError as error:
        with error:
            return b""


@pytest.mark.full
def test_a_strangers_message_becomes_a_twin_and_all_is_closed_in_order(
    tmp_path: Path, kafka: str, run_record: RunRecord
) -> None:
    prefix, log = f"{uuid.uuid4().hex[:8]}.", tmp_path / "serve.log"
    environment = {**os.environ, "IVSIM_STATE_DIR": str(tmp_path / "notes")}
    with MosquittoServer(run_record) as broker, log.open("w") as errors:
        words = (
            f"mqtt --target mqtt://127.0.0.1:{broker.port} --kafka {kafka} --kafka-topic-prefix {prefix} --format json"
            f" --make-topics --state {tmp_path / 'twins'} --page-port 0"
        )
        serving = subprocess.Popen(
            [sys.executable, "-m", "ivsim.cli", "serve", *words.split()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
        )  # fmt: skip
        try:
            line = serving.stdout.readline()
            found = re.search(r"twins at (http://\S+?)/? \(", line)
            assert found is not None, log.read_text()
            thing = f"{found[1]}/api/2/things/ivsim:truck-7"
            assert f"made {prefix}" in log.read_text()
            for number in (1, 2):
                subprocess.run(
                    ["mosquitto_pub", "-p", str(broker.port), "-q", "1", "-t", "vehicles/truck-7/status", "-s"],
                    input=STATUS % number, check=True, timeout=30,
                )  # fmt: skip
            end_s = time.monotonic() + 60
            sequence = f"{thing}/features/delivery/properties/sequence"
            while answer(sequence) != b"2":
                assert time.monotonic() < end_s, log.read_text()
                assert serving.poll() is None, log.read_text()
                time.sleep(0.1)
            assert answer(f"{thing}/features/position/properties/groundSpeedKmh") == b"81.5"
            serving.send_signal(signal.SIGTERM)
            rest, _ = serving.communicate(timeout=60)
        finally:
            serving.kill()
            serving.wait(10)
    assert (serving.returncode, rest) == (0, ""), log.read_text()
    assert log.read_text().splitlines()[-1] == "ivsim: stopped; topics and state stay"
    assert f"{prefix}twin.state" in topics_of(kafka, prefix)
    assert list((tmp_path / "notes").iterdir()) == []
    left = {path.name for path in (tmp_path / "twins").iterdir()}
    assert {"checkpoint", "logs", "lock"} <= left
    assert "work" not in left
