"""Namespaces, veth pairs, addresses and routes on the host side of a link, by pyroute2."""

from __future__ import annotations

import contextlib
import secrets
from typing import Final

from pyroute2 import IPRoute, NetlinkError

from simulator.links import addressing, namespaces, offload
from simulator.links.addressing import Side
from simulator.links.base import LinkError

AF_INET: Final = 2
_MAIN_TABLE: Final = 254
_ONE_ADDRESS: Final = 32


def make_namespace(stack: contextlib.ExitStack, name: str) -> None:
    """Make a namespace that leaves with the stack."""
    namespaces.create(name)
    stack.callback(namespaces.remove, name)
    with namespaces.inside(name), IPRoute() as ip:
        ip.link("set", index=1, state="up")


def veth(near: tuple[str, str, str], far: tuple[str, str, str]) -> None:
    """Make a veth pair of two ends, each (namespace, device, MAC), with offloads off and both up.

    The pair is made in the near namespace under passing names: nothing of it is ever in the host's own.
    """
    passing = f"iv{secrets.token_hex(4)}"
    try:
        with namespaces.inside(near[0]), IPRoute() as ip:
            peer = {"ifname": passing, "net_ns_fd": far[0], "address": far[2], "mtu": addressing.MTU}
            ip.link("add", ifname=near[1], kind="veth", address=near[2], mtu=addressing.MTU, peer=peer)
            _bring_up(ip, near[1])
        with namespaces.inside(far[0]), IPRoute() as ip:
            ip.link("set", index=ip.link_lookup(ifname=passing)[0], ifname=far[1])
            _bring_up(ip, far[1])
    except (NetlinkError, OSError) as error:
        raise LinkError(f"veth {near[1]} to {far[1]}: {error}") from error


def _bring_up(ip: IPRoute, device: str) -> None:
    index = ip.link_lookup(ifname=device)[0]
    ip.link("set", index=index, state="up", txqlen=1000)
    offload.switch_off(device)


def address_side(namespace: str, side: Side) -> None:
    """Give a namespace its address, its AnyIP range and its one route, to the other side alone."""
    with namespaces.inside(namespace), IPRoute() as ip:
        index = ip.link_lookup(ifname=side.device)[0]
        ip.addr("add", index=index, address=side.address, prefixlen=addressing.PREFIX_LENGTH)
        ip.neigh("add", dst=side.router_address, lladdr=side.router_mac, ifindex=index, state="permanent")
        # AnyIP: every address of the range is local without being added one by one.
        ip.route("add", dst=side.network, oif=1, type="local", table=255, scope="host")
        source = side.preferred_source
        ip.route("add", dst=side.other_network, gateway=side.router_address, oif=index, prefsrc=source)


def prefer_source(namespace: str, address: str) -> None:
    """Let what is sent unbound come from this address, which must be one of the namespace's.

    A vehicle's client binds its own address; a library that cannot bind speaks for one vehicle alone.
    """
    with namespaces.inside(namespace), IPRoute() as ip:
        for route in ip.get_routes(family=AF_INET, table=_MAIN_TABLE):
            attributes = dict(route["attrs"])
            if "RTA_GATEWAY" in attributes:
                ip.route(
                    "replace",
                    dst=f"{attributes['RTA_DST']}/{route['dst_len']}",
                    gateway=attributes["RTA_GATEWAY"],
                    oif=attributes["RTA_OIF"],
                    prefsrc=address,
                )


def route_to(namespace: str, address: str, source: str) -> None:
    """Let what is sent unbound to one address at the other end come from `source`, one of the namespace's.

    A library that cannot bind speaks so for each of several ends, which differ by whom they ask.
    """
    with namespaces.inside(namespace), IPRoute() as ip:
        for route in list(ip.get_routes(family=AF_INET, table=_MAIN_TABLE)):
            attributes = dict(route["attrs"])
            if "RTA_GATEWAY" in attributes and route["dst_len"] < _ONE_ADDRESS:
                ip.route(
                    "add",
                    dst=f"{address}/{_ONE_ADDRESS}",
                    gateway=attributes["RTA_GATEWAY"],
                    oif=attributes["RTA_OIF"],
                    prefsrc=source,
                )


def address_control(namespace: str) -> None:
    """Give the control wire's near end its address and its one neighbour."""
    with namespaces.inside(namespace), IPRoute() as ip:
        index = ip.link_lookup(ifname="ctl0")[0]
        ip.addr(
            "add", index=index, address=addressing.CONTROL_PEER_ADDRESS, prefixlen=addressing.PREFIX_LENGTH
        )
