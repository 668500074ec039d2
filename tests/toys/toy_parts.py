"""One toy of each kind of part, each added to its table by one line, as somebody else's package would.

Also a plugin of pytest, `-p toy_parts`: the contract suites then run over the toys as well.
"""

from __future__ import annotations

import numpy as np
import typer
from toy_protocol import BrokeredToy, Toy

from gateways.protocols import PROTOCOLS
from ivsim.commands import COMMANDS, Command
from ivsim.testbed.server import ServerKind
from ivsim.testbed.servers import SERVERS
from ledger.metrics import METRICS, Metric
from schemas.errors import PayloadError, Refusal
from schemas.formats import FORMATS
from schemas.formats.json import Json
from simulator.traces import Trace
from simulator.traces.importers import IMPORTERS
from simulator.traces.importers.base import Importer


class HexJson:
    """JSON in hexadecimal digits."""

    name = "hexjson"
    content_type = "text/plain"
    sequence_modulus = None
    blocks = None
    header_only = False

    def encode(self, status):
        return Json().encode(status).hex().encode()

    def decode(self, payload):
        return self._read(Json().decode, payload)

    def peek(self, payload):
        return self._read(Json().peek, payload)

    def _read(self, read, payload):
        try:
            return read(bytes.fromhex(payload.decode("ascii")))
        except ValueError:
            raise PayloadError(self.name, 0, "no hexadecimal digits") from None
        except PayloadError as error:
            raise PayloadError(self.name, None, str(error)) from None


def _read(source, options):
    rates = [float(row[0].removeprefix("toy ")) for row in source.cells()]
    return Trace(
        time_s=np.arange(len(rates), dtype=float),
        uplink_kbps=np.array(rates),
        header=source.header("toy", "none needed", rate_meaning="capacity"),
    )


def _missing() -> str:
    raise Refusal("no toy-broker found: it is a toy")


def command(loud: bool = typer.Option(False, help="Say it in capitals.")) -> None:
    """Greet, as a command of somebody else's."""
    print("HELLO" if loud else "hello")


TABLES = (PROTOCOLS, FORMATS, SERVERS, COMMANDS, IMPORTERS, METRICS)


def add() -> None:
    """Add each toy to its table."""
    PROTOCOLS["toy"] = Toy()
    PROTOCOLS["toy-brokered"] = BrokeredToy()
    FORMATS["hexjson"] = HexJson()
    SERVERS["toy-broker"] = ServerKind(
        "toy-broker",
        "toy-broker",
        "play",
        _missing,
        lambda: None,
        lambda *_: None,
        saves_late=True,
    )
    COMMANDS["toy"] = Command("toy", "toy_parts", "Greet.")
    METRICS["toy_share"] = Metric("toy_share", "ratio", "all", "share of toys among the parts")
    IMPORTERS["toy"] = Importer(
        "toy", "a rate a line", frozenset(), lambda lines: lines[0].startswith("toy "), _read
    )


def pytest_configure() -> None:
    add()
