"""How TCP behaves at both ends of a link: the congestion control is chosen, everything else is fixed or recorded.

What the host prefers must not decide a result: on a lossy link CUBIC and BBR differ by a factor. The algorithm is an
attribute of the route across the link (`congctl`, RTAX_CC_ALGO), not of a namespace: the route's attribute holds for
connections that are made and for those that are accepted, by servers too that listened before; and it offers every
algorithm of the kernel where a namespace's sysctl offers those allowed to all. TCP's other settings are read once the
namespaces are made, and stand in the manifest.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute, NetlinkError

from simulator.links.base import Link, LinkError
from simulator.links.namespaces import inside

_MAIN_TABLE: Final = 254
_SYSCTLS: Final = Path("/proc/sys/net/ipv4")
# Each belongs to a namespace. What a connection has learnt (its threshold, its RTT) must not shape the next one.
FIXED: Final = {
    "tcp_no_metrics_save": "1",
    "tcp_sack": "1",
    "tcp_dsack": "1",
    "tcp_recovery": "1",
    "tcp_timestamps": "1",
    "tcp_window_scaling": "1",
    "tcp_ecn": "2",
    "tcp_slow_start_after_idle": "1",
}
RECORDED: Final = (
    *FIXED,
    "tcp_rmem",
    "tcp_wmem",
    "tcp_early_retrans",
    "tcp_thin_linear_timeouts",
    "tcp_syn_retries",
)


def has(algorithm: str) -> bool:
    """Say whether this kernel has that congestion control, or loads it when it is asked for."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asking:
        try:
            asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        except FileNotFoundError:
            return False
        except PermissionError:  # it has it, and does not let everyone choose it by a socket
            return True
    return True


def use(link: Link, algorithm: str) -> None:
    """Fix TCP's settings in both namespaces and choose the congestion control of connections to come.

    Raises:
        LinkError: where the kernel has no such algorithm, or a setting does not hold.
    """
    for namespace in (link.vehicles_namespace, link.cloud_namespace):
        with inside(namespace), IPRoute() as ip:
            for name, value in FIXED.items():
                _fix(namespace, name, value)
            _choose(ip, namespace, algorithm)


def _fix(namespace: str, name: str, value: str) -> None:
    path = _SYSCTLS / name
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError as error:
        raise LinkError(
            f"namespace {namespace}: {name} cannot be set to {value}: {error.strerror}"
        ) from error


def _choose(ip: IPRoute, namespace: str, algorithm: str) -> None:
    for route in ip.get_routes(table=_MAIN_TABLE, family=2):
        attributes = dict(route["attrs"])
        if "RTA_GATEWAY" not in attributes:
            continue
        wanted = {
            "dst": f"{attributes['RTA_DST']}/{route['dst_len']}",
            "gateway": attributes["RTA_GATEWAY"],
            "oif": attributes["RTA_OIF"],
            "metrics": {"cc_algo": algorithm},
        }
        if "RTA_PREFSRC" in attributes:
            wanted["prefsrc"] = attributes["RTA_PREFSRC"]
        try:
            ip.route("replace", **wanted)
        except NetlinkError as error:
            raise LinkError(f"namespace {namespace}: congestion control {algorithm!r}: {error}") from error


def settings(link: Link) -> dict[str, Any]:
    """Return what TCP is set to at the vehicles' end, for the manifest: the route's algorithm and the sysctls."""
    found: dict[str, Any] = {}
    with inside(link.vehicles_namespace), IPRoute() as ip:
        for route in ip.get_routes(table=_MAIN_TABLE, family=2):
            metrics = dict(route["attrs"]).get("RTA_METRICS")
            if metrics is not None:
                found["congestion_control"] = dict(metrics["attrs"]).get("RTAX_CC_ALGO")
        for name in RECORDED:
            path = _SYSCTLS / name
            found[name] = path.read_text().strip() if path.exists() else None
    return found
