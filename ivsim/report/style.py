"""Colours, fonts and number formats that every figure and table of a report shares."""

from __future__ import annotations

from typing import Any, Final

# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart, and that differ in print.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
YELLOW: Final = "#F0E442"
BLACK: Final = "#000000"

FATE_COLOURS: Final = {"delivered": GREEN, "late": ORANGE, "lost": VERMILION, "unsent": PURPLE}

STAGE_COLOURS: Final = {
    "emission lag": BLACK,
    "one-way delay": BLUE,
    "bridge delay": ORANGE,
    "processing delay": GREEN,
    "end-to-end latency": VERMILION,
    "acknowledgement time": PURPLE,
}

MATPLOTLIB: Final[dict[str, Any]] = {
    "figure.figsize": (8.0, 3.4),
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.fonttype": "path",
    # The same figure gives the same bytes: element ids come from this word, not from chance.
    "svg.hashsalt": "ivsim",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def number(value: Any, unit: str = "") -> str:
    """Return `value` as a person reads it; a figure that is not defined stays a dash."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = (
            f"{value:,.4f}" if unit == "ratio" else f"{value:,.1f}" if abs(value) >= 100 else f"{value:,.3g}"
        )
    else:
        return str(value)
    return f"{text} {unit}" if unit and unit not in {"ratio", "messages", "1"} else text


# Modes by colour, marker and line: protocols differ in marker and line too, so that print without colour will do.
MODE_STYLES: Final[dict[str, dict[str, Any]]] = {
    "mqtt qos0": {"color": BLUE, "marker": "o", "linestyle": "-", "label": "MQTT QoS 0"},
    "mqtt qos1": {"color": SKY, "marker": "s", "linestyle": "-", "label": "MQTT QoS 1"},
    "mqtt qos2": {"color": PURPLE, "marker": "^", "linestyle": "-", "label": "MQTT QoS 2"},
    "amqp auto": {"color": ORANGE, "marker": "D", "linestyle": "--", "label": "AMQP auto"},
    "amqp manual": {"color": VERMILION, "marker": "v", "linestyle": "--", "label": "AMQP manual"},
    "coap non": {"color": BLACK, "marker": "x", "linestyle": ":", "label": "CoAP NON"},
    "coap con": {"color": GREEN, "marker": "P", "linestyle": ":", "label": "CoAP CON"},
    "amqp manual-confirms-persistent": {
        "color": "#7F3B08", "marker": "<", "linestyle": "--", "label": "AMQP manual, confirms, persistent",
    },
}  # fmt: skip


def mode_style(mode: str) -> dict[str, Any]:
    """Return how a mode looks in every figure; one without a style of its own is grey with its name."""
    return MODE_STYLES.get(mode, {"color": "#666666", "marker": ".", "linestyle": "-.", "label": mode})
