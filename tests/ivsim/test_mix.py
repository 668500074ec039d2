"""A fleet that speaks several protocols: what is a mix, who speaks what, and what each part came to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.protocols import PROTOCOLS
from ivsim import cli
from ivsim.audit.parts import Spoken, spoken_by
from ivsim.mix import checked_mix, deal
from ivsim.option_rules import run_options
from ivsim.options import fields_with_mode
from ivsim.report.style import spoken_in
from ivsim.runs import preflight, shards
from ivsim.runs.part_figures import FIGURES, part_figures
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from tests.ivsim.audit.whole import link_figures, message_figures

MIX = "mqtt qos1=70,coap con=20,amqp manual=10"
START = 1_700_000_000 * 10**9


@st.composite
def mixes(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(list(PROTOCOLS)), min_size=2, unique=True))
    cuts = sorted(draw(st.sets(st.integers(1, 99), min_size=len(names) - 1, max_size=len(names) - 1)))
    shares = [end - begin for begin, end in zip([0, *cuts], [*cuts, 100], strict=True)]
    modes = [draw(st.sampled_from(list(PROTOCOLS[name].modes))) for name in names]
    return ",".join(f"{name} {mode}={share}" for name, mode, share in zip(names, modes, shares, strict=True))


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        (MIX, MIX),
        (" mqtt =70 , coap\tnon=30 ", "mqtt qos1=70,coap non=30"),
        ("amqp auto=10,mqtt=90", "amqp auto=10,mqtt qos1=90"),
    ],
)
def test_a_mix_has_one_spelling(text: str, spelled: str) -> None:
    assert checked_mix(text) == spelled
    assert run_options(mix=text).mix == spelled


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mqtt", "'mqtt': write PROTOCOL MODE=PERCENT, such as 'mqtt qos1=70,"),
        ("", "'': write PROTOCOL MODE=PERCENT"),
        ("mqtt=70,", "'': write PROTOCOL MODE=PERCENT"),
        ("mqtt=1e2", "'mqtt=1e2': write PROTOCOL MODE=PERCENT"),
        ("mqtt=-1,coap=101", "'mqtt=-1': write PROTOCOL MODE=PERCENT"),
        ("http=70,coap=30", "'http=70': no protocol http; allowed are mqtt, amqp, coap"),
        ("mqtt con=70,coap=30", "'mqtt con=70': mqtt has qos0, qos1, qos2"),
        ("mqtt=100", "'mqtt=100': a mix has two protocols or more"),
        ("mqtt qos0=50,mqtt qos1=50", "'mqtt qos0=50,mqtt qos1=50': mqtt stands twice"),
        ("mqtt=70,coap=20", "'mqtt=70,coap=20': the shares are 90 % in all"),
        ("mqtt=100,coap=0", "'mqtt=100,coap=0': the shares are 100 % in all; they are whole, from 1 on"),
    ],
)
def test_what_is_no_mix_is_refused(text: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(mix=text)
    assert str(refused.value).startswith(f"--mix {says}")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"vehicles": 4}, "--mix 'mqtt qos1=70,coap con=20,amqp manual=10': --vehicles 4 leave none for amqp manual"),
        ({"vehicles": 20, "shards": "3"}, "--shards 3: each needs a vehicle at least, and amqp manual has 2 of"),
    ],
)  # fmt: skip
def test_a_part_without_vehicles_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(mix=MIX, **asked)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["run", "--mix", MIX, "--qos", "1"], "--qos: --mix says the mode of every vehicle"),
        (["run", "--mix", MIX, "--protocol", "mqtt"], "--protocol mqtt: has no effect with --mix"),
        (["load", "--mix", MIX, "--qos", "1"], "--qos: --mix says the mode of every vehicle"),
        (["load", "--mix", MIX, "--find-capacity"], f"--mix {MIX}: --find-capacity finds what one protocol carries"),
    ],
)  # fmt: skip
def test_the_command_line_says_what_does_not_go_with_a_mix(
    typed: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ivsim", *typed])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_without_a_mix_the_words_choose_the_mode() -> None:
    assert fields_with_mode({"mix": None}, {"qos": 2})["mode"] == "qos2"
    assert "mode" not in fields_with_mode({"mix": MIX}, {"qos": None})


@given(st.lists(st.integers(1, 60), min_size=2, max_size=5), st.integers(1, 300))
def test_the_first_vehicles_are_mixed_like_all_of_them(weights: list[int], vehicles: int) -> None:
    percents = [100 * weight // sum(weights) for weight in weights]
    percents[0] += 100 - sum(percents)
    dealt = deal(percents, vehicles)
    assert sorted(number for own in dealt for number in own) == list(range(1, vehicles + 1))
    for first in range(1, vehicles + 1):
        for percent, own in zip(percents, dealt, strict=True):
            # Nobody gets a vehicle that it lacks nothing of; what one lacks, the others have too much.
            assert 100 * sum(number <= first for number in own) < percent * first + 100
    assert [100 * len(own) for own in deal(percents, 100)] == [100 * percent for percent in percents]


@given(mixes(), st.integers(100, 400))
def test_the_audit_deals_the_vehicles_out_in_the_same_way(mix: str, vehicles: int) -> None:
    options = run_options(mix=mix, vehicles=vehicles)
    said = {
        vehicle_id(number): Spoken(part.protocol.name, part.mode.name)
        for part in options.parts
        for number in part.vehicles
    }
    assert spoken_by(options.model_dump()) == said
    assert spoken_in(options.model_dump()) == options.spoken


def test_a_fleet_of_one_protocol_is_one_part() -> None:
    options = run_options(vehicles=3)
    (part,) = options.parts
    assert (part.protocol.name, part.mode.name, part.vehicles, part.peer) == (
        "mqtt",
        "qos1",
        (1, 2, 3),
        "broker",
    )
    assert spoken_by(options.model_dump()) == {vehicle_id(n): Spoken("mqtt", "qos1") for n in (1, 2, 3)}


def test_each_part_has_senders_of_its_own() -> None:
    shares = shards.sender_shares(run_options(mix=MIX, vehicles=40, shards="2"))
    assert [share.part.protocol.name for share in shares] == ["mqtt", "mqtt", "coap", "coap", "amqp", "amqp"]
    assert sorted(vehicle for share in shares for vehicle in share.vehicles) == list(range(1, 41))
    assert Counter(share.part.words for share in shares for _ in share.vehicles) == {
        "mqtt qos1": 28, "coap con": 8, "amqp manual": 4,
    }  # fmt: skip


def test_descriptors_are_counted_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards.resource, "getrlimit", lambda _which: (1_024, 4_096))
    says = r"^--vehicles 6000: mosquitto needs 4712 open files, 4096 are allowed, enough for 5120 vehicles: "
    with pytest.raises(Refusal, match=says):
        preflight.check_open_files(run_options(mix=MIX, vehicles=6_000, interval_s=10.0, shards="2"))
    preflight.check_open_files(run_options(mix=MIX, vehicles=5_000, interval_s=10.0, shards="2"))


def row_of(vehicle: int, sequence: int, fate: str, latency_ms: int | None) -> dict[str, Any]:
    latency_ns = None if latency_ms is None else latency_ms * 10**6
    delays = (
        "bridge_delay_ns",
        "processing_delay_ns",
        "acknowledgement_time_ns",
        "one_way_delay_ns",
        "uplink_delay_ns",
    )
    return {
        "vehicle_id": vehicle_id(vehicle),
        "sequence": sequence,
        "due_at_ns": START + sequence * 10**9,
        "emitted_at_ns": START + sequence * 10**9 + 1_000,
        "fate": fate,
        "unsent_reason": "left_at_end" if fate == "unsent" else None,
        "hop": "link" if fate == "lost" else None,
        "in_window": sequence >= 1,
        "buffered": False,
        "copies": 1 if fate == "delivered" else None,
        "payload_bytes": 100 + vehicle,
        "emission_lag_ns": 1_000 * vehicle,
        "end_to_end_latency_ns": latency_ns,
        **dict.fromkeys(delays),
    }


@pytest.mark.parametrize("warmup_s", [0.0, 1.0])
def test_the_figures_of_a_part_are_the_audits(warmup_s: float, tmp_path: Path) -> None:
    options = run_options(mix=MIX, vehicles=10, warmup_s=warmup_s)
    fates = ("delivered", "late", "lost", "refused", "unsent", "delivered", "delivered")
    rows = [
        row_of(vehicle, sequence, fate, 10 * vehicle + sequence if fate == "delivered" else None)
        for vehicle in range(1, 11)
        for sequence, fate in enumerate(fates)
    ]
    if warmup_s == 0:
        for row in rows:
            row["in_window"] = True
    link = [
        {
            "second": second,
            "vehicle_id": vehicle_id(vehicle),
            "direction": way,
            "wire_bytes": 1_000 * vehicle + second,
            "probe_bytes": 48,
        }
        for second in range(-1, 5)
        for vehicle in range(1, 11)
        for way in ("uplink", "downlink")
    ]
    schema = pa.Table.from_pylist(rows).schema
    nulls = {name: pa.int64() for name in schema.names if pa.types.is_null(schema.field(name).type)}
    fields = [pa.field(field.name, nulls.get(field.name, field.type)) for field in schema]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), tmp_path / "ledger.parquet")
    pq.write_table(pa.Table.from_pylist(link), tmp_path / "link.parquet")
    found = part_figures(
        tmp_path / "ledger.parquet",
        tmp_path / "link.parquet",
        options.parts,
        topology="gateway",
        start_at_ns=START,
        warmup_s=warmup_s,
    )
    assert [(one["protocol"], one["mode"], one["vehicles"]) for one in found] == [
        ("mqtt", "qos1", 7), ("coap", "con", 2), ("amqp", "manual", 1),
    ]  # fmt: skip
    assert [one["due"] for one in found] == [count * (6 if warmup_s else 7) for count in (7, 2, 1)]
    speaks = spoken_by(options.model_dump())
    window = START + round(warmup_s * 10**9), START + 10 * 10**9
    for one in found:
        mine = [row for row in rows if speaks[row["vehicle_id"]].protocol == one["protocol"]]
        said = message_figures(mine, window, kafka=True)
        full = {"drops": None, "qdisc_bytes": None, "qdisc_packets": None, "asked_rate_bps": None}
        full |= {"asked_delay_ms": None, "asked_loss_ratio": None, "probe_delay_ms": None}
        seconds = [row | full for row in link if speaks[row["vehicle_id"]].protocol == one["protocol"]]
        said |= link_figures(seconds, warmup_s, mine, window[0])
        assert {name: one[name] for name in FIGURES} == {name: said[name] for name in FIGURES}
    assert (
        part_figures(
            tmp_path / "none",
            tmp_path / "link.parquet",
            options.parts,
            topology="gateway",
            start_at_ns=0,
            warmup_s=0,
        )
        == []
    )
