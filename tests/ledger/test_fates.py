"""What becomes of a message: runs with a known place for each, whose ledger is built of their files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.report.run_charts import run_charts
from ledger.build import build
from tests.twin.made_up import LOSS_TIMEOUT_S, SECOND, KeptRun
from twin.config import TwinConfig


@pytest.fixture
def run(tmp_path: Path) -> KeptRun:
    return KeptRun(TwinConfig(run_dir=str(tmp_path), bootstrap="gone:1"))


def test_three_messages_dropped_at_three_places_are_named(run: KeptRun) -> None:
    for sequence in range(1, 11):
        row = run.due(1, sequence, acknowledged_at_ns=None)
        if sequence == 3:
            continue
        row["acknowledged_at_ns"] = row["emitted_at_ns"] + 1_000
        if sequence == 5:
            continue
        received = run.take(row)
        if sequence != 7:
            run.append(row, received)
    run.flush()
    newest = run.emissions[-1]
    run.append(newest, newest["due_at_ns"] + 9, run.config.topics.state, messages=7)
    run.write()
    build(run.ledger)
    lost = [
        row
        for row in pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
        if row["fate"] == "lost"
    ]
    assert [(row["sequence"], row["hop"]) for row in lost] == [(3, "link"), (5, "broker"), (7, "gateway")]


def test_a_message_that_somebody_has_was_sent_whatever_the_log_says(run: KeptRun) -> None:
    """The sender was killed before it wrote the stamps: one is in Kafka, one with the gateway, one nowhere."""
    for sequence in (1, 2, 3):
        row = run.due(1, sequence, emitted_at_ns=None, unsent_reason="sender_ended")
        if sequence < 3:
            received = run.take(row)
        if sequence == 1:
            run.append(row, received)
    run.flush()
    run.write()
    found = build(run.ledger)
    assert (found["lost_at_kafka"], found["lost_at_gateway"], found["unsent"]) == (1, 1, 1)


def test_a_message_that_was_not_due_yet_when_the_run_stopped_is_not_due(run: KeptRun) -> None:
    """Three are due before the stop, of which the sender gave one up; of five due behind it, one had been sent."""
    for sequence in range(1, 9):
        sent = sequence in {1, 3, 4}
        run.due(1, sequence, **({} if sent else {"emitted_at_ns": None, "unsent_reason": "left_at_end"}))
    run.flush()
    run.write(stop_at_ns=run.emissions[3]["due_at_ns"])
    found = build(run.ledger)
    rows = pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
    reasons = [row["unsent_reason"] for row in rows]
    assert reasons == [None, "left_at_end", None, None, *["run_stopped"] * 4]
    assert [row["fate"] for row in rows] == ["unknown", "unsent", "unknown", "unknown", *["unsent"] * 4]
    assert (found["run_due"], found["due"], found["unsent"]) == (4, 0, 0)
    manifest = {"start_at_ns": run.start_at_ns, "options": {}}
    run.config.run_file("manifest.json").write_text(json.dumps(manifest))
    fates, _ = run_charts(Path(run.config.run_dir))["fates.svg"]
    (axes,) = fates.axes
    assert sum(bar.get_width() for bar in axes.containers[0]) == 4


def test_the_peers_last_word_decides_whether_a_message_is_refused(run: KeptRun) -> None:
    said = {"refused_reason": "5.03 Service Unavailable", "refused_by": "gateway"}
    for sequence in range(1, 8):
        row = run.due(1, sequence, refused_at_ns=run.start_at_ns, **said)
        if sequence > 4:
            row |= {"refused_reason": "Quota exceeded", "refused_by": "broker"}
        if sequence in (2, 3, 6):
            received = run.take(row)
        if sequence == 3:
            run.append(row, received)  # refused at first, then delivered
        if sequence == 4:
            row["acknowledged_at_ns"] = row["emitted_at_ns"] + 5
        if sequence == 7:
            row["emitted_at_ns"] = run.start_at_ns + 500 * SECOND  # after the stop: its timeout is not over
    run.flush()
    run.append(run.emissions[3], run.start_at_ns + 9, run.config.topics.state, messages=1)
    run.write()
    found = build(run.ledger)
    rows = pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
    assert [(row["fate"], row["hop"], row["refused_reason"]) for row in rows] == [
        ("refused", "gateway", "5.03 Service Unavailable"),
        ("refused", "gateway", "5.03 Service Unavailable"),  # taken, and then not kept
        ("delivered", None, "5.03 Service Unavailable"),
        ("lost", "broker", "5.03 Service Unavailable"),  # accepted in the end, then gone
        ("refused", "broker", "Quota exceeded"),
        ("lost", "gateway", "Quota exceeded"),  # one queue was full, another was not
        ("refused", "broker", "Quota exceeded"),
    ]
    assert (found["refused"], found["refused_by_gateway"], found["refused_by_broker"]) == (4, 2, 2)


def test_a_message_on_its_way_at_the_stop_is_not_lost(run: KeptRun) -> None:
    """Four emitted, the loss timeout of two not over at the stop; the gateway has one of each pair."""
    for sequence in (1, 2, 3, 4):
        row = run.due(1, sequence)
        if sequence in (1, 3):
            run.take(row)
    second = run.emissions[2]["emitted_at_ns"]
    run.flush()
    timeout_ns = round(LOSS_TIMEOUT_S * 1e9)
    run.write(stop_at_ns=second - 1 + timeout_ns)
    found = build(run.ledger)
    rows = pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
    assert [(row["fate"], row["hop"], row["in_window"]) for row in rows] == [
        ("lost", "gateway", True),
        ("lost", "link", True),
        ("lost", "gateway", True),
        ("unknown", None, False),
    ]
    assert (found["due"], found["unknown"], found["delivery_ratio"]) == (3, 0, 0.0)


def test_a_ledger_knows_the_format_of_a_plug_in_that_it_is_told_of(run: KeptRun, tmp_path: Path) -> None:
    row = run.due(1, 1)
    run.append(row, run.take(row), format="cborjson")
    run.append(row, row["due_at_ns"] + 9, run.config.topics.state, messages=1)
    run.write()
    assert build(run.ledger)["lost_at_kafka"] == 1
    assert pq.read_table(tmp_path / "ledger.parquet")["rejected_reason"].to_pylist() == ["unknown_format"]
    assert build(run.ledger.model_copy(update={"more_formats": ("cborjson",)}))["delivered"] == 1
