"""`python -m gateways PROTOCOL --config FILE`: one gateway process, from a protocol into Kafka."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from gateways import echo
from gateways.config import read_gateway_config
from gateways.process import GatewayProcess
from gateways.protocols import PROTOCOLS
from schemas.control import emit
from schemas.errors import Refusal
from schemas.outlet import log_to_stderr

# Not gateways but what echoes in their place, for protocols that have no broker to do it.
ECHOES = {f"{protocol.name}-echo": protocol for protocol in PROTOCOLS.values() if protocol.broker is None}


def main(argv: list[str] | None = None) -> int:
    """Return 0 after an orderly stop, 1 after a failure on the way, 2 for a refusal before the start."""
    parser = argparse.ArgumentParser(prog="python -m gateways")
    parser.add_argument("protocol", choices=[*PROTOCOLS, *ECHOES])
    parser.add_argument("--config", type=Path, required=True, help="JSON file, see gateways/config.py")
    parser.add_argument("--early-ack", action="store_true", help="acknowledge before Kafka has the record")
    arguments = parser.parse_args(argv)
    log_to_stderr("%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        echoed = ECHOES.get(arguments.protocol)
        if echoed is not None:
            return asyncio.run(echo.run(echo.read_echo_config(arguments.config, echoed), echoed))
        config = read_gateway_config(arguments.config)
        if arguments.early_ack:
            config = config.model_copy(update={"early_ack": True})
        return asyncio.run(GatewayProcess(arguments.protocol, config).run())
    except Refusal as refusal:
        emit("error", message=str(refusal))
        return 2


if __name__ == "__main__":
    sys.exit(main())
