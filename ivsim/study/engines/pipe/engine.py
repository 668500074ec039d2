"""The pipe engine: producers, a platform, consumers; cells one after another, the platform up for all of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from ivsim.report.style import GREY
from ivsim.study.cells import Cell, Session
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.pipe.metrics import PIPE_METRICS, figures_of
from ivsim.study.engines.pipe.options import OPTIONS, PipeOptions, pipe_options
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.preflight import check_records, same_check
from ivsim.study.engines.pipe.session import (
    DECISIONS,
    LINK,
    SAMPLES,
    Platforms,
    key_of,
    write_decisions,
    write_link,
    write_samples,
)
from ivsim.study.results import CellResult
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from ledger.metrics import Metric
from schemas.errors import Refusal
from simulator.links import AUTO, choose, why_not
from simulator.links.privileges import ensure_privileges

# Starting clients, preparing their records, draining and clearing: what a measurement takes beside its own time.
AROUND_S: Final = 2.0
_TYPES: Final = {str: "text", int: "integer", float: "number", bool: "true or false"}
_LOOKS: Final = {
    "json": ("#D55E00", "o"),
    "msgpack": ("#E69F00", "s"),
    "avro": ("#0072B2", "^"),
    "protobuf": ("#009E73", "D"),
    "flatbuffers": ("#CC79A7", "v"),
    "cbor": ("#000000", "P"),
}


class Pipe(Engine):
    """Cells of formats, settings and platforms; see the module."""

    name: ClassVar[str] = "pipe"
    summary: ClassVar[str] = "producers, a platform such as Kafka, consumers; every record accounted for"
    series_axis: ClassVar[str] = "format"
    metrics: Mapping[str, Metric] = PIPE_METRICS

    def missing_for(self, cells: Sequence[Cell]) -> str | None:
        rows = [platform_named(name) for name in sorted({_options(cell).platform for cell in cells})]
        lacks = [row.missing() for row in rows]
        links = sorted({link for cell in cells if (link := _options(cell).link) is not None})
        lacks += [_no_link(link) for link in links]
        return next((why for why in lacks if why is not None), None)

    def axes(self) -> Mapping[str, Axis]:
        return {
            one.option.axis: Axis(one.option.axis, *self._said(name))
            for name, one in OPTIONS.items()
            if one.option.axis
        }

    def fields(self) -> Mapping[str, Axis]:
        return {name: Axis(name, *self._said(name)) for name in OPTIONS}

    @staticmethod
    def _said(field: str) -> tuple[str, str]:
        one = OPTIONS[field]
        kind = "text" if one.choices else _TYPES.get(one.annotation, "text")
        return kind, one.allowed_text() or one.option.help

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        """Return a cell, checked; what of the scenario has no effect in it is left to the profile."""
        field_of = {one.option.axis: name for name, one in OPTIONS.items() if one.option.axis}
        axis_of = {field_of[axis]: axis for axis in values}
        given = {**fixed, **{field_of[axis]: value for axis, value in values.items()}}
        return Checked(pipe_options(given, lambda field: axis_of.get(field, field)))

    def stands_on(self, session: Session) -> Hashable:
        """Return the platform: another one is started anew."""
        return key_of(_options(session.cells[0]))

    def seconds(self, session: Session) -> float:
        return sum(_seconds(_options(cell)) for cell in session.cells)

    @contextmanager
    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> Iterator[OpenPipe]:
        del results
        cells = [_options(cell) for session in sessions for cell in session.cells]
        for options in {same_check(one): one for one in cells}.values():
            check_records(options)
        if any(options.link is not None for options in cells):
            ensure_privileges()
        work.mkdir(parents=True, exist_ok=True)
        run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-pipe-{secrets.token_hex(2)}"
        with RunRecord(run, work) as record, Platforms(record, work) as platforms:
            yield OpenPipe(platforms)

    def series(self, cell: Cell) -> str:
        return _options(cell).format

    def series_style(self, series: str) -> dict[str, Any]:
        name, variant, _ = series.partition("-")
        colour, marker = _LOOKS.get(name, (GREY, "."))
        return {"color": colour, "marker": marker, "linestyle": "--" if variant else "-", "label": series}

    def caveats(self, results: Sequence[CellResult]) -> list[str]:
        del results
        return [
            (
                "Producers, platform and consumers share this machine: records/s are of the whole, and CPU time by"
                " record is the firmer figure."
            ),
        ]


def _no_link(name: str) -> str | None:
    """Return why there can be no such link here; AUTO takes whichever works."""
    if name != AUTO:
        return why_not(name)
    try:
        choose(name)
    except Refusal as refusal:
        return str(refusal)
    return None


def _seconds(options: PipeOptions) -> float:
    """Return how long a measurement takes; a share of the capacity takes two."""
    return (AROUND_S + options.duration_s) * (1 if options.load_ratio is None else 2)


def _options(cell: Cell) -> PipeOptions:
    assert isinstance(cell.options, PipeOptions)
    return cell.options


class OpenPipe:
    """The platforms that are up."""

    def __init__(self, platforms: Platforms) -> None:
        self._platforms = platforms

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Measure the tasks of a session, one after another."""
        for task in session.tasks:
            options = _options(task.cell)

            def tell(
                phase: str, over_s: float, sent: int, received: int, most: float = options.duration_s
            ) -> None:
                del phase, sent, received
                tick(max(0.0, most - over_s))

            try:
                self._platforms.break_in(options)
                found = self._platforms.measure(options, tell)
            except (ProcessDied, NotReady) as error:
                yield Outcome(task, {}, str(error))
                continue
            directory = results.begin(task)
            write_samples(found, directory / SAMPLES)
            write_link(found, directory / LINK)
            write_decisions(found, directory / DECISIONS)
            figures = figures_of(found)
            validity = figures["validity"]
            if validity["verdict"] == "invalid":
                why = "; ".join(cause["words"] for cause in validity["causes"])
                yield Outcome(task, {}, f"invalid: {why}", invalid=True)
            else:
                yield Outcome(task, figures)
