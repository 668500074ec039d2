"""What the options of a run must be to one another where agents have a part of its senders."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ivsim.agents.address import address_of
from ivsim.option import Naming
from ivsim.options import AUTO_SHARDS, MAX_SHARDS, RunOptions
from ivsim.target import parse

_FILES = ("target_accounts", "target_ca", "target_certificates", "target_keys", "vehicle_log")


def agents_have_work(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse agents that would have no sender, or a sender without a vehicle."""
    if not options.agents:
        return
    machines = len(options.agents) + (not options.agents_only)
    which = (
        name("agents") if options.agents_only else f"this one and {len(options.agents)} of {name('agents')}"
    )
    of = f"there are {machines}, {which}"
    if options.vehicles < machines:
        yield f"{name('vehicles')} {options.vehicles}: each machine needs one at least: {of}"
    elif options.shards != AUTO_SHARDS and int(options.shards) < machines:
        yield f"{name('shards')} {options.shards}: each machine needs one at least: {of}"
    elif machines > MAX_SHARDS:
        yield f"{name('agents')}: a run has up to {MAX_SHARDS} senders, and each machine needs one: {of}"


def agents_need_no_files(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse what vehicles of another machine would need from a file of this one."""
    if not options.agents:
        return
    for field in _FILES:
        if (path := getattr(options, field)) is not None:
            yield f"{name(field)} {path}: not with {name('agents')}: the file is on this machine alone"
    alone = f"not with {name('agents')}, whose vehicles speak in the clear alone"
    if options.security != "plain":
        yield f"{name('security')} {options.security}: {alone}"
    if options.target is not None and parse(options.target).security != "plain":
        yield f"{name('target')} {options.target}: {alone}"


def agents_can_reach(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a target, or an entrance, that vehicles of another machine cannot reach."""
    if not options.agents:
        return
    field, host = "entrance", options.entrance
    if options.target is not None:
        field, host = "target", parse(options.target).host
    elif host is not None:
        for part in options.parts:
            if part.protocol.broker is None:
                yield f"{name('entrance')} {host}: leads to brokers, and {part.words} has none: needs {name('target')}"
        if options.brokers > 1:
            yield f"{name('brokers')} {options.brokers}: not with {name('entrance')}, which leads to one"
        if _any(host):
            yield f"{name('entrance')} {host}: is no machine's address: name one at which agents find this machine"
    for text in options.agents:
        if host is not None and _here(host) and not _here(address_of(text).host):
            yield (
                f"{name(field)} {getattr(options, field)}: {host} is another machine for the vehicles of"
                f" {name('agents')} {text}: name an address that all reach"
            )


def _here(host: str) -> bool:
    """Say whether a name is each machine's own word for itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _any(host: str) -> bool:
    """Say whether an address stands for every one that a machine has."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
