"""The main job over each link back end: the figures agree everywhere, and a second run repeats the first."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections import Counter
from functools import cache

import pytest
from end_to_end_runs import Finished, Runs, namespaces_of, processes_of

from ledger.metrics import FATES
from schemas.quantiles import nearest_rank_ms
from simulator.links import AUTO, LINKS
from twin.live_sums import QUANTILES

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

# Every kind of part that the netem back end makes, asked of the kernel by programs that are not ours: where our own code
# finds that this machine cannot, that may be its own fault.
NETEM = """set -e
ip link add i0 type ifb
tc qdisc add dev i0 root handle 1: htb
tc class add dev i0 parent 1: classid 1:1 htb rate 1mbit
tc class add dev i0 parent 1: classid 1:2 htb rate 1mbit
tc qdisc add dev i0 parent 1:1 netem delay 1ms
tc qdisc add dev i0 parent 1:2 plug
tc filter add dev i0 parent 1: prio 1 handle 1 flow map key dst
tc filter add dev i0 parent 1: prio 2 u32 match u32 0 0 action mirred egress redirect dev lo
"""
SMALL = ("--vehicles", "6", "--duration", "8", "--quiet", "--seed", "7")


@cache
def lack_of(link: str) -> str | None:
    """Return what this machine has not, and the back end cannot do without; None where it has to work."""
    if link == "uml" and shutil.which("linux.uml") is None:
        return "user-mode-linux is not installed"
    if link == "netem":
        made = subprocess.run(
            ["unshare", "--net", "sh", "-c", NETEM], capture_output=True, text=True, check=False
        )
        if made.returncode:
            return f"this kernel has not what netem needs: {made.stderr.strip()}"
    return None


@pytest.fixture(
    scope="module", params=[AUTO, *(pytest.param(name, marks=pytest.mark.full) for name in LINKS)]
)
def finished(request: pytest.FixtureRequest, runs: Runs) -> Finished:
    lack = lack_of(request.param)
    if lack is not None:
        pytest.skip(lack)
    # One by itself, as a user begins; where the link is another one, all else is the same.
    run = runs.run if request.param == AUTO else runs.on_testbed
    return run(f"main-{request.param}", *SMALL, "--link", request.param, "--pcap")


def test_a_run_by_itself_drives_its_fastest_seconds_again(
    finished: Finished, request: pytest.FixtureRequest
) -> None:
    proof = finished.directory / "link_proof.json"
    if request.node.callspec.params["finished"] != AUTO:
        assert not proof.exists()  # on a testbed runs follow each other
        return
    seconds = json.loads(proof.read_text())["seconds"]
    rows = [row for row in finished.rows("link.parquet") if row["direction"] == "uplink"]
    asked = [row["asked_rate_bps"] for row in rows if row["asked_rate_bps"] is not None]
    driven = [(check["parameter"], check["asked_value"]) for second in seconds for check in second["checks"]]
    rates = [value for parameter, value in driven if parameter == "rate, UDP"]
    assert 1 <= len(rates) <= 3  # the trace has a rate uplink alone, and no outage
    assert min(rates) in [pytest.approx(0.99 * rate) for rate in asked]  # a hundredth is lost
    assert [value for parameter, value in driven if parameter == "loss"] == [0.01, 0.01]
    (probed,) = [
        c for c in finished.metrics["certificate"]["checks"] if c["parameter"] == "rate, saturating probe"
    ]
    # A machine that gives the sender no processor for a while shows in what it offered, and nothing is proven.
    assert probed["verdict"] == "pass" or "the sender" in probed["achieved"], probed


def test_everything_is_delivered_at_one_per_cent_loss(finished: Finished) -> None:
    assert finished.in_order, finished.stderr
    metrics = finished.metrics
    assert metrics["due"] == 48
    assert metrics["delivery_ratio"] == 1.0
    assert metrics["due"] == sum(metrics[fate] for fate in FATES)
    assert metrics["partial"] is False


def test_report_metrics_and_ledger_agree(finished: Finished) -> None:
    metrics = finished.metrics
    fates = Counter(row["fate"] for row in finished.rows("ledger.parquet") if row["in_window"])
    for fate in FATES:
        assert fates[fate] == metrics[fate]
    page = (finished.directory / "report.html").read_text()
    shown = dict(re.findall(r'data-metric="([^"]+)" data-value="([^"]*)"', page))
    assert len(shown) > 40
    for name, value in shown.items():
        assert json.loads(html.unescape(value)) == metrics[name], name


def test_the_streaming_job_and_the_ledger_agree_at_the_end(finished: Finished) -> None:
    assert finished.metrics["live"] == {"verdict": "agree", "counts_compared": 30, "differences": []}
    live = json.loads((finished.directory / "live.json").read_text())
    ledger = finished.rows("ledger.parquet")
    for vehicle, row in live["vehicles"].items():
        own = [r for r in ledger if r["vehicle_id"] == vehicle]
        assert row["received"] == sum(r["fate"] in {"delivered", "late"} for r in own) == 8
        assert row["delivery_ratio"] == 1.0
        assert row["gaps"] == 0
    # Of so few values the live quantiles are exact, but for stamps: a payload's are whole milliseconds. Over TCP no message
    # overtakes another.
    latencies = sorted(r["end_to_end_latency_ns"] for r in ledger)
    for name, share in QUANTILES.items():
        found = live["fleet"][f"end_to_end_latency_{name}_ms"]
        assert found == pytest.approx(nearest_rank_ms(latencies, share), abs=1.0), name
    assert live["fleet"]["received"] == len(ledger)
    assert live["fleet"]["age_of_information_mean_ms"] > 500  # half an interval, and the way


def test_the_report_opens_offline(finished: Finished) -> None:
    page = (finished.directory / "report.html").read_text()
    assert page.count("<svg") >= 5
    assert not re.search(r"""(src|href)=["']?https?:""", page)


