"""How the clients of a run log in at a broker that is there, out of the run's options."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, SharedKeys
from gateways.protocols.shared_keys import shared_key
from ivsim.options import RunOptions
from ivsim.runs.processes import client_prefix, queues
from ivsim.target import Accounts, Target
from ivsim.testbed.credentials import GATEWAY, Credentials
from ivsim.testbed.security import OPEN
from ivsim.testbed.target_cleanup import Client
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.topics import vehicle_id


def target_credentials(
    options: RunOptions, target: Target, names: Sequence[str] | None = None
) -> Credentials:
    """Return what every client shows; Refusal names the file or the client for which there is nothing.

    Args:
        options: name the files.
        target: the broker.
        names: of the clients; None: those of a run with these options.
    """
    if names is None:
        names = _clients(options)
    passwords, usernames = {}, {}
    keys = None
    if options.target_keys is not None:
        for name in names:
            shared_key(options.target_keys, name)
        keys = SharedKeys(str(Path(options.target_keys).absolute()), "dtls-psk")
    if options.target_accounts is not None:
        path = Path(options.target_accounts)
        accounts = Accounts.read(path)
        for name in names:
            account = accounts.of(name)
            if account is None:
                raise Refusal(f"--target-accounts {path}: none for {name}, and none for everybody (*)")
            usernames[name], passwords[name] = account
    return Credentials(
        OPEN,
        _authority(options, target),
        passwords,
        certificates=_certificates(options, names),
        usernames=usernames,
        keys=keys,
        server_name=target.host if target.security == "tls" else None,
    )


def _clients(options: RunOptions) -> list[str]:
    names = [vehicle_id(number) for part in options.parts for number in part.vehicles]
    return [*names, GATEWAY] if TOPOLOGIES[options.topology].bridged else names


def left_on_target(
    options: RunOptions, target: Target, run_id: str, credentials: Credentials
) -> list[Client]:
    """Return the clients of which a broker may keep a session or a queue when all have taken their leave.

    Vehicles end their own sessions where their mode has a word for it; their queues expire.
    """
    prefix, mode = client_prefix(options, run_id), PROTOCOLS[options.protocol].modes[options.mode]
    names: dict[str, str] = {}
    if TOPOLOGIES[options.topology].bridged:
        names |= {f"{prefix}{name}": GATEWAY for name in queues(options)}
    if mode.leaves_session:
        for own in (vehicle_id(number) for part in options.parts for number in part.vehicles):
            names[f"{prefix}{own}"] = own
            if TOPOLOGIES[options.topology].echoed:
                names[f"{prefix}{own}-echo"] = own
    usernames, passwords = credentials.usernames, credentials.passwords
    return [
        Client(
            name,
            Endpoint(target.host, target.port, credentials.tls(own), usernames.get(own), passwords.get(own)),
        )
        for name, own in names.items()
    ]


def _authority(options: RunOptions, target: Target) -> Path | None:
    if target.security != "tls":
        return None
    if options.target_ca is not None:
        path = Path(options.target_ca)
        if not path.is_file():
            raise Refusal(f"--target-ca {path}: no such file")
        return path.absolute()
    found = ssl.get_default_verify_paths().cafile
    if found is None:
        raise Refusal(
            "this system names no file of authorities: --target-ca with the one that signed for the target"
        )
    return Path(found)


def _certificates(options: RunOptions, names: Sequence[str]) -> Path | None:
    if options.target_certificates is None:
        return None
    directory = Path(options.target_certificates).absolute()
    for name in names:
        if not (directory / f"{name}.pem").is_file():
            raise Refusal(f"--target-certificates {directory}: {name}.pem is missing")
    return directory
