"""What a run takes of the memory at least, what is available, and what is said where that is too little."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.option_rules import run_options
from ivsim.runs import memory
from ivsim.runs.memory import (
    GUEST,
    MEASURED,
    SPARK,
    SURE_RATIO,
    available_bytes,
    check_memory,
    check_memory_with_link,
    fitting_vehicles,
    machine_bytes,
    needed_bytes,
)
from ivsim.testbed.servers import KAFKA
from schemas.errors import Refusal

MB = 1_000_000
TARGET = {"link": "direct", "target": "mqtt://broker.example"}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def machine(root: Path, available_mb: float) -> Path:
    return tree(root, {"proc/meminfo": f"MemAvailable: {math.ceil(available_mb * MB / 1024)} kB\n"})


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 0 kB\n"}
V1 = "4:memory:/x/y\n2:cpu,cpuacct:/\n0::/\n"


@pytest.mark.parametrize(
    ("files", "available_kib"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\n"}, None),  # older than Linux 3.14
        (MEMINFO, 4_000),
        (MEMINFO | {"proc/meminfo": "MemAvailable: 4000 kB\nSwapFree: 500 kB\n"}, 4_500),
        (MEMINFO | {"proc/self/cgroup": "0::/a/b\n"}, 4_000),
        (MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 4_000),
        (MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1024000\n"}, 4_000),
        (
            MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1024000\n",
                       "sys/fs/cgroup/a/memory.current": "204800\n"},
            800,
        ),
        (  # a group above may be the tighter one, though its own limit is the greater
            MEMINFO | {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1024000\n",
                       "sys/fs/cgroup/a/b/memory.current": "204800\n", "sys/fs/cgroup/a/memory.max": "2048000\n",
                       "sys/fs/cgroup/a/memory.current": "1843200\n"},
            200,
        ),
        (  # files that were read are dropped for whoever needs memory
            MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1024000\n",
                       "sys/fs/cgroup/a/memory.current": "1024000\n",
                       "sys/fs/cgroup/a/memory.stat": "anon 9\nfile 512000\ninactive_file 204800\nactive_file 102400\n"},
            300,
        ),
        (
            MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1024000\n",
                       "sys/fs/cgroup/a/memory.current": "2048000\n"},
            0,
        ),
        (  # within a container the path may be the host's
            MEMINFO | {"proc/self/cgroup": "0::/host/path\n", "sys/fs/cgroup/memory.max": "1024000\n",
                       "sys/fs/cgroup/memory.current": "0\n"},
            1_000,
        ),
        (
            MEMINFO | {"proc/self/cgroup": V1, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                       "sys/fs/cgroup/memory/memory.usage_in_bytes": "9000000\n",
                       "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2048000\n",
                       "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1024000\n",
                       "sys/fs/cgroup/memory/x/memory.stat": "inactive_file 4096\ntotal_inactive_file 102400\n"},
            1_100,
        ),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1024000\n",
          "sys/fs/cgroup/a/memory.current": "0\n"}, 1_000),
        (MEMINFO | {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "many\n"}, 4_000),
    ],
)  # fmt: skip
def test_what_is_available_is_the_least_of_machine_and_groups(
    tmp_path: Path, files: dict[str, str], available_kib: int | None
) -> None:
    found = available_bytes(tree(tmp_path, files))
    assert found == (None if available_kib is None else available_kib * 1024)


def test_a_machine_that_does_not_say_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    check_memory(run_options(vehicles=50_000, interval_s=60.0))
    check_memory_with_link(run_options(vehicles=50_000, interval_s=60.0))


def test_a_small_machine_runs_what_ci_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 cores and 7 GB, of which other programs have a part."""
    monkeypatch.setattr(memory, "ROOT", machine(tmp_path, 5_000))
    for more in ({}, {"vehicles": 1_000}, {"vehicles": 5_000, "interval_s": 10.0}, {"topology": "echo"}):
        check_memory(run_options(link="uml", **more))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"link": "direct"}, ", or --agent"),
        ({"target": "mqtt://broker.example", "agents": ["192.0.2.1:7070"], "link": "direct", "agents_only": True}, ""),
    ],
)  # fmt: skip
def test_a_refusal_names_both_figures_and_the_number_that_fits(
    more: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = run_options(vehicles=60_000, interval_s=600.0, **more)
    available_mb = needed_bytes(options.model_copy(update={"vehicles": 3_100})) / MB + 0.005
    monkeypatch.setattr(memory, "ROOT", machine(tmp_path, available_mb))
    needed_gb = math.ceil(needed_bytes(options) / 1e8) / 10
    available_gb = math.floor(available_bytes(tmp_path) / 1e8) / 10  # type: ignore[operator]
    fitting = fitting_vehicles(options, (), available_bytes(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(Refusal) as refused:
        check_memory(options)
    assert str(refused.value) == (
        f"--vehicles 60000: needs at least {needed_gb} GB of memory, {available_gb} GB are available; allowed here:"
        f" up to {fitting:,} vehicles{words}"
    )
    check_memory(options.model_copy(update={"vehicles": fitting}))


def test_a_machine_without_memory_for_one_vehicle_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "ROOT", machine(tmp_path, 150))
    with pytest.raises(Refusal) as refused:
        check_memory(run_options(vehicles=1, link="direct"))
    needed_gb = math.ceil(needed_bytes(run_options(vehicles=1, link="direct")) / 1e8) / 10
    assert str(refused.value) == (
        f"--vehicles 1: needs at least {needed_gb} GB of memory, 0.1 GB are available, not enough for one vehicle:"
        " end other programs, or take another machine"
    )


@given(
    st.integers(1, 100_000),
    st.floats(0, 10_000 * MB),
    st.sampled_from([
        {"protocol": "mqtt"},
        {"protocol": "coap", "mode": "con", "link": "uml"},
        {"protocol": "amqp", "mode": "auto", "topology": "echo"},
        {"topology": "edge", "gateways": 3},
        {"brokers": 2, "gateways": 2},
        {"mix": "mqtt qos1=70,coap con=20,amqp manual=10"},
        {**TARGET, "agents": ["192.0.2.1:7070", "192.0.2.2:7070"]},
    ]),
)  # fmt: skip
def test_the_number_that_fits_does_and_one_more_does_not(
    vehicles: int, available: float, more: dict[str, Any]
) -> None:
    # The number alone varies: what else an option must be to it is not asked.
    options = run_options(vehicles=20, interval_s=10.0, **more).model_copy(update={"vehicles": vehicles})
    if needed_bytes(options) <= available:
        return
    fitting = fitting_vehicles(options, (), int(available))
    assert 0 <= fitting < vehicles
    if fitting:
        assert needed_bytes(options.model_copy(update={"vehicles": fitting})) <= available
    assert needed_bytes(options.model_copy(update={"vehicles": fitting + 1})) > int(available)


def at_rest(*names: str) -> float:
    return SURE_RATIO * sum(MEASURED[name].at_rest_mb for name in names) * MB


def of_vehicles(vehicles: int, *names: str) -> float:
    return SURE_RATIO * vehicles * sum(MEASURED[name].vehicle_kb for name in names) * 1_000


HERE = ("runner", "capture", "sender mqtt", "mosquitto", "gateway mqtt", KAFKA, SPARK)


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"link": "direct"}, HERE),
        ({"link": "auto"}, HERE),  # whose link may be the kernel's own
        ({"link": "uml"}, (*HERE, GUEST)),
        ({"topology": "echo", "link": "direct"}, ("runner", "capture", "sender mqtt", "mosquitto")),
        ({"topology": "peer", **TARGET}, ("runner", "capture", "sender mqtt")),
        (TARGET, ("runner", "capture", "sender mqtt", "gateway mqtt", KAFKA, SPARK)),
        (
            {
                **TARGET,
                "kafka": "192.0.2.1:9092",
                "spark_master": "spark://127.0.0.1:7077",
                "spark_checkpoint": "s3a://b/t",
            },
            ("runner", "capture", "sender mqtt", "gateway mqtt"),
        ),
        (
            {**TARGET, "spark_master": "cluster[2]"},
            ("runner", "capture", "sender mqtt", "gateway mqtt", KAFKA, *[SPARK] * 3),
        ),
        ({"link": "direct", "spark_conf": ["spark.driver.memory=600m"]}, HERE[:-1]),
        (
            {"link": "direct", "protocol": "coap", "mode": "con"},
            ("runner", "capture", "sender coap", "gateway coap", KAFKA, SPARK),
        ),
    ],
)
def test_a_run_needs_the_memory_of_its_parts_here(more: dict[str, Any], names: tuple[str, ...]) -> None:
    options = run_options(vehicles=500, interval_s=10.0, **more)
    assert needed_bytes(options) == round(at_rest(*names) + of_vehicles(500, *names))


