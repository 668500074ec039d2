"""A run's page: what the files say stands in it, and what they say is text, never markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jinja2 import UndefinedError

from ivsim.options import RunOptions
from ivsim.report.html import rendered
from ivsim.report.page import write_page
from ivsim.report.style import title_of
from ivsim.study.markdown import page

EVIL = "<script>alert('a & b')</script>"


class Tags(HTMLParser):
    """The names of a page's tags and its text, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def written(
    directory: Path, manifest: dict[str, Any] | None = None, metrics: dict[str, Any] | None = None
) -> Tags:
    made = {"run": "r1", "options": RunOptions().model_dump(mode="json"), "link": {"name": "uml"}}
    (directory / "manifest.json").write_text(json.dumps(made | (manifest or {})))
    (directory / "metrics.json").write_text(json.dumps(metrics or {}))
    return Tags(write_page(directory).read_text())


@pytest.mark.parametrize(
    ("name", "unit", "title"),
    [
        ("end_to_end_latency_p99_ms", "ms", "End-to-end latency, p99"),
        ("delivery_ratio", "ratio", "Delivery ratio"),
        ("client_cpu_us", "us", "Client CPU"),
        ("payload_mb_per_s", "MB/s", "Payload MB per s"),
    ],
)
def test_a_figures_name_is_a_heading(name: str, unit: str, title: str) -> None:
    assert title_of(name, unit) == title


def test_what_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    found = written(tmp_path, metrics={"due": 12, "delivery_ratio": None})
    assert re.search(r"12\s*Due", found.text)
    assert "Delivery ratio" not in found.text  # a figure on top needs a value
    assert re.search("delivery_ratio\\s*\N{EN DASH}", found.text)
    assert "delivered / due" in found.text
    for absent in ("What the link did", "Where the bytes went", "Live figures", "Refusals"):
        assert absent not in found.text


@pytest.mark.parametrize(
    ("topology", "titles"),
    [
        ("gateway", ["End-to-end latency, p50", "End-to-end latency, p99"]),
        ("echo", ["Round trip, p50", "Round trip, p99"]),
        ("peer", ["Acknowledgement time, p50", "Acknowledgement time, p99"]),
    ],
)
def test_the_latency_on_top_is_that_to_the_end_of_the_way(
    tmp_path: Path, topology: str, titles: list[str]
) -> None:
    options = RunOptions().model_dump(mode="json") | {"topology": topology}
    latencies = ("end_to_end_latency", "one_way_delay", "acknowledgement_time")
    values = {f"{name}_{part}_ms": 7.5 for name in latencies for part in ("p50", "p99")}
    found = written(tmp_path, {"options": options}, values)
    on_top, _, _ = found.text.partition("Every figure")
    assert re.findall(r"7\.5 ms\s*(.*?)\s*\n", on_top) == titles


def test_every_text_of_the_files_is_text(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"purpose": [EVIL], "direction": ["uplink"], "bytes": [1]}),
        tmp_path / "wire_categories.parquet",
    )
    check = dict.fromkeys(
        ("parameter", "direction", "asked", "achieved", "tolerance", "verdict", "power"), EVIL
    )
    difference = {"vehicle_id": EVIL, "figure": EVIL, "live": 1, "ledger": 2}
    found = written(
        tmp_path,
        {"run": EVIL, "warnings": [EVIL]},
        {
            "due": 1,
            "validity": {"verdict": "invalid", "causes": [{"words": EVIL}]},
            "certificate": {"verdict": EVIL, "statement": EVIL, "checks": [check]},
            "live": {"verdict": EVIL, "counts_compared": 1, "differences": [difference]},
        },
    )  # fmt: skip
    assert "script" not in found.tags
    # Title twice, warning, validity, certificate thrice, check, purpose, live, its difference twice; manifest twice as JSON.
    assert found.text.count(EVIL) == 1 + 1 + 2 + 3 + 7 + 1 + 1 + 2 + 2


def test_a_column_that_no_check_fills_is_left_out(tmp_path: Path) -> None:
    checks = [
        {"parameter": "delay", "verdict": "pass", "power": None},
        {"parameter": "loss", "verdict": "pass"},
    ]
    found = written(tmp_path, metrics={"certificate": {"verdict": "pass", "checks": checks}})
    assert re.search(r"parameter\s*verdict\s*delay\s*pass\s*loss\s*pass", found.text)


DELAYS = {
    f"{name}_{part}_ms": value
    for name, values in {
        "one_way_delay": (48.0, 320.0),
        "bridge_delay": (102.0, 140.5),
        "processing_delay": (11.0, 62.0),
    }.items()
    for part, value in zip(("p50", "p99"), values, strict=True)
}


