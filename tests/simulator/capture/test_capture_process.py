"""The capture process when the machine is slow."""

from __future__ import annotations

import os
import signal
import socket
import time

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from capture_child import CaptureChild
from lossy_wire import LossyWire

from schemas.topics import CLOUD_ADDRESS, vehicle_address, vehicle_id
from simulator.capture.tables import attributed_count
from simulator.links import namespaces

pytestmark = pytest.mark.netns
SENT = 1000  # of 1,442 bytes: more than a block of the ring holds, so that one is ready at once


@pytest.fixture
def wire(run_record):
    with LossyWire(run_record.run_id) as link:
        yield link


def send(wire, number=1):
    with namespaces.inside(wire.vehicles_namespace):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with client:
        client.bind((vehicle_address(number), 0))
        for _ in range(SENT):
            client.sendto(bytes(1400), (CLOUD_ADDRESS, 9))


def test_a_start_that_is_read_late_moves_no_frame(wire, tmp_path):
    """What waits in the ring when the command is read came after the start that it names."""
    with CaptureChild(wire, tmp_path) as capture:
        os.kill(capture.process.pid, signal.SIGSTOP)
        os.waitpid(capture.process.pid, os.WUNTRACED)
        capture.command(command="start", at_ns=time.time_ns())
        send(wire)
        os.kill(capture.process.pid, signal.SIGCONT)
        done = capture.stop()
    assert pc.min(pq.read_table(done["wire"])["second"]).as_py() >= 0
    assert set(pq.read_table(done["categories"])["phase"].to_pylist()) == {"run"}


def test_a_capture_does_without_pandas(wire, tmp_path, monkeypatch, capfd):
    """The end of a run waits for its tables: pyarrow would load pandas, for a third of a second."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with CaptureChild(wire, tmp_path) as capture:
        capture.command(command="start", at_ns=time.time_ns())
        send(wire)
        done = capture.stop()
    assert pq.read_metadata(done["categories"]).num_rows > 0
    loaded = {line.rpartition("|")[2].strip() for line in capfd.readouterr().err.splitlines()}
    assert "pyarrow.parquet" in loaded
    assert "pandas.core" not in loaded  # the attempt alone is named, too


def test_the_bytes_of_a_sample_are_attributed_and_those_of_all_are_counted(wire, tmp_path):
    with CaptureChild(wire, tmp_path, attributed_ends=[2]) as capture:
        capture.command(command="start", at_ns=time.time_ns())
        send(wire, 1)
        send(wire, 2)
        done = capture.stop()
    counted = (
        pq.read_table(done["wire"]).group_by("vehicle_id").aggregate([("link_bytes", "sum")]).to_pylist()
    )
    sums = {row["vehicle_id"]: row["link_bytes_sum"] for row in counted}
    assert sums[vehicle_id(1)] >= SENT * 1442
    assert sums[vehicle_id(2)] >= SENT * 1442
    categories = pq.read_table(done["categories"])
    assert attributed_count(categories.schema) == 1
    assert set(categories["vehicle_id"].to_pylist()) == {vehicle_id(2)}
    assert pc.sum(categories["bytes"]).as_py() == sums[vehicle_id(2)]
