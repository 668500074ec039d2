"""The table that a run ends with: rare fates when there are any, who refused, and which messages it counts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from ivsim.report.page import _key_figures
from ivsim.report.terminal import print_summary
from ivsim.topologies import TOPOLOGIES
from ledger.metrics import METRICS


def printed(report: Path | None = None, topology: str = "gateway", **figures: Any) -> str:
    out = io.StringIO()
    metrics = dict.fromkeys(METRICS) | {"due": 20, "run_due": 20} | figures
    print_summary(Console(file=out, width=80), metrics, "mqtt qos1, 2 vehicles", report, topology)
    return out.getvalue()


def test_what_the_link_proved_and_whether_the_figures_hold_stand_last() -> None:
    certificate = {"verdict": "off", "statement": "1 of 14 checks is off: loss uplink. Probes cost 9 B/s."}
    cause = {"name": "certificate_off", "severity": "degraded", "words": "the link did something else"}
    last = printed(
        Path("results/one/report.html"),
        certificate=certificate,
        validity={"verdict": "degraded", "causes": [cause]},
    ).splitlines()[-3:]
    assert [line.rstrip() for line in last] == [
        "link: off 1 of 14 checks is off: loss uplink.",
        "run: degraded: the link did something else",
        "report: results/one/report.html",
    ]
    # A result of before there was either has no word for it, and the lines say so.
    assert [line.split()[:2] for line in printed().splitlines()[-2:]] == [
        ["link:", "none"],
        ["run:", "unknown"],
    ]


def test_a_way_that_ends_before_kafka_shows_nothing_of_what_is_behind_its_end() -> None:
    shown = {
        topology: printed(topology=topology, one_way_delay_p50_ms=31.5, twin_updates=7)
        for topology in TOPOLOGIES
    }
    for topology, words in {
        "gateway": {"one-way delay", "bridge delay", "end-to-end latency", "twin updates"},
        "edge": {"one-way delay", "bridge delay", "end-to-end latency", "twin updates"},
        "echo": {"round trip", "acknowledgement time"},
        "peer": {"acknowledgement time"},
    }.items():
        of_some = {"one-way delay", "round trip", "bridge delay", "end-to-end latency", "twin updates"}
        assert {one for one in of_some if one in shown[topology]} == words - {"acknowledgement time"}
        assert "acknowledgement time" in shown[topology]
    assert ["round", "trip"] in [line.replace("│", " ").split()[:2] for line in shown["echo"].splitlines()]
    assert "31.5" in shown["echo"]
    assert "31.5" not in shown["peer"]


def test_a_query_says_which_share_it_answered_in_time() -> None:
    found = {"name": "nearest-station", "limit_ms": 250.0, "answers": 39, "answers_in_time_ratio": 0.95}
    said = " ".join(printed(query=found).split())
    assert "query nearest-station: 39 answers, 0.9500 of the messages due within 250 ms" in said
    unknown = dict.fromkeys(("answers", "answers_in_time_ratio"))
    assert "39" not in " ".join(printed(query={**found, **unknown}).split())
    assert "query" not in printed()


def test_fates_that_did_not_happen_take_no_room() -> None:
    shown = printed(delivered=20, late=0, lost=0, refused=0, unsent=0, unknown=0)
    assert "refused" not in shown
    assert "unknown" not in shown.partition("milliseconds")[0]


def test_refused_and_unknown_messages_are_told() -> None:
    shown = printed(
        delivered=9, late=0, lost=1, refused=4, unsent=0, unknown=6, lost_at_link=1, refused_by_broker=4,
        run_due=48, window_from_s=0.0, window_to_s=12.5,
    )  # fmt: skip
    assert "refused: 4 by broker" in shown
    assert "lost: 1 at link" in shown
    assert "counted: 20 of 48 messages, those due from 0.0 s to 12.5 s after the start" in " ".join(
        shown.split()
    )
    stopped = printed(due=20, run_due=48, run_received=40, window_from_s=0.0, window_to_s=12.5)
    assert "12.5 s after the start; of all of them 40 were received" in " ".join(stopped.split())
    early = printed(due=0, run_due=48, run_received=7, window_from_s=0.0, window_to_s=-2.0)
    assert "first loss timeout was over; of all of them 7 were received" in " ".join(early.split())
    head = "".join(shown.splitlines()[2:4])
    assert all(word in head for word in ("due", "delivered", "refused", "unknown", "duplicates", "ratio"))


def test_a_direction_that_the_trace_does_not_limit_is_unlimited() -> None:
    def asked(**figures: Any) -> dict[str, str]:
        rows = (
            line.strip("│ ").split("│") for line in printed(**figures).splitlines() if " asked bps " in line
        )
        return {label.split()[2]: value.strip() for label, value in rows}

    assert asked(link_rate_uplink_asked_bps=8_000.0) == {"uplink": "8,000.0 bit/s", "downlink": "unlimited"}
    assert asked() == dict.fromkeys(("uplink", "downlink"), "\N{EN DASH}")


def test_an_agent_is_told_with_how_well_its_times_are_known_and_why_it_was_lost() -> None:
    agents = [
        {"address": "192.0.2.7:7070", "vehicles": 500, "clock_uncertainty_ms": 0.1234, "lost": None},
        {
            "address": "b:1",
            "vehicles": 2,
            "clock_uncertainty_ms": None,
            "lost": "it has closed the connection",
        },
    ]
    lines = [line.rstrip() for line in printed(agents=agents).splitlines()]
    assert "agent 192.0.2.7:7070: 500 vehicles, its times to within 0.123 ms" in lines
    assert "agent b:1: 2 vehicles, its times by an unknown clock; lost: it has closed the connection" in lines


def test_a_run_that_counts_no_message_has_no_cost_of_a_delivered_one() -> None:
    """Stopped before a loss timeout was over: what has arrived is not judged, though its bytes were."""
    figures = {"due": 0, "run_due": 600, "run_received": 19, "overhead_bytes_per_message": 780.5}
    shown = printed(**figures)
    assert "overhead per message that arrived" in shown
    assert "delivered message" not in shown
    counted = dict.fromkeys(METRICS) | figures
    assert "Overhead bytes per message" not in dict(_key_figures(counted, "gateway"))
    assert dict(_key_figures({**counted, "due": 9}, "gateway"))["Overhead bytes per message"] == "780.5 B"
