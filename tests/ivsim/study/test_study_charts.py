"""Charts of studies say their units and n, tell series apart, and draw no bar for what is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ivsim.report.style import mode_style
from ivsim.study import charts
from ivsim.study.engines.base import ENGINES, Engine, engine_named
from ivsim.study.selected_charts import _grouping, _looks, _readable, known_groups
from ivsim.study.statistics import Interval
from ivsim.study.summary import DASH

UNKNOWN = Interval(None, None, None, 0)


def interval(estimate: float, units: int = 30) -> Interval:
    return Interval(estimate, estimate - 1, estimate + 1, 5_000, "vehicle", units, 3)


def axes_of(groups: dict[str, dict[str, Interval]], x: str = "trace") -> Any:
    drawing = charts.drawn(lambda axes: (charts.bars(axes, groups, "latency, ms", x=x), charts.legend(axes)))
    assert drawing.svg().startswith("<svg")
    (axes,) = drawing.axes
    return axes


def results(sweeps: dict[str, list[dict[str, Any]]]) -> Any:
    return [
        SimpleNamespace(cell=SimpleNamespace(sweep=sweep, values=values))
        for sweep, cells in sweeps.items()
        for values in cells
    ]


def test_the_axes_say_what_is_measured_in_which_unit_and_over_how_many() -> None:
    axes = axes_of({"a": {"mqtt qos0": interval(5, 30)}, "b": {"mqtt qos0": interval(6, 90)}})
    assert axes.get_ylabel() == "latency, ms"
    assert axes.get_xlabel() == "trace; n = 30 to 90 (vehicle)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    assert charts.counted([UNKNOWN]) == ""
    assert charts.counted([Interval(1.0, None, None, 1_200)]) == "n = 1,200"


def test_a_group_has_places_for_its_own_series_alone_and_none_for_what_is_unknown() -> None:
    axes = axes_of(
        {"a": {"mqtt qos0": interval(5)}, "b": {"coap con": interval(6)}, "c": {"coap con": UNKNOWN}}
    )
    bars = sorted((round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height()) for bar in axes.patches)
    assert bars == [(0, 5), (1, 6)]
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [(DASH, (2.0, 0.0))]


def test_one_group_alone_has_no_name() -> None:
    axes = axes_of({"all": {"mqtt qos0": interval(5), "coap con": interval(6)}}, "")
    assert list(axes.get_xticks()) == []
    assert axes.get_xlabel() == "n = 30 (vehicle)"


def test_names_that_do_not_fit_end_under_their_bars() -> None:
    axes = axes_of({f"format {k}, trace {k}": {"mqtt qos0": interval(k)} for k in range(12)})
    for label in axes.get_xticklabels():
        assert (label.get_ha(), label.get_rotation_mode()) == ("right", "anchor")
    # Nothing lies on anything else: the names stand below the axes, the legend above.
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    assert axes.get_legend().get_window_extent(renderer).y0 >= axes.get_window_extent(renderer).y1 - 1
    assert axes.xaxis.label.get_window_extent(renderer).y1 <= min(
        label.get_window_extent(renderer).y0 for label in axes.get_xticklabels()
    )


@pytest.mark.parametrize("engine", [engine_named(name) for name in ENGINES], ids=lambda one: one.name)
def test_series_without_a_look_of_their_own_get_one_each(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["json", "protobuf", "flatbuffers", "avro", "msgpack"]
    cells = cast("Any", [SimpleNamespace(cell=name) for name in names])
    monkeypatch.setattr(type(engine), "series", lambda _, cell: cell)
    looks = _looks(engine, cells)
    assert list(looks) == names
    seen = {(matplotlib.colors.to_hex(look["color"]), look["marker"]) for look in looks.values()}
    assert len(seen) == len(names)


def test_modes_keep_the_look_that_they_have_everywhere() -> None:
    engine = engine_named("echo")
    cell = SimpleNamespace(values={"mode": "mqtt qos1"})
    looks = _looks(
        SimpleNamespace(series=lambda _: "mqtt qos1", series_style=engine.series_style),
        [SimpleNamespace(cell=cell)],
    )  # type: ignore[arg-type]
    assert looks == {"mqtt qos1": mode_style("mqtt qos1")}


def test_what_a_sweep_does_not_measure_is_no_group_and_large_numbers_of_bytes_are_megabytes() -> None:
    groups = known_groups({"a": {"x": interval(3e9), "y": UNKNOWN}, "b": {"x": UNKNOWN, "y": UNKNOWN}})
    assert list(groups) == ["a"]
    found, unit = _readable(groups, "B")
    assert unit == "MB"
    assert found["a"]["x"][:3] == pytest.approx((3_000, 3_000 - 1e-6, 3_000 + 1e-6))
    assert found["a"]["y"] == UNKNOWN
    assert _readable(groups, "ms") == (groups, "ms")


def test_the_axis_of_groups_is_named_after_what_the_study_varies() -> None:
    engine = cast("Any", SimpleNamespace(series_axis="mode"))
    one = results({"main": [{"mode": "a", "trace": "t", "early_ack": True}]})
    assert _grouping(engine, one) == "trace, early ack"
    two = results({"mqtt": [{"mode": "a", "loss": 0}], "coap": [{"mode": "b", "security": "tls"}]})
    assert _grouping(engine, two) == "sweep, loss, security"


def test_the_distribution_says_how_many_messages_were_due() -> None:
    drawing = charts.drawn(
        lambda axes: charts.ecdf(axes, {"mqtt qos0": (np.array([1.0, 2.0]), 4)}, "latency, ms")
    )
    (axes,) = drawing.axes
    assert axes.get_xlabel() == "latency, ms; n = 4"
