"""Messages that give the router its devices, addresses, neighbours and routes; it opens no socket."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from schemas.topics import CLOUD_NETWORK, VEHICLES_NETWORK
from simulator.links import netlink as nl

# TEST-NET-1 (RFC 5737) between router and namespaces: never an address of a vehicle or a broker.
VEHICLES_MAC, CLOUD_MAC = "02:00:c6:12:00:02", "02:00:c6:13:00:02"
ROUTER_VEHICLES_MAC, ROUTER_CLOUD_MAC = "02:00:c6:12:00:01", "02:00:c6:13:00:01"
CONTROL_MAC, CONTROL_PEER_MAC = "02:00:c6:14:00:01", "02:00:c6:14:00:02"
CONTROL_ADDRESS, CONTROL_PEER_ADDRESS = "192.0.2.9", "192.0.2.10"
PREFIX_LENGTH: Final = 30
MTU: Final = 1500


@dataclass(frozen=True)
class Side:
    """One of the two ends of the link, as the router and as the namespace see it."""

    device: str  # in the namespace
    address: str
    mac: str
    router_address: str
    router_mac: str
    network: str  # what lives at this end
    other_network: str
    preferred_source: str


VEHICLES_SIDE: Final = Side(
    "veh0",
    "192.0.2.2",
    VEHICLES_MAC,
    "192.0.2.1",
    ROUTER_VEHICLES_MAC,
    VEHICLES_NETWORK,
    CLOUD_NETWORK,
    "198.18.255.254",  # no vehicle's: what is sent unbound is lost on the link, and counted
)
CLOUD_SIDE: Final = Side(
    "cld0",
    "192.0.2.6",
    CLOUD_MAC,
    "192.0.2.5",
    ROUTER_CLOUD_MAC,
    CLOUD_NETWORK,
    VEHICLES_NETWORK,
    "198.19.0.1",
)


def new_device(name: str, kind: str) -> bytes:
    """Return: make a virtual device (an ifb) and set it up."""
    up = struct.pack("=BBHiII", 0, 0, 0, 0, 1, 1)
    info = nl.attribute(18, nl.text(1, kind))
    return nl.message(nl.NEWLINK, nl.CREATE_EXCLUSIVE, up + nl.text(3, name) + nl.u32(13, 1000) + info)


def set_up(index: int) -> bytes:
    """Return: set a device up with a transmit queue of 1000."""
    return nl.message(nl.NEWLINK, 0, struct.pack("=BBHiII", 0, 0, 0, index, 1, 1) + nl.u32(13, 1000))


def address(index: int, value: str) -> bytes:
    packed = socket.inet_aton(value)
    body = struct.pack("=BBBBI", socket.AF_INET, PREFIX_LENGTH, 0, 0, index)
    return nl.message(
        nl.NEWADDR, nl.CREATE_EXCLUSIVE, body + nl.attribute(2, packed) + nl.attribute(1, packed)
    )


def neighbour(index: int, value: str, mac: str) -> bytes:
    """Return: a permanent neighbour, so that no ARP is ever on the link."""
    body = struct.pack("=BBHiHBB", socket.AF_INET, 0, 0, index, 0x80, 0, 0)
    hardware = bytes.fromhex(mac.replace(":", ""))
    return nl.message(
        nl.NEWNEIGH,
        nl.CREATE_EXCLUSIVE,
        body + nl.attribute(1, socket.inet_aton(value)) + nl.attribute(2, hardware),
    )


def route(index: int, network: str, gateway: str) -> bytes:
    """Return: a network through a gateway (main table, static, universe, unicast)."""
    base, length = network.split("/")
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, int(length), 0, 0, 254, 4, 0, 1, 0)
    rest = nl.attribute(1, socket.inet_aton(base)) + nl.attribute(5, socket.inet_aton(gateway))
    return nl.message(nl.NEWROUTE, nl.CREATE_EXCLUSIVE, body + rest + nl.u32(4, index))


def router_side(index: int, side: Side) -> list[bytes]:
    """Return what the router needs to know of one side."""
    return [
        set_up(index),
        address(index, side.router_address),
        neighbour(index, side.address, side.mac),
        route(index, side.network, side.address),
    ]
