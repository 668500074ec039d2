"""What the host decides, read from made-up /proc and /sys: absent limits are not unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.runs.host import host, limits


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpu_cores", "memory_bytes"),
    [
        ({}, None, None),
        ({"proc/self/cgroup": "0::/a/b\n"}, None, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/b/memory.max": "2000000\n",
                "sys/fs/cgroup/a/memory.max": "1000000\n",
            },
            1.5,
            1_000_000,
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/cpu.max": "max 100000\n",
                "sys/fs/cgroup/memory.max": "max\n",
            },
            "none",
            "none",
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n2:cpu,cpuacct:/\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4096000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            "none",
            4_096_000,
        ),
    ],
)
def test_the_tightest_group_limits(tmp_path: Path, files, cpu_cores, memory_bytes) -> None:
    assert limits(tree(tmp_path, files)) == {"cpu_cores": cpu_cores, "memory_bytes": memory_bytes}


def test_what_no_file_says_is_unknown(tmp_path: Path) -> None:
    found = host(tmp_path)
    assert found["clock"]["source"] is found["clock"]["available"] is None
    assert found["cpu"]["governor"] is found["cpu"]["virtual_machine"] is None


def test_governor_clock_and_hypervisor(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    root = tree(
        tmp_path,
        {
            f"{cpus}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpus}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpus}/cpufreq/boost": "1\n",
            "proc/cpuinfo": "processor: 0\nflags\t\t: fpu hypervisor\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        },
    )
    found = host(root)
    assert found["cpu"]["governor"] == ["performance", "powersave"]
    assert (found["cpu"]["virtual_machine"], found["clock"]["source"]) == (True, "tsc")


BALLOON = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features"
GUEST = "flags : fpu hypervisor\n"


@pytest.mark.parametrize(
    ("files", "returned"),
    [
        ({BALLOON: f"{'01100100':0<64}\n", "proc/cpuinfo": GUEST}, True),
        ({BALLOON: f"{'01100000':0<64}\n", "proc/cpuinfo": GUEST}, False),
        ({"proc/cpuinfo": GUEST}, None),
        ({"proc/cpuinfo": "flags : fpu\n"}, False),
        ({}, None),
    ],
)
def test_a_balloon_that_reports_free_pages_is_seen(tmp_path: Path, files, returned: bool | None) -> None:
    assert host(tree(tmp_path, files))["memory"] == {"free_pages_returned": returned}


def test_builds_are_those_that_run() -> None:
    libraries = host()["libraries"]
    assert libraries["librdkafka"].count(".") >= 2
    assert libraries["openssl"].startswith("OpenSSL")