def test_wire_bytes_are_those_of_the_capture(finished: Finished) -> None:
    link = finished.rows("link.parquet")
    for way in ("uplink", "downlink"):
        seen = sum(row["wire_bytes"] or 0 for row in link if row["direction"] == way)
        probes = sum(row["probe_bytes"] or 0 for row in link if row["direction"] == way)
        assert probes == finished.metrics[f"probe_bytes_{way}"] > 0
        assert seen - probes == finished.metrics[f"wire_bytes_{way}"]
    payload = sum(row["payload_bytes"] for row in finished.rows("ledger.parquet"))
    assert finished.metrics["wire_bytes_uplink"] > payload


def test_the_audit_agrees_and_finds_a_wrong_count(finished: Finished, runs: Runs) -> None:
    done = runs.call("audit", str(finished.directory), "--json")
    found = json.loads(done.stdout)
    assert [file for file in found["files"] if file["differences"]] == []
    assert (done.returncode, found["notes"]) == (0, [])
    assert {file["file"] for file in found["files"] if "tshark" in file["source"]} == {
        "wire.parquet",
        "wire_categories.parquet",
        "wire_messages.parquet",
    }
    path, metrics = finished.directory / "metrics.json", finished.metrics
    path.write_text(json.dumps(metrics | {"delivered": metrics["delivered"] - 1}))
    try:
        assert runs.call("audit", str(finished.directory)).returncode == 1
    finally:
        path.write_text(json.dumps(metrics))


def test_nothing_is_left_running(finished: Finished) -> None:
    run = finished.manifest["run"]
    assert processes_of(run) == []
    assert namespaces_of(run) == []
    assert not (finished.directory / "work").exists()


def test_json_prints_the_metrics_alone_and_the_seed_repeats_the_run(finished: Finished, runs: Runs) -> None:
    link = finished.manifest["options"]["link"]
    second = runs.on_testbed(f"repeat-{link}", *SMALL, "--link", link, "--json")
    assert json.loads(second.stdout) == second.metrics
    assert _messages(finished) == _messages(second)
    assert _asked(finished) == _asked(second)


def _messages(run: Finished) -> list[tuple[str, int, int, int]]:
    start = run.manifest["start_at_ns"]
    rows = run.rows("ledger.parquet")
    return [(r["vehicle_id"], r["sequence"], r["due_at_ns"] - start, r["payload_bytes"]) for r in rows]


def _asked(run: Finished) -> list[tuple[object, ...]]:
    keys = ("second", "vehicle_id", "direction", "asked_rate_bps", "asked_delay_ms", "asked_loss_ratio")
    return [tuple(r[k] for k in keys) for r in run.rows("link.parquet") if 0 <= r["second"] < 8]
