"""CoAP (RFC 7252, 7641, 7959) over UDP: the row of the table; the ends are in the modules beside it, imported when one is made."""

from __future__ import annotations

from types import MappingProxyType

from gateways.protocols.base import (
    Endpoint,
    IntakeSettings,
    Look,
    Mode,
    Protocol,
    Scheme,
    VehicleSettings,
    Word,
)
from gateways.protocols.coap.address import LEVELS
from gateways.protocols.ends import (
    EchoServer,
    Intake,
    Sink,
    Subscriber,
    SubscriberEvents,
    VehicleClient,
    VehicleEvents,
)
from schemas.errors import Refusal


class Coap(Protocol):
    """CoAP without a broker: the gateway is the server."""

    name = "coap"
    label = "CoAP"
    title = "CoAP (RFC 7252)"
    default_mode = "con"
    words = MappingProxyType({"con": Word((True, False), "Confirmable messages, or not.", "non")})
    levels = LEVELS
    settings = frozenset({"coap_block_bytes"})
    securities = ("plain", "oscore", "dtls-psk")
    ladder = ("non", "con")
    line = ":"
    repeats = "protocol"
    transport = "udp"
    packages = ("aiocoap", "python-mbedtls")
    broker = None
    schemes = MappingProxyType({"coap": Scheme("plain", 5683), "coaps": Scheme("dtls-psk", 5684)})
    gauges = frozenset({"message_ids_remembered"})
    port = 5683
    # A server notifies in one type only, so each mode has its own; 5684 is CoAP's secured port.
    echo_ports = MappingProxyType({"con": 5683, "non": 5685})
    modes = MappingProxyType(
        {
            "con": Mode(
                "con",
                "CON",
                "at_least_once",
                acknowledged=True,
                options=MappingProxyType({"con": True}),
                look=Look("#009E73", "P"),
            ),
            "non": Mode(
                "non",
                "NON",
                "at_most_once",
                acknowledged=True,
                options=MappingProxyType({"con": False}),
                look=Look("#000000", "x"),
            ),
        }
    )

    def vehicle_client(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> VehicleClient:
        from gateways.protocols.coap.vehicle import CoapVehicle

        con = mode.options["con"]
        return CoapVehicle(_usable(endpoint), vehicle, con=con, events=events, settings=settings)

    def intake(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> Intake:
        from gateways.protocols.coap.intake import CoapIntake

        del mode  # the server answers each request in the request's own type
        return CoapIntake(_usable(endpoint), sink, settings)

    def subscriber(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> Subscriber:
        from gateways.protocols.coap.subscriber import CoapObserver

        con = mode.options["con"]
        return CoapObserver(_plain(endpoint), vehicle, con=con, events=events, settings=settings)

    def reach(self, host: str, port: int, timeout_s: float) -> None:
        from gateways.protocols.coap.ping import ping

        ping(host, port, timeout_s)

    def echo_server(self, endpoint: Endpoint, mode: Mode) -> EchoServer:
        from gateways.protocols.coap.echo import CoapEcho

        return CoapEcho(_plain(endpoint), con=mode.options["con"])


def _usable(endpoint: Endpoint) -> Endpoint:
    if endpoint.tls is not None or endpoint.username is not None:
        raise Refusal("--security tls: allowed with mqtt and amqp; coap has plain, oscore and dtls-psk")
    return endpoint


def _plain(endpoint: Endpoint) -> Endpoint:
    if endpoint.keys is not None:
        raise Refusal(f"--security {endpoint.keys.use}: needs --topology gateway")
    return _usable(endpoint)