def test_vehicles_of_agents_have_their_senders_elsewhere() -> None:
    agents = [f"192.0.2.{host}:7070" for host in (1, 2)]
    shared = run_options(vehicles=900, interval_s=10.0, topology="peer", agents=agents, shards="3", **TARGET)
    here = at_rest("runner", "sender mqtt") + of_vehicles(900, "runner") + of_vehicles(300, "sender mqtt")
    assert needed_bytes(shared) == round(here)
    none_here = shared.model_copy(update={"agents_only": True})
    assert needed_bytes(none_here) == round(at_rest("runner") + of_vehicles(900, "runner"))


def test_each_process_has_what_it_takes_at_rest() -> None:
    one = run_options(vehicles=100, interval_s=10.0, link="direct")
    more = run_options(vehicles=100, interval_s=10.0, link="direct", shards="3", gateways=2, brokers=2)
    # Two brokers have three senders each, and two gateways each.
    further = 5 * at_rest("sender mqtt") + at_rest("mosquitto") + 3 * at_rest("gateway mqtt")
    assert needed_bytes(more) - needed_bytes(one) == pytest.approx(further, abs=1)


def test_gateways_at_the_edge_have_the_links() -> None:
    near = run_options(vehicles=1_000, interval_s=10.0, link="uml", topology="edge", gateways=2)
    without = near.model_copy(update={"link": "direct"})
    assert needed_bytes(near) - needed_bytes(without) == pytest.approx(
        at_rest(GUEST) + of_vehicles(2, GUEST), abs=1
    )


