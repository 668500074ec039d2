"""Colours, fonts and number formats that every figure and table of a report shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ivsim.topologies import TOPOLOGIES
from ledger.metrics import LATENCIES, QUANTILES

# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart, and that differ in print.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
BLACK: Final = "#000000"
GREY: Final = "#666666"

# How series look that have no look of their own, one after another; neighbours differ without colour, too.
SERIES_LOOKS: Final = tuple(
    {"color": colour, "marker": marker, "linestyle": line}
    for colour, marker, line in (
        (BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", ":"), (VERMILION, "D", "-"), (PURPLE, "v", "--"),
        (BLACK, "x", ":"), (GREY, ".", "-"),
    )
)  # fmt: skip

FATE_COLOURS: Final = {
    "delivered": GREEN,
    "late": ORANGE,
    "lost": VERMILION,
    "refused": BLUE,
    "unsent": PURPLE,
    "unknown": GREY,
}

STAGE_COLOURS: Final = {
    "one_way_delay": BLUE,
    "bridge_delay": ORANGE,
    "processing_delay": GREEN,
    "end_to_end_latency": VERMILION,
    "acknowledgement_time": PURPLE,
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


# Words of figures' names that a heading writes otherwise.
_AS_WRITTEN: Final = {"cpu": "CPU", "mb": "MB", "mib": "MiB"}


def title_of(name: str, unit: str) -> str:
    """Return a figure's name as a heading: `end_to_end_latency_p50_ms` is "End-to-end latency, p50"."""
    # A ratio has no unit: the word belongs to its name.
    stem, comma, quantile = name if unit == "ratio" else name.removesuffix(f"_{unit}"), "", ""
    before, _, last = stem.rpartition("_")
    if last in QUANTILES:
        stem, comma, quantile = before, ", ", last
    words = " ".join(_AS_WRITTEN.get(word, word) for word in stem.split("_"))
    return capital(_hyphened(words)) + comma + quantile


def capital(words: str) -> str:
    """Return words as the beginning of a heading."""
    return words[:1].upper() + words[1:]


def _hyphened(words: str) -> str:
    return words.replace("end to end", "end-to-end").replace("one way", "one-way")


def latency_words(topology: str) -> dict[str, str]:
    """Return the latencies that a run of this topology has, by name, in words.

    What an echo takes from its vehicle and back is called a round trip: nobody stamps where it turns.
    """
    way = TOPOLOGIES[topology]
    known = {name: _hyphened(name.replace("_", " ")) for name in LATENCIES}
    if way.twins:
        return known
    if way.bridged:
        return {name: words for name, words in known.items() if name != "processing_delay"}
    acknowledged = {"acknowledgement_time": known["acknowledgement_time"]}
    return {"one_way_delay": "round trip", **acknowledged} if way.echoed else acknowledged


def badge(word: str) -> tuple[str, str]:
    """Return a verdict with the class of its colour: good, warn, or plain where nothing is wrong and something is unknown."""
    colour = (
        "good"
        if word in {"valid", "pass", "proven"}
        else "warn"
        if word in {"degraded", "invalid", "off"}
        else "plain"
    )
    return word, colour


def window_words(metrics: Mapping[str, Any]) -> str | None:
    """Return which of a run's messages its figures are of; None where that is not known."""
    from_s, to_s = metrics.get("window_from_s"), metrics.get("window_to_s")
    due, run_due = metrics.get("due"), metrics.get("run_due")
    if from_s is None or to_s is None or due is None or run_due is None:
        return None
    received = metrics.get("run_received")
    rest = "" if received is None or due == run_due else f"; of all of them {received:,} were received"
    if to_s <= from_s:
        return f"none of the {run_due:,} messages due: the run ended before its first loss timeout was over{rest}"
    which = "all" if due == run_due else f"{due:,} of"
    return (
        f"{which} {run_due:,} messages, those due from {from_s:.1f} s to {to_s:.1f} s after the start{rest}"
    )


def mode_style(mode: str) -> dict[str, Any]:
    """Return how a mode ("mqtt qos1") looks in every chart; one without a look of its own is grey.

    Protocols differ in marker and line too, so that print without colour will do.
    """
    from gateways.protocols import every_mode  # noqa: PLC0415 - a run's figures need no protocol, and `ivsim report` waits for them

    found = every_mode().get(mode)
    if found is None:
        return {"color": GREY, "marker": ".", "linestyle": "-.", "label": mode}
    row, known = found
    label = f"{row.label} {known.label}"
    if known.look is None:
        return {"color": GREY, "marker": ".", "linestyle": row.line, "label": label}
    return {"color": known.look.colour, "marker": known.look.marker, "linestyle": row.line, "label": label}


# Of each part of a mixed fleet: the column's head, the figure, its unit.
PART_COLUMNS: Final = (
    ("vehicles", "vehicles", ""),
    ("due", "due", ""),
    ("delivered", "delivered", ""),
    ("delivery_ratio", "delivery_ratio", "ratio"),
    ("end to_end p50_ms", "end_to_end_latency_p50_ms", ""),
    ("end to_end p99_ms", "end_to_end_latency_p99_ms", ""),
    ("overhead_B a_message", "overhead_bytes_per_message", ""),
)


def spoken_in(options: Mapping[str, Any]) -> str:
    """Return what the vehicles of a run speak, from its manifest's options: a protocol and mode, or a mix."""
    if options.get("mix"):
        return str(options["mix"]).replace(",", ", ")
    return f"{options['protocol']} {options['mode']}"
