"""What each child process of a run is told, out of the run's options; it starts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ivsim.credentials import GATEWAY
from ivsim.options import RunOptions
from ivsim.testbed.paths import installed_jars
from schemas.topics import CLOUD_ADDRESS
from simulator.links.prober import PROBE_PORT
from simulator.scenario import Scenario

if TYPE_CHECKING:
    from ivsim.parts import Parts

COAP_PORT = 5683
MESSAGES_PER_S_ATTRIBUTED = 3_000
MESSAGES_PER_S_UNDER_LOAD = 2_000
# The twin's first real-time batch lasts 300 s, of which the start of a run takes some.
BOUNDARY_AFTER_S = 240.0


def scenario_of(options: RunOptions) -> Scenario:
    """Return the fleet that the options ask for."""
    return Scenario(
        vehicles=options.vehicles,
        interval_s=options.interval_s,
        duration_s=options.duration_s,
        format=options.format,
        seed=options.seed,
        message_bytes=options.message_bytes,
    )


def broker_port(parts: Parts) -> int:
    """Return the port to which vehicles send."""
    return COAP_PORT if parts.broker is None else parts.broker.port


def twin_config(parts: Parts) -> dict[str, Any]:
    """Return what the twin process, or the ledger alone, is told."""
    chosen = parts.options.spark_master
    return {
        **({} if chosen is None else {"spark_master": chosen}),
        # Compiling fully costs CPU at the start and pays only for a pipeline under load.
        "jit": "full"
        if parts.options.vehicles / parts.options.interval_s > MESSAGES_PER_S_UNDER_LOAD
        else "quick",
        "run_dir": str(parts.directory.path),
        "bootstrap": parts.bootstrap,
        "topics_prefix": parts.topics.prefix,
        "trigger": parts.options.trigger,
        # A run that ends before the first batch does meets no boundary, and need not wait for its rehearsal.
        "rehearse": parts.options.duration_s + parts.options.loss_timeout_s > BOUNDARY_AFTER_S,
        "topology": parts.options.topology,
        "checkpoint_dir": str(parts.directory.work / "checkpoint"),
        "jars_dir": str(installed_jars("spark")),
        "loss_timeout_s": parts.options.loss_timeout_s,
    }


def page_config(parts: Parts) -> dict[str, Any]:
    """Return what the twin service of the run is told; it listens on loopback alone."""
    return {
        "bootstrap": parts.bootstrap,
        "topics_prefix": parts.topics.prefix,
        "port": parts.options.page_port,
        "title": f"ivsim run {parts.record.run_id}",
    }


def gateway_config(parts: Parts, index: int) -> dict[str, Any]:
    """Return what gateway `index` of the run is told."""
    options, credentials = parts.options, parts.credentials
    return {
        "bootstrap": parts.bootstrap,
        "host": CLOUD_ADDRESS,
        "port": broker_port(parts),
        "mode": options.mode,
        "format": options.format,
        "topics_prefix": parts.topics.prefix,
        "namespace": parts.cloud_namespace,
        "tls": _tls(parts),
        "username": GATEWAY if credentials.passwords else None,
        "password": credentials.passwords.get(GATEWAY),
        "name": f"gateway-{index}",
        "shared": options.gateways > 1,
        "early_ack": options.early_ack,
        "receive_log": str(parts.directory.path / f"received-{index}.events"),
        "faults": {"drop": options.faults.gateway, "mislabel": options.faults.twin},
    }


def echo_config(parts: Parts) -> dict[str, Any]:
    """Return what CoAP's echo server is told; the other protocols have a broker for it."""
    return {
        "host": CLOUD_ADDRESS,
        "port": COAP_PORT,
        "mode": parts.options.mode,
        "namespace": parts.cloud_namespace,
    }


def pacer_config(parts: Parts) -> dict[str, Any]:
    """Return what the pacer is told."""
    options = parts.options
    passwords = {name: word for name, word in parts.credentials.passwords.items() if name != GATEWAY}
    return {
        "protocol": options.protocol,
        "mode": options.mode,
        "topology": options.topology,
        "host": CLOUD_ADDRESS,
        "port": broker_port(parts),
        "tls": _tls(parts),
        "passwords": passwords or None,
        "scenario": scenario_of(options).model_dump(),
        "events_path": str(parts.directory.emission_events),
        "drain_s": options.loss_timeout_s,
        "bind_addresses": True,
        "keepalive_s": options.keepalive_s,
        "outbox_limit": options.outbox_limit,
        "outbox_policy": options.outbox_policy,
    }


def capture_config(parts: Parts, device: str) -> dict[str, Any]:
    """Return what the capture at the vehicles' end is told."""
    options = parts.options
    return {
        "device": device,
        "run_dir": str(parts.directory.path),
        "echo": options.topology == "echo",
        "probe_ports": [PROBE_PORT],
        # Attribution follows 40,000 frames/s; above that only the counts keep up with the ring.
        "messages": options.vehicles / options.interval_s <= MESSAGES_PER_S_ATTRIBUTED,
    }


def receive_logs(directory: Path) -> list[Path]:
    """Return the gateways' receive logs in a run directory."""
    return sorted(directory.glob("received-*.events"))


def _tls(parts: Parts) -> dict[str, str] | None:
    authority = parts.credentials.authority
    return None if authority is None else {"ca_file": str(authority)}
