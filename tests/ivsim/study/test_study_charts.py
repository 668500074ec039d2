"""Charts of studies say their units and n, tell series apart, and draw no bar for what is not known."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer

from ivsim.option_rules import run_options
from ivsim.report.style import mode_style
from ivsim.study import charts
from ivsim.study.engines.base import ENGINES, Engine, engine_named
from ivsim.study.engines.run_axes import trace_chart
from ivsim.study.selected_charts import selected_charts
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


def result(sweep: str, found: Interval, **values: Any) -> Any:
    cell = SimpleNamespace(sweep=sweep, values=values)
    return SimpleNamespace(done=True, cell=cell, interval=lambda _metric: found)


def shown(
    found: list[Any],
    unit: str = "B",
    series_style: Callable[[str], Any] = mode_style,
    sweep: str | None = None,
) -> Any:
    """Return the axes of the first chart of a study with these results, whose series are its modes."""
    metric = SimpleNamespace(unit=unit)
    engine = SimpleNamespace(
        series_axis="mode",
        series=lambda cell: cell.values["mode"],
        series_style=series_style,
        metrics={"size": metric},
        charts=lambda _found: {},
    )
    headline = SimpleNamespace(sweep=sweep)
    study: Any = SimpleNamespace(
        measured_by=engine, metrics=["size"], metric=lambda _name: metric, headline_kind=headline
    )
    ((drawing, _),) = selected_charts(study, found).values()
    drawing.svg()
    (axes,) = drawing.axes
    return axes


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


@pytest.mark.parametrize("width_inches", [3.5, 5.0, 7.2])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("name", ["json", "flatbuffers", "manual-confirms-persistent"])
def test_a_legend_ends_within_its_chart(width_inches: float, columns: int, name: str) -> None:
    def draw(found: Any) -> None:
        for axes in np.ravel(found):
            for k in range(8):
                axes.plot([0, 1], [k, k], label=f"{name} {k}")
            charts.legend(axes)

    drawing = charts.drawn(draw, (width_inches * columns, 3.4), columns)
    assert drawing.svg().startswith("<svg")
    for k, axes in enumerate(drawing.axes):
        legend = axes.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        assert box.x1 <= axes.figure.bbox.width * (k + 1) / columns
        assert box.x0 >= 0


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
def test_series_without_a_look_of_their_own_get_one_each(engine: Engine) -> None:
    names = ["json", "protobuf", "flatbuffers", "avro", "msgpack"]
    axes = shown([result("", interval(5), mode=name) for name in names], series_style=engine.series_style)
    assert [bar.get_label() for bar in axes.containers if isinstance(bar, BarContainer)] == names
    colours = {matplotlib.colors.to_hex(bar.get_facecolor()) for bar in axes.patches}
    assert len(colours) == len(names)


def test_modes_keep_the_look_that_they_have_everywhere() -> None:
    axes = shown([result("", interval(5), mode="mqtt qos1")], series_style=engine_named("echo").series_style)
    (bar,), style = axes.patches, mode_style("mqtt qos1")
    assert matplotlib.colors.same_color(bar.get_facecolor(), style["color"])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [style["label"]]


def test_what_a_sweep_does_not_measure_is_no_group_and_large_numbers_of_bytes_are_megabytes() -> None:
    found = [
        result("a", interval(3e9), mode="mqtt qos0"),
        result("a", UNKNOWN, mode="coap con"),
        result("b", UNKNOWN, mode="mqtt qos0"),
        result("b", UNKNOWN, mode="coap con"),
    ]
    axes = shown(found)
    assert axes.get_ylabel() == "size, MB"
    assert [bar.get_height() for bar in axes.patches] == [3_000]
    ((low, high),) = ([y for _, y in ends] for ends in axes.collections[0].get_segments())
    assert (low, high) == pytest.approx((3_000 - 1e-6, 3_000 + 1e-6), abs=1e-9)
    assert [text.get_text() for text in axes.texts] == [DASH]
    in_ms = shown(found, "ms")
    assert in_ms.get_ylabel() == "size, ms"
    assert [bar.get_height() for bar in in_ms.patches] == [3e9]


def test_the_axis_of_groups_is_named_after_what_the_study_varies() -> None:
    one = [result("main", interval(5), mode="mqtt qos0", trace="t", early_ack=True)]
    assert shown(one).get_xlabel() == "trace, early ack; n = 30 (vehicle)"
    two = [
        result("mqtt", interval(5), mode="mqtt qos0", loss=0),
        result("coap", interval(5), mode="coap con", security="tls"),
    ]
    assert shown(two).get_xlabel() == "sweep, loss, security; n = 30 (vehicle)"
    # The sweep that a headline is about has the charts to itself.
    assert shown(two, sweep="coap").get_xlabel() == "security; n = 30 (vehicle)"


def test_the_distribution_says_how_many_messages_were_due() -> None:
    drawing = charts.drawn(
        lambda axes: charts.ecdf(axes, {"mqtt qos0": (np.array([1.0, 2.0]), 4)}, "latency, ms")
    )
    (axes,) = drawing.axes
    assert axes.get_xlabel() == "latency, ms; n = 4"


def test_a_trace_that_no_link_follows_is_not_drawn() -> None:
    def found(link: str) -> Any:
        cell = SimpleNamespace(options=run_options(link=link, duration_s=5))
        return SimpleNamespace(done=True, cell=cell)

    assert list(trace_chart([found("direct"), found("uml")])) == ["trace.svg"]
    assert trace_chart([found("direct")]) == {}
