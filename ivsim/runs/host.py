"""What the host decides, and nothing of ours asks for: clock, frequency, limits, builds; None where it cannot be read.

Two hosts with the same processor and the same versions may differ in each of these, and a figure with them. They are read
from the kernel's files, so that they are of this process: its control group, and the cores that it may use.
"""

from __future__ import annotations

import os
import platform
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pyarrow as pa

_ROOT: Final = Path("/")
# Version 1 says "no limit" as the largest multiple of a page in 63 bits.
_NO_LIMIT_BYTES: Final = 1 << 62
_BALLOON_REPORTING: Final = 5  # the number of the feature


def host(root: Path = _ROOT) -> dict[str, Any]:
    """Return what this host decides; None is unknown, and a limit of "none" is known to be absent.

    Args:
        root: below which /proc and /sys are looked for.
    """
    return {
        "kernel_build": platform.version(),
        "clock": _clock(root),
        "cpu": _cpu(root),
        "memory": {"free_pages_returned": _free_pages_returned(root)},
        "limits": limits(root),
        "libraries": _libraries(),
    }


def _clock(root: Path) -> dict[str, Any]:
    source = root / "sys/devices/system/clocksource/clocksource0"
    return {
        "source": _word(source / "current_clocksource"),
        "available": (_word(source / "available_clocksource") or "").split() or None,
        "resolution_ns": round(time.clock_getres(time.CLOCK_REALTIME) * 1e9),
    }


def _cpu(root: Path) -> dict[str, Any]:
    cpus = root / "sys/devices/system/cpu"
    governors = {_word(path) for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    drivers = {_word(path) for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_driver")} - {None}
    flags = _flags(root / "proc/cpuinfo")
    return {
        "governor": sorted(map(str, governors)) or None,
        "frequency_driver": sorted(map(str, drivers)) or None,
        "simultaneous_threads": _word(cpus / "smt/control"),
        "virtual_machine": None if flags is None else "hypervisor" in flags,
        "usable_cores": len(os.sched_getaffinity(0)),
    }


def _free_pages_returned(root: Path) -> bool | None:
    """Return whether a virtual machine's free memory goes back to its host; None where there is no device that would say.

    Each first write to such a page costs an exit to the host. It is the balloon's feature F_REPORTING (VIRTIO 1.2, section
    5.5.3).
    """
    words = map(_word, root.glob("sys/bus/virtio/drivers/virtio_balloon/virtio*/features"))
    features = [word for word in words if word is not None]
    if features:
        return any(word[_BALLOON_REPORTING : _BALLOON_REPORTING + 1] == "1" for word in features)
    flags = _flags(root / "proc/cpuinfo")
    return None if flags is None or "hypervisor" in flags else False


def _flags(path: Path) -> set[str] | None:
    """Return the flags of the first processor; None where the architecture names none."""
    for line in (_text(path) or "").splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return None


def limits(root: Path = _ROOT) -> dict[str, Any]:
    """Return the tightest limits of this process's control groups, in either version of them.

    `cpu_cores`: cores' worth of time that it may use; `memory_bytes`. Each is "none" where no group limits it, and None
    where no group can be read.
    """
    return {
        "cpu_cores": _tightest(map(_cores, groups(root, "cpu"))),
        "memory_bytes": _tightest(map(_bytes, groups(root, "memory"))),
    }


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the directories of this process's group and those above it that limit it, of version 2 and 1."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            top = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            top = root / "sys/fs/cgroup" / controllers
        else:
            continue
        own = top / path.lstrip("/")
        # Within a container the path may be that of the host, whose directories are not here: then the top is its own.
        for directory in dict.fromkeys((own, *own.parents, top)):
            if directory == top or top in directory.parents:
                yield directory


def _cores(group: Path) -> float | str | None:
    if (line := _word(group / "cpu.max")) is not None:
        quota, _, period = line.partition(" ")
        return "none" if quota == "max" else int(quota) / int(period)
    quota_us, period_us = _word(group / "cpu.cfs_quota_us"), _word(group / "cpu.cfs_period_us")
    if quota_us is None or period_us is None:
        return None
    return "none" if int(quota_us) < 0 else int(quota_us) / int(period_us)


def _bytes(group: Path) -> int | str | None:
    word = _word(group / "memory.max") or _word(group / "memory.limit_in_bytes")
    if word is None:
        return None
    return "none" if word == "max" or int(word) >= _NO_LIMIT_BYTES else int(word)


def _tightest(found: Iterator[float | str | None]) -> float | str | None:
    known = [one for one in found if one is not None]
    numbers = [one for one in known if not isinstance(one, str)]
    return min(numbers) if numbers else "none" if known else None


def _libraries() -> dict[str, str | None]:
    name, version = platform.libc_ver()
    return {
        "librdkafka": confluent_kafka.libversion()[0],
        "openssl": ssl.OPENSSL_VERSION,
        "libc": f"{name} {version}" if name else None,
        "arrow": pa.cpp_build_info.version,
        "python_build": f"{platform.python_implementation()} {platform.python_compiler()}",
    }


def _word(path: Path) -> str | None:
    text = _text(path)
    return None if text is None else text.strip() or None


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
