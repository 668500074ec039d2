"""What studies can vary and measure as a page, made from the engines; the documentation's site has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ivsim.markdown_table import table
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import Axis, Engine, engine_named

HEAD: Final = """# Engines, axes and metrics of studies

An engine measures the cells of a study: `engine` in its `study.toml`. An axis is what a study may vary, in `[axes]`; a
field is what all cells share, in `[scenario]`. `ivsim study engines`, `axes` and `metrics` say the same in the terminal.
"""


def reference() -> str:
    """Return the document."""
    return "\n".join([HEAD, *(_engine(engine_named(name)) for name in ENGINES)])


def _engine(engine: Engine) -> str:
    metrics = [
        (f"`{m.name}`", "" if m.unit == "1" else m.unit, m.population, m.meaning)
        for m in engine.metrics.values()
    ]
    fields = {name: field for name, field in engine.fields().items() if name not in engine.axes()}
    return "\n".join(
        (
            f"## `{engine.name}`\n\n{engine.summary[0].upper()}{engine.summary[1:]}.\n",
            f"### Axes of `{engine.name}`\n\n{_axes(engine.axes().values())}",
            f"### Further fields of `{engine.name}`\n\n{_axes(fields.values())}",
            f"### Metrics of `{engine.name}`\n",
            table(("Metric", "Unit", "Of which", "Meaning"), metrics),
        )
    )


def _axes(axes: Iterable[Axis]) -> str:
    return table(("Name", "Type", "Allowed"), [(f"`{axis.name}`", axis.type, axis.allowed) for axis in axes])
