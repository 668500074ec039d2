"""What a user may say of a file that is imported: every option once, with the word that asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

from schemas.errors import Refusal
from simulator.traces.layers import RATE_LAYERS
from simulator.traces.model import COLUMNS, PLACE_COLUMNS, RATE_MEANINGS

DIRECTIONS = {"uplink": "uplink_kbps", "downlink": "downlink_kbps"}


@dataclass(frozen=True)
class Asked:
    """How the command line asks for an attribute of `Options`.

    Attributes:
        word: such as `--hold`.
        help: one line; what holds when nothing is said stands in brackets at its end.
        choices: the allowed values; () where they are not from a list.
    """

    word: str
    help: str
    choices: tuple[str, ...] = ()


def _asked(word: str, words: str, choices: Iterable[str] = ()) -> Asked:
    allowed = tuple(choices)
    return Asked(word, words.format(", ".join(allowed)), allowed)


@dataclass(frozen=True)
class Options:
    """The stated policies of one import; None means: not given, the importer's documented default holds."""

    columns: Annotated[
        tuple[str, ...] | None,
        _asked("--column", "Take this column (again for more): {}.", COLUMNS + PLACE_COLUMNS),
    ] = None
    direction: Annotated[
        str | None,
        _asked("--direction", "Of a rate that does not say it: {}.", DIRECTIONS),
    ] = None
    network_modes: Annotated[
        tuple[str, ...] | None,
        _asked("--network-mode", "Keep rows of this mode only, e.g. LTE; the others become gaps."),
    ] = None
    states: Annotated[
        tuple[str, ...] | None,
        _asked("--state", "Keep rows of this logger state only, e.g. D; likewise."),
    ] = None
    duplicates: Annotated[
        str | None,
        _asked("--duplicates", "Rows within one step: {} (average).", ("average", "first", "last", "refuse")),
    ] = None
    hold_s: Annotated[
        float | None,
        _asked("--hold", "Rows up to this many s apart are no gap, the earlier one holds (2)."),
    ] = None
    gaps: Annotated[
        str | None,
        _asked(
            "--gaps",
            "Longer ones: {} (refuse). zero is an outage, cut takes them out, longest keeps the longest piece without.",
            ("refuse", "hold", "zero", "cut", "longest"),
        ),
    ] = None
    clock_back: Annotated[
        str | None,
        _asked("--clock-back", "Rows older than one before: {} (refuse).", ("refuse", "drop")),
    ] = None
    step_s: Annotated[float | None, _asked("--step", "Length of a step of the result, s (1).")] = None
    period_s: Annotated[float | None, _asked("--period", "Time between rows that have no clock, s.")] = None
    skip_s: Annotated[float | None, _asked("--skip", "Leave out this much of the beginning, s.")] = None
    rate_meaning: Annotated[
        str | None,
        _asked("--rate-meaning", "Of a generic CSV's rates: {}.", RATE_MEANINGS),
    ] = None
    rate_layer: Annotated[
        str | None,
        _asked("--rate-layer", "What they count: {} (not stated: taken as ethernet).", RATE_LAYERS),
    ] = None
    time: Annotated[str | None, _asked("--time", "Generic CSV: NAME[:s, ms, us, ns or iso].")] = None
    mapping: Annotated[
        tuple[str, ...] | None,
        _asked("--map", "Generic CSV: TARGET=NAME[:UNIT or :@UNIT_COLUMN], e.g. uplink_kbps=up:Mbit/s."),
    ] = None
    delimiter: Annotated[
        str | None,
        _asked("--delimiter", "Generic CSV: comma, semicolon, tab, space (comma)."),
    ] = None

    def __post_init__(self) -> None:
        for name, (kind, asked) in OPTIONS.items():
            given = getattr(self, name)
            for value in given if isinstance(given, tuple) else (given,):
                if value is not None and asked.choices and value not in asked.choices:
                    raise Refusal(f"{asked.word} {value!r}: must be one of {', '.join(asked.choices)}")
            if kind == float | None and given is not None and not 0 < given < 1e6:
                raise Refusal(f"{asked.word} {given:g}: must be above 0 s")

    def given(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]


def _declared() -> dict[str, tuple[Any, Asked]]:
    hints = get_type_hints(Options, include_extras=True)
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in hints.items()}


# An attribute of `Options` to its type and how it is asked for.
OPTIONS = _declared()


def option(name: str) -> str:
    """Return the command line's word for an attribute of `Options`."""
    return OPTIONS[name][1].word