@pytest.mark.parametrize(
    ("options", "way"),
    [
        (
            {},
            (
                "vehicle link, broker p50 48 ms p99 320.0 ms gateway bridge p50 102.0 ms p99 140.5 ms Kafka"
                " Spark p50 11 ms p99 62 ms twin"
            ),
        ),
        ({"protocol": "coap", "mode": "con"}, "vehicle link p50 48 ms"),
        ({"topology": "edge"}, "vehicle broker p50 48 ms p99 320.0 ms gateway link p50 102.0 ms"),
    ],
)
def test_the_way_of_a_message_has_the_time_of_each_hop(
    tmp_path: Path, options: dict[str, Any], way: str
) -> None:
    asked = RunOptions().model_dump(mode="json") | options
    found = written(tmp_path, {"options": asked}, {"due": 2, "delivered": 2, **DELAYS})
    assert way in " ".join(found.text.split())
    assert "What failed" not in found.text
    assert "The way of" not in written(tmp_path, {"options": asked | {"topology": "echo"}}, DELAYS).text


def test_what_failed_stands_behind_it_and_verdicts_stand_first(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        metrics={
            "due": 12, "lost": 3, "lost_at_link": 2, "lost_at_broker": 1, "refused": 1, "refused_by_gateway": 1, "unsent": 0,
            "validity": {"verdict": "valid"}, "certificate": {"verdict": "unproven", "checks": []},
        },
    )  # fmt: skip
    text = " ".join(found.text.split())
    assert "run: validlink: unproven" in text
    assert "3 messages are lost: 2 at link, 1 at broker. 1 message is refused: 1 by gateway." in text
    found = written(tmp_path, {"notes": ["The downlink is unlimited."]})
    page = (tmp_path / "report.html").read_text()
    assert '<p class="dim">The downlink is unlimited.</p>' in page
    assert 'class="warn"' not in page
    found = written(tmp_path, {"warnings": ["Lost on purpose."]})
    assert '<p class="warn" role="alert">Lost on purpose.</p>' in (tmp_path / "report.html").read_text()


def test_an_unproven_link_is_no_warning(tmp_path: Path) -> None:
    written(tmp_path, metrics={"certificate": {"verdict": "unproven", "checks": []}})
    page = (tmp_path / "report.html").read_text()
    assert '<p class="plain">Fidelity certificate: unproven' in page
    assert 'class="warn"' not in page


def test_where_the_bytes_went_is_sorted_by_their_sum(tmp_path: Path) -> None:
    rows = {
        "purpose": ["probe", "message", "probe", "message"],
        "direction": ["uplink", "uplink", "downlink", "uplink"],
        "bytes": [10, 2_000, 5, 3_000],
    }
    pq.write_table(pa.table(rows), tmp_path / "wire_categories.parquet")
    assert re.search(r"message\s*5,000\s*0\s*probe\s*10\s*5", written(tmp_path).text)


def test_an_agent_is_shown_with_its_clock_and_its_end(tmp_path: Path) -> None:
    agent = {
        "address": "192.0.2.7:7070", "name": EVIL, "senders": ["sender-1", "sender-3"], "vehicles": 1_200, "lost": None,
        "senders_cpu_s": 12.5,
        "clock_ahead_before_ms": -3_600_000.25, "clock_ahead_after_ms": None, "clock_uncertainty_ms": 0.0817,
    }  # fmt: skip
    found = written(tmp_path, metrics={"agents": [agent, agent | {"lost": "it has closed the connection"}]})
    text = "".join(found.text.split())
    seen = f"192.0.2.7:7070({EVIL})sender-1,sender-31,20012.5"
    assert seen.replace(" ", "") + "-3,600,000.250unknown0.082totheend" in text
    assert "0.082lost:ithasclosedtheconnection" in text
    assert "script" not in found.tags


def test_a_name_that_a_template_misses_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        rendered("page.html", title="without a body")


def test_the_page_of_a_report_keeps_markdown_and_escapes_its_title() -> None:
    found = Tags(page(f"# {EVIL}\n\n*so*", {}))
    assert "script" not in found.tags
    assert "em" in found.tags


def test_bytes_of_a_sample_are_called_so(tmp_path: Path) -> None:
    bytes_of = pa.table({"purpose": ["message"], "direction": ["uplink"], "bytes": [1]})
    path = tmp_path / "wire_categories.parquet"
    pq.write_table(bytes_of, path)
    assert "drawn at random" not in written(tmp_path).text
    pq.write_table(bytes_of.replace_schema_metadata({b"attributed_ends": b"[3, 4, 9]"}), path)
    assert "the vehicles' end of the 3 drawn at random, link layer included" in written(tmp_path).text