def test_what_a_testbed_has_up_is_not_counted_again() -> None:
    options = run_options(vehicles=500, interval_s=10.0, link="uml")
    up = {KAFKA, SPARK, GUEST}
    alone = ("runner", "capture", "sender mqtt", "mosquitto", "gateway mqtt")
    assert needed_bytes(options, up) == round(at_rest(*alone) + of_vehicles(500, *alone))
    # `auto` has chosen by then, and is not tried again.
    assert needed_bytes(options.model_copy(update={"link": "auto"}), up) == needed_bytes(options, up)


@pytest.mark.parametrize("chosen", ["netem", GUEST])
def test_the_link_that_is_chosen_counts_and_is_tried_only_where_it_decides(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = run_options(vehicles=500, interval_s=10.0)
    tried: list[str] = []
    monkeypatch.setattr(memory, "choose", lambda name: tried.append(name) or chosen)
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    machine(tmp_path, needed_bytes(options.model_copy(update={"link": GUEST})) / MB)
    check_memory_with_link(options)
    assert tried == []
    machine(tmp_path, needed_bytes(options) / MB)
    check_memory(options)
    if chosen == GUEST:
        with pytest.raises(Refusal, match=r"^--vehicles 500: needs at least .* are available"):
            check_memory_with_link(options)
    else:
        check_memory_with_link(options)
    assert tried == ["auto"]


def test_the_machines_memory_is_its_own_or_its_groups(tmp_path: Path) -> None:
    whole = tree(tmp_path, {"proc/meminfo": "MemTotal:  8000 kB\nMemFree: 1 kB\n"})
    assert machine_bytes(whole) == 8_192_000
    tree(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"})
    assert machine_bytes(whole) == 8_192_000
    tree(tmp_path, {"sys/fs/cgroup/memory.max": "4096000\n"})
    assert machine_bytes(whole) == 4_096_000
