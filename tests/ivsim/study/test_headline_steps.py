"""The headline of steps: each step that was measured, by its name, and none that was not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ivsim.study.engines.base import engine_named
from ivsim.study.headline import Steps
from ivsim.study.statistics import Interval


def cell(figure: float | None, **values: object) -> SimpleNamespace:
    """Return a cell with one figure."""
    return SimpleNamespace(
        cell=SimpleNamespace(sweep="all", values=values),
        interval=lambda _metric: Interval(figure, None, None, 1),
    )


DONE = [
    cell(100.0, mode="mqtt qos1", security="plain", loss=0.0),
    cell(140.0, mode="mqtt qos1", security="tls", loss=0.0),
    cell(100.0, mode="mqtt qos1", security="plain", loss=0.1),
    cell(160.0, mode="mqtt qos1", security="tls", loss=0.1),
    cell(50.0, mode="coap con", security="plain", loss=0.0),
    cell(75.0, mode="coap con", security="oscore", loss=0.0),
]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [["plain", "tls"], ["plain", "oscore"], ["tls", "mtls"]],
            (
                "In bytes: MQTT QoS 1 plain to tls: 100 to 150 B (50.0 more), n = 2;"
                " CoAP CON plain to oscore: 50.0 to 75.0 B (25.0 more), n = 1."
            ),
        ),
        ([["plain", "tls"]], "In bytes: MQTT QoS 1 100 to 150 B (50.0 more), n = 2."),
        ([["tls", "plain"]], "In bytes: MQTT QoS 1 150 to 100 B (50.0 less), n = 2."),
        ([["tls", "mtls"]], "In bytes: undefined."),
    ],
)
def test_steps_that_nobody_measured_are_left_out(steps: list[tuple[str, str]], said: str) -> None:
    headline = Steps(
        kind="steps",
        opening="In bytes:",
        axis="security",
        steps=steps,
        each="mode",
        metrics={"overhead_bytes_per_message": "B"},
    )
    assert headline.sentence(engine_named("whole_run"), DONE) == said
