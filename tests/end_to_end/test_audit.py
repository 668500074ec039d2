"""A real run of each protocol, audited: every figure agrees, the frames' too; `bench.audit_modes` does it for every mode.

One of them has a Kafka at which everyone must log in: nothing else listens there, so a part that did not would get none.
"""

from __future__ import annotations

import json

import pytest
from end_to_end_runs import Runs

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

MODES = {
    "mqtt": ("--protocol", "mqtt", "--qos", "0", "--prove-link"),
    "amqp": ("--protocol", "amqp", "--ack", "manual", "--kafka-security", "sasl-ssl"),
    "coap": ("--protocol", "coap", "--con"),
}


@pytest.mark.full
@pytest.mark.parametrize("protocol", MODES)
def test_the_audit_of_a_real_run_agrees(runs: Runs, protocol: str) -> None:
    small = (
        "--vehicles",
        "3",
        "--duration",
        "6",
        "--warmup",
        "1",
        "--loss",
        "0.03",
        "--loss-timeout",
        "10",
        "--quiet",
    )
    run = runs.on_testbed(f"audit-{protocol}", *MODES[protocol], *small, "--pcap")
    assert run.metrics["run_due"] == 18, run.stderr
    probed = [c for c in run.metrics["certificate"]["checks"] if c["parameter"] == "rate, saturating probe"]
    assert len(probed) == (protocol == "mqtt")  # the trace has a rate uplink alone
    done = runs.call("audit", str(run.directory), "--json")
    found = json.loads(done.stdout)
    assert [file for file in found["files"] if file["differences"]] == []
    assert done.returncode == 0
    assert found["notes"] == []
    assert {file["file"] for file in found["files"] if "tshark" in file["source"]} == {
        "wire.parquet",
        "wire_categories.parquet",
        "wire_messages.parquet",
    }
    assert found["compared"] > 3_000
    # A wrong fate is found, in the row and in the count.
    metrics = run.metrics
    (run.directory / "metrics.json").write_text(json.dumps(metrics | {"delivered": metrics["delivered"] - 1}))
    assert runs.call("audit", str(run.directory)).returncode == 1
