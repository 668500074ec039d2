"""The table that a run ends with: rare fates when there are any, who refused, and which messages it counts."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from ivsim.report.terminal import print_summary
from twin.metrics import METRICS


def printed(**figures: Any) -> str:
    out = io.StringIO()
    metrics = dict.fromkeys(METRICS) | {"due": 20, "run_due": 20} | figures
    print_summary(Console(file=out, width=80), metrics, "mqtt qos1, 2 vehicles", None)
    return out.getvalue()


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
