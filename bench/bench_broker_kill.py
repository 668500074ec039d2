"""What mosquitto loses when it is killed with the gateway away, by its settings for saving, and what saving costs."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord

PAYLOAD = bytes(1_157)
RATE_HZ = 100
KILLS = 4
WAIT_S = 10.0
QUIET_S = 2.0
FULL_SPEED = 1_000
SHIPPED = "autosave_interval 10\nautosave_on_changes false"


class Saving(NamedTuple):
    """One choice of mosquitto.conf; with `on_changes` the interval counts changes, not seconds."""

    interval: int
    on_changes: bool

    def lines(self) -> str:
        return f"autosave_interval {self.interval}\nautosave_on_changes {str(self.on_changes).lower()}"

    def seconds(self, rng: random.Random) -> float:
        """Return when to kill: any moment between the first save and the second."""
        return 4.0 if self.on_changes else self.interval * (1 + rng.random())

    def text(self) -> str:
        unit = "change" if self.on_changes else "s"
        return f"every {self.interval} {unit}{'s' if self.on_changes and self.interval > 1 else ''}"


SAVINGS = (Saving(10, False), Saving(1, False), Saving(100, True), Saving(1, True))


class Broker(MosquittoServer):
    """A mosquitto that saves as told."""

    saving = SAVINGS[0]

    def _configure(self) -> None:
        super()._configure()
        path = self._dir / "mosquitto.conf"
        text = path.read_text()
        assert SHIPPED in text
        path.write_text(text.replace(SHIPPED, self.saving.lines()))


def client(broker: Broker, name: str, on_message: Any = None) -> mqtt.Client:
    made = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        name,
        protocol=mqtt.MQTTProtocolVersion.MQTTv5,
        reconnect_on_failure=False,
    )
    made.max_inflight_messages_set(0)
    made.max_queued_messages_set(0)
    connected = threading.Event()
    made.on_connect = lambda *_: connected.set()
    made.on_message = on_message
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3600
    made.connect(broker.host, broker.port, clean_start=False, properties=properties)
    made.loop_start()
    assert connected.wait(WAIT_S)
    return made


def leave(one: mqtt.Client) -> None:
    one.disconnect()
    one.loop_stop()


def subscribe_and_leave(broker: Broker) -> None:
    """Make the gateway's session, and have the gateway go."""
    gateway = client(broker, "gateway")
    granted = threading.Event()
    gateway.on_subscribe = lambda *_: granted.set()
    gateway.subscribe("vehicles/#", 1)
    assert granted.wait(WAIT_S)
    leave(gateway)


def publish(broker: Broker, count: int, pause_s: float) -> tuple[mqtt.Client, float]:
    """Publish that many at QoS 1 and wait for all PUBACKs; return the publisher and the seconds it took."""
    vehicle = client(broker, "vehicle")
    left = [count]
    all_in = threading.Event()

    def on_publish(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            all_in.set()

    vehicle.on_publish = on_publish
    began = time.monotonic()
    for index in range(count):
        vehicle.publish("vehicles/V/status", index.to_bytes(4, "big") + PAYLOAD[4:], 1)
        time.sleep(max(0.0, began + (index + 1) * pause_s - time.monotonic()))
    assert all_in.wait(60)
    return vehicle, time.monotonic() - began


def received_after(broker: Broker) -> int:
    """Return how many different messages the gateway's session still holds."""
    received: set[bytes] = set()
    arrived = threading.Event()

    def on_message(_client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        received.add(message.payload[:4])
        arrived.set()

    gateway = client(broker, "gateway", on_message)
    while arrived.wait(QUIET_S):
        arrived.clear()
    leave(gateway)
    return len(received)


def measure(saving: Saving, seconds: float) -> tuple[int, int, float]:
    """Return messages acknowledged, those lost at one kill -9, and messages per second at full speed."""
    with tempfile.TemporaryDirectory() as base, RunRecord(f"k{uuid.uuid4().hex[:8]}", Path(base)) as record:
        broker = Broker(record)
        broker.saving = saving
        with broker:
            subscribe_and_leave(broker)
            count = round(RATE_HZ * seconds)
            vehicle, _ = publish(broker, count, 1 / RATE_HZ)
            broker.process.kill()
            vehicle.loop_stop()
            broker.restart()
            lost = count - received_after(broker)
            vehicle, took_s = publish(broker, FULL_SPEED, 0.0)
            leave(vehicle)
    return count, lost, FULL_SPEED / took_s


def main() -> None:
    """Print one line per setting."""
    print(f"{KILLS} kills each, {RATE_HZ} QoS 1 messages/s of {len(PAYLOAD)} B while the gateway is away")
    print(f"{'saves':<20}{'acknowledged':>14}{'lost a kill':>13}{'worst':>7}{'full speed, 1/s':>18}")
    rng = random.Random(1)
    for saving in SAVINGS:
        moments = [saving.seconds(rng) for _ in range(KILLS)]
        # Side by side: they mostly wait.
        with ThreadPoolExecutor(KILLS) as pool:
            found = list(pool.map(measure, [saving] * KILLS, moments))
        counts, lost, speeds = zip(*found, strict=True)
        mean = sum(lost) / KILLS
        speed = sorted(speeds)[KILLS // 2]
        print(f"{saving.text():<20}{sum(counts):>14}{mean:>13.0f}{max(lost):>7}{speed:>18,.0f}", flush=True)


if __name__ == "__main__":
    main()
