"""AMQP 0-9-1 on RabbitMQ, by pika: the row of the table; the ends are in the modules beside it, imported when one is made."""

from __future__ import annotations

from itertools import product
from types import MappingProxyType

from gateways.protocols.amqp.address import LEVELS
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
from gateways.protocols.ends import Intake, Sink, Subscriber, SubscriberEvents, VehicleClient, VehicleEvents

_LOOKS = {
    ("auto", False, False): Look("#E69F00", "D"),
    ("manual", False, False): Look("#D55E00", "v"),
    ("manual", True, True): Look("#7F3B08", "<"),
}


def _mode(ack: str, confirms: bool, persistent: bool) -> Mode:
    """Return the mode of three words; only all three together survive a fault at every hop."""
    return Mode(
        ack + ("-confirms" if confirms else "") + ("-persistent" if persistent else ""),
        ack + (", confirms" if confirms else "") + (", persistent" if persistent else ""),
        "at_least_once" if ack == "manual" and confirms and persistent else "at_most_once",
        acknowledged=confirms,
        options=MappingProxyType({"ack": ack, "confirms": confirms, "persistent": persistent}),
        look=_LOOKS.get((ack, confirms, persistent)),
        gateway_acknowledges=ack == "manual",
    )


class Amqp(Protocol):
    """The plain word `amqp` means 0-9-1 here; 1.0 is another protocol."""

    name = "amqp"
    label = "AMQP"
    title = "AMQP 0-9-1"
    default_mode = "manual-confirms-persistent"
    words = MappingProxyType(
        {
            "ack": Word(("auto", "manual"), "The gateway's acknowledgement to the broker: auto or manual."),
            "confirms": Word((True, False), "Publisher confirms to the vehicles.", "no-confirms"),
            "persistent": Word((True, False), "Messages that outlive the broker.", "transient"),
        }
    )
    gateway_words = ("ack",)
    gateway_settings = frozenset({"virtual_host", "exchange"})
    levels = LEVELS
    settings = frozenset({"keepalive_s", "tcp", "connect_rate_per_s"})
    securities = ("plain", "tls", "mtls")
    ladder = ("auto", "manual", "manual-confirms-persistent")
    line = "--"
    repeats = "transport"
    packages = ("pika",)
    broker = "rabbitmq"
    schemes = MappingProxyType({"amqp": Scheme("plain", 5672), "amqps": Scheme("tls", 5671)})
    modes = MappingProxyType(
        {
            mode.name: mode
            for mode in (
                _mode(ack, confirms, persistent)
                for ack, confirms, persistent in product(("auto", "manual"), (False, True), (False, True))
            )
        }
    )

    def vehicle_client(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> VehicleClient:
        from gateways.protocols.amqp.vehicle import AmqpVehicle

        return AmqpVehicle(endpoint, vehicle, mode, events, settings)

    def intake(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> Intake:
        from gateways.protocols.amqp.intake import AmqpIntake

        return AmqpIntake(endpoint, mode, sink, settings)

    def subscriber(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> Subscriber:
        from gateways.protocols.amqp.subscriber import AmqpSubscriber

        return AmqpSubscriber(endpoint, vehicle, mode, events, settings)

    def forget(self, endpoint: Endpoint, client_name: str) -> None:
        from gateways.protocols.amqp.forget import delete_queue

        delete_queue(endpoint, client_name)
