"""One connection of each kind of client to a target, before a run starts anything: who is refused there is refused here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from gateways.protocols.base import Endpoint, Mode, Protocol, VehicleSettings
from gateways.protocols.ends import ConnectError
from ivsim.options import RunOptions, option_name
from ivsim.target import Target
from ivsim.testbed.credentials import GATEWAY, Credentials
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.topics import vehicle_id

TRIAL_S: Final = 5.0


def try_target(options: RunOptions, target: Target, credentials: Credentials) -> None:
    """Connect the first vehicle in each mode of the run, and the gateway's account; Refusal says who is refused, and why."""
    kinds = {(part.protocol.name, part.mode.name): (part.protocol, part.mode) for part in options.parts}
    first = options.parts[0].vehicles[0]
    names = [vehicle_id(first)]
    if TOPOLOGIES[options.topology].bridged and credentials.usernames.get(GATEWAY) is not None:
        names.append(GATEWAY)
    for protocol, mode in kinds.values():
        for name in names:
            endpoint = Endpoint(
                target.host,
                target.port,
                credentials.tls(name),
                credentials.usernames.get(name),
                credentials.passwords.get(name),
                credentials.keys,
            )
            try:
                _try(protocol, mode, endpoint, first, f"ivsim-trial-{os.getpid()}-{name}-")
            except (OSError, ValueError) as error:
                raise Refusal(f"--target {target}: {_why(options, target, name, error)}") from None


def _try(protocol: Protocol, mode: Mode, endpoint: Endpoint, vehicle: int, prefix: str) -> None:
    # The caller's thread may run an event loop of its own, as a notebook's does.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, _connected(protocol, mode, endpoint, vehicle, prefix)).result()
    if mode.leaves_session:
        protocol.forget(endpoint, prefix + vehicle_id(vehicle))


async def _connected(protocol: Protocol, mode: Mode, endpoint: Endpoint, vehicle: int, prefix: str) -> None:
    settings = VehicleSettings(client_prefix=prefix, connect_timeout_s=TRIAL_S)
    client = protocol.vehicle_client(endpoint, vehicle, mode, _Nobody(), settings)
    try:
        await client.connect()
    finally:
        await client.close()


class _Nobody:
    """Hears what a client tells, and does nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_arguments, **_named: None


def _why(options: RunOptions, target: Target, name: str, error: Exception) -> str:
    who = name if name == GATEWAY else f"vehicle {name}"
    if target.security == "plain" and isinstance(error, ConnectError) and _speaks_tls(target):
        return f"{who}: this port speaks TLS, as {target.scheme}s:// does: {error}"
    file = next(
        (
            f", by {option_name(field)} {given}"
            for field in ("target_accounts", "target_keys", "target_certificates")
            if (given := getattr(options, field)) is not None
        ),
        "",
    )
    return f"{error} ({who}{file})"


def _speaks_tls(target: Target) -> bool:
    """Say whether a server greets by TLS; which certificate it has is not looked at."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection((target.host, target.port), TRIAL_S) as link:
        context.wrap_socket(link).close()
        return True
    return False
