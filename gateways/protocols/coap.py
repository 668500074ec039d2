"""CoAP (RFC 7252, 7641, 7959) over UDP: the row of the table; the ends are in the modules beside it."""

from __future__ import annotations

from types import MappingProxyType

from gateways.protocols.base import (
    Endpoint,
    Intake,
    IntakeSettings,
    Mode,
    Protocol,
    Sink,
    Subscriber,
    SubscriberEvents,
    VehicleClient,
    VehicleEvents,
    VehicleSettings,
)
from gateways.protocols.coap_intake import CoapIntake
from gateways.protocols.coap_observe import CoapObserver
from gateways.protocols.coap_vehicle import CoapVehicle
from schemas.errors import Refusal


class Coap(Protocol):
    """CoAP without a broker: the gateway is the server."""

    name = "coap"
    title = "CoAP (RFC 7252)"
    default_mode = "con"
    words = MappingProxyType({"con": (True, False)})
    broker = None
    modes = MappingProxyType(
        {
            "con": Mode("con", "at_least_once", acknowledged=True, options=MappingProxyType({"con": True})),
            "non": Mode("non", "at_most_once", acknowledged=True, options=MappingProxyType({"con": False})),
        }
    )

    def vehicle_client(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> VehicleClient:
        con = mode.options["con"]
        return CoapVehicle(_plain(endpoint), vehicle, con=con, events=events, settings=settings)

    def intake(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> Intake:
        del mode  # the server answers each request in the request's own type
        return CoapIntake(_plain(endpoint), sink, settings)

    def subscriber(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> Subscriber:
        con = mode.options["con"]
        return CoapObserver(_plain(endpoint), vehicle, con=con, events=events, settings=settings)


def _plain(endpoint: Endpoint) -> Endpoint:
    if endpoint.tls is not None or endpoint.username is not None:
        raise Refusal("--security tls: allowed with mqtt and amqp; coap has plain alone (no DTLS here)")
    return endpoint
