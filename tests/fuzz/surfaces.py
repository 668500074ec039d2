"""The table of surfaces: name -> its class."""

from __future__ import annotations

from tests.fuzz.amqp import Amqp
from tests.fuzz.coap import Coap
from tests.fuzz.http import Http
from tests.fuzz.mqtt import Mqtt
from tests.fuzz.state import State
from tests.fuzz.surface import Surface
from tests.fuzz.twin import Twin

SURFACES: dict[str, type[Surface]] = {
    "http": Http, "state": State, "mqtt": Mqtt, "amqp": Amqp, "coap": Coap, "twin": Twin,
}  # fmt: skip
