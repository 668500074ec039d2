"""The gateway's end of MQTT: what it takes, what it holds, what it acknowledges; Kafka is the bridge's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateways.protocols.backoff import Backoff, keep_trying
from gateways.protocols.base import Endpoint, IntakeSettings, Mode, Receipt, Sink
from gateways.protocols.mqtt_wire import WireClient
from schemas.topics import vehicle_of_mqtt_topic

_MAXIMUM_PACKET_BYTES = 12_582_912  # below what Kafka takes (compose/kafka), above any payload
_CONNECT_TIMEOUT_S = 10.0
_TOPIC_FILTER = "vehicles/#"
_CACHE_TOPICS = 100_000

_PUBACK, _PUBREC, _PUBCOMP = b"\x40\x02", b"\x50\x02", b"\x70\x02"


class MqttIntake:
    """Takes what vehicles publish; acknowledges when told, many in one write.

    At QoS 2 the message is taken at PUBLISH and PUBREC waits for the bridge: PUBREC moves the ownership
    (MQTT-4.3.3), so a gateway killed between PUBREC and PUBREL has lost nothing.
    """

    def __init__(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> None:
        self.now_ns = 0
        self._endpoint = endpoint
        self._sink = sink
        self._qos: int = mode.options["qos"]
        prefix = f"$share/{settings.group}/" if settings.shared else ""
        self._filter = prefix + _TOPIC_FILTER
        self._client = WireClient(
            self,
            endpoint,
            settings.name,
            mode.options["mqtt_version"],
            keepalive_s=settings.keepalive_s,
            session_expiry_s=settings.session_expiry_s,
            receive_max=settings.receive_max,
            maximum_packet_bytes=_MAXIMUM_PACKET_BYTES,
        )
        self._session = 0
        self._session_present = False
        # Packet identifiers taken and not yet free again; True once PUBREC is due or sent (QoS 2).
        self._held: dict[int, bool] = {}
        self._vehicles: dict[bytes, str] = {}
        self._packets = bytearray()
        self._reopen: asyncio.Task[None] | None = None
        self._paused = False
        self._closed = False
        self._redelivered = 0
        self._reconnects = 0

    async def open(self) -> None:
        await self._client.dial(_CONNECT_TIMEOUT_S)
        await self._client.subscribe_to(self._filter, self._qos, _CONNECT_TIMEOUT_S)
        self._sink.link(up=True, reason="subscribed")

    async def close(self) -> None:
        self._closed = True
        if self._reopen is not None:
            self._reopen.cancel()
            await asyncio.gather(self._reopen, return_exceptions=True)
        self.flush()
        await self._client.leave(end_session=False)

    def acknowledge(self, receipt: Receipt) -> None:
        if receipt is None or receipt >> 18 != self._session:
            return
        mid = receipt & 0xFFFF
        if receipt & 0x20000:
            self._held[mid] = True
            self._packets += _PUBREC + mid.to_bytes(2, "big")
        else:
            self._held.pop(mid, None)
            self._packets += _PUBACK + mid.to_bytes(2, "big")

    def refuse(self, receipt: Receipt, reason: str) -> None:  # noqa: ARG002
        """Let go without acknowledging: MQTT sends again after the next connection, and at no other time."""
        if receipt is not None and receipt >> 18 == self._session:
            self._held.pop(receipt & 0xFFFF, None)

    def pause(self) -> None:
        self._paused = True
        self._client.set_paused(True)

    def resume(self) -> None:
        self._paused = False
        self._client.set_paused(False)

    def flush(self) -> None:
        if self._packets:
            packets, self._packets = bytes(self._packets), bytearray()
            self._client.send_acknowledgements(packets)

    def endpoint(self) -> tuple[str, int]:
        return self._endpoint.host, self._endpoint.port

    def counters(self) -> Mapping[str, int]:
        return {
            "mqtt_redelivered_while_held": self._redelivered,
            "mqtt_reconnects": self._reconnects,
            "mqtt_held": len(self._held),
        }

    def opened(self, session_present: bool) -> None:
        self._session_present = session_present
        if not session_present:
            self._session += 1
            self._held.clear()

    def lost(self, reason: str) -> None:
        # Acknowledgements not yet written are void at QoS 1: the broker sends those messages again.
        self._packets.clear()
        self._sink.link(up=False, reason=reason)
        if not self._closed and (self._reopen is None or self._reopen.done()):
            self._reopen = asyncio.ensure_future(
                keep_trying(self._open_again, Backoff(first_s=0.2, most_s=5.0))
            )

    def drained(self) -> None:
        """Nothing waits for the socket here."""

    def publish_arrived(self, head: int, topic: bytes, mid: int, payload: bytes) -> None:
        """Hand one PUBLISH to the bridge, unless it is one that the bridge still has."""
        qos = head >> 1 & 3
        receipt = None
        if qos:
            if mid in self._held:
                self._again(mid)
                return
            self._held[mid] = False
            receipt = self._session << 18 | qos << 16 | mid
        vehicle = self._vehicles.get(topic)
        if vehicle is None:
            vehicle = self._address(topic, payload, receipt)
            if vehicle is None:
                return
        self._sink.take(vehicle, payload, self.now_ns, head & 8 != 0, receipt)

    def release_arrived(self, mid: bytes) -> None:
        """PUBREL: the identifier is free again, known or not (MQTT-4.3.3-11)."""
        self._held.pop(int.from_bytes(mid, "big"), None)
        self._packets += _PUBCOMP + mid
        asyncio.get_running_loop().call_soon(self.flush)

    async def _open_again(self) -> None:
        """Connect; the subscription is part of a session that the broker still has (MQTT 5, 4.1)."""
        await self._client.dial(_CONNECT_TIMEOUT_S)
        if not self._session_present:
            await self._client.subscribe_to(self._filter, self._qos, _CONNECT_TIMEOUT_S)
        self._reconnects += 1
        self._sink.link(up=True, reason="resumed" if self._session_present else "subscribed")
        if self._paused:
            self._client.set_paused(True)

    def _again(self, mid: int) -> None:
        """A redelivery of what is still held (MQTT-4.4.0-1): the first copy answers for it."""
        self._redelivered += 1
        if self._held[mid]:
            self._packets += _PUBREC + mid.to_bytes(2, "big")
            asyncio.get_running_loop().call_soon(self.flush)

    def _address(self, topic: bytes, payload: bytes, receipt: Receipt) -> str | None:
        """Return the vehicle a topic names, seen for the first time, or None after passing it on as bad."""
        text = topic.decode("utf-8", "replace")
        try:
            vehicle = vehicle_of_mqtt_topic(text)
        except ValueError as error:
            self._sink.misaddressed(text, payload, self.now_ns, receipt, str(error))
            return None
        if len(self._vehicles) < _CACHE_TOPICS:
            self._vehicles[topic] = vehicle
        return vehicle
