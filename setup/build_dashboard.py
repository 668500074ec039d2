"""Builds a Grafana dashboard of a running run: `python setup/build_dashboard.py > compose/grafana/ivsim.json`.

By Grafana's own library, so that what Grafana loads is what its schema says. The panels ask for metrics of ivsim.runs.scrape and
of the gateways.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef

RATE: Final = "[$__rate_interval]"
TOTAL: Final = 'sum(ivsim_run_messages_total{{point="{}"}})'
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${source}")


class Graph(NamedTuple):
    """A panel: its title, what it says, its unit in Grafana's words, and query -> legend."""

    title: str
    meaning: str
    unit: str
    queries: dict[str, str]


GRAPHS: Final = (
    Graph(
        "Messages per second",
        "At each point of their way: a point that stays below the one before holds messages back, or loses them.",
        "cps",
        {f"sum by (point) (rate(ivsim_run_messages_total{RATE}))": "{{point}}"},
    ),
    Graph(
        "Messages on their way",
        "Emitted and not yet in a twin, by where they are; lost ones stay.",
        "short",
        {
            f"{TOTAL.format('emitted')} - {TOTAL.format('received')}": "to the gateway",
            f"{TOTAL.format('appended')} - {TOTAL.format('in_twin')}": "in Kafka, before the twin",
            "sum(ivsim_gateway_held)": "held by gateways",
        },
    ),
    Graph(
        "End-to-end latency",
        "From due to twin, over all messages so far.",
        "s",
        {"ivsim_run_end_to_end_latency_seconds": "{{rank}}"},
    ),
    Graph(
        "Age of information",
        "Now minus the newest reading, over the fleet; there with --page.",
        "s",
        {"ivsim_twin_age_of_information_seconds": "{{rank}}"},
    ),
    Graph(
        "CPU of each part",
        "Cores; the machine's is that of all programs.",
        "short",
        {
            f"rate(ivsim_part_cpu_seconds_total{RATE})": "{{part}}",
            f"rate(ivsim_machine_busy_seconds_total{RATE})": "the machine",
        },
    ),
    Graph(
        "Memory of each part",
        "Resident; shared pages count for each.",
        "bytes",
        {"ivsim_part_resident_memory_bytes": "{{part}}"},
    ),
    Graph(
        "Wire bytes per second",
        "IP bytes at the vehicles' end, both directions.",
        "Bps",
        {f"rate(ivsim_run_wire_bytes_total{RATE})": "all vehicles"},
    ),
    Graph(
        "Latest change of the link",
        "How late it was; above 100 ms the run is degraded.",
        "s",
        {"ivsim_link_change_late_seconds": "late"},
    ),
    Graph(
        "Gateways",
        "Connections lost, dead letters and errors of Kafka.",
        "short",
        {
            "ivsim_gateway_connections_lost_total": "{{gateway}}: connections lost",
            "ivsim_gateway_dead_letters_total": "{{gateway}}: dead letters",
            "ivsim_gateway_produce_errors_total": "{{gateway}}: errors of Kafka",
        },
    ),
    Graph("Parts that are down", "0 is down.", "short", {"ivsim_part_up": "{{part}}"}),
)


def dashboard() -> str:
    """Return the dashboard as JSON."""
    made = (
        Dashboard("ivsim")
        .uid("ivsim")
        .tags(["ivsim"])
        .description("A run of ivsim while it goes: `ivsim run --metrics-port 9464`.")
        .refresh("5s")
        .time("now-15m", "now")
        .with_variable(DatasourceVariable("source").type("prometheus").label("Prometheus"))
    )
    for graph in GRAPHS:
        made = made.with_panel(_panel(graph))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build())


def _panel(graph: Graph) -> Panel:
    legend = (
        VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    panel = (
        Panel().title(graph.title).description(graph.meaning).datasource(SOURCE).unit(graph.unit).legend(legend)
        .height(8).span(12).min(0)
    )  # fmt: skip
    for index, (query, words) in enumerate(graph.queries.items()):
        panel = panel.with_target(Dataquery().expr(query).legend_format(words).ref_id(chr(ord("A") + index)))
    return panel


if __name__ == "__main__":
    print(dashboard())
