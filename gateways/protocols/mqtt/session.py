"""The gateway's MQTT session without any I/O: bytes of the broker in, messages and acknowledgements out.

A general client keeps its promises for one message at a time. A gateway holds a thousand, acknowledges each when Kafka
has it, and must do three things that paho-mqtt's public interface does not offer: acknowledge at QoS 2 only then (PUBREC
moves the ownership, 4.3.3), acknowledge in the order of receipt whatever Kafka's order (4.6), and know to which
connection an acknowledgement belongs. Hence this session of its own; why it is not a patched paho stands in
docs/decisions/mqtt-gateway-session.md. Clauses are those of MQTT 5.0; what 3.1.1 does otherwise is said beside it.

**When is a PUBLISH one that we have already?** A packet identifier alone does not tell. A broker that was killed comes
back with an older session and gives identifiers that we still hold to new messages; to acknowledge those as redelivered
is to lose them. A PUBLISH is a redelivery only when DUP is set (MQTT-3.3.1-1), its identifier is held, and it has the
same topic and payload as the message held under it. Then the first copy answers for it: its `MqttReceipt` moves to the
connection that there is now, and the acknowledgement goes out there in its turn, at once if Kafka has it already. In every
other case it is a new message. A new copy of an old message is a duplicate, which the twin counts; the reverse is a loss.
"""

from __future__ import annotations

import typing
from typing import Final

from gateways.protocols.acknowledgements import AcknowledgementQueue, ConnectionReceipt
from gateways.protocols.mqtt import packets
from gateways.protocols.mqtt.packets import Credentials, MalformedPacketError

# Below what Kafka takes (compose/kafka), above any payload of a vehicle.
MAXIMUM_PACKET_BYTES: Final = 12_582_912
# Of a longer one so much is kept, for the dead letters.
_BEGINNING_BYTES: Final = 1_048_576
# Topics whose retained publish is remembered.
RETAINED_MAX: Final = 100_000
_SUBSCRIBE_ID, _UNSUBSCRIBE_ID, _WATCH_ID = 1, 2, 3
TICKS_PER_KEEPALIVE: Final = 4
_SILENT_TICKS = 6  # 1.5 times the keep-alive, as a broker waits for its clients (MQTT-3.1.2-22)
_TAKEN_OVER = 0x8E

_PUBACK, _PUBREC, _PUBCOMP = b"\x40\x02", b"\x50\x02", b"\x70\x02"
_PUBCOMP_UNKNOWN, _UNKNOWN = b"\x70\x03", b"\x92"


class MqttReceipt(ConnectionReceipt):
    """A message above QoS 0, from PUBLISH to PUBACK, or to PUBREL at QoS 2.

    Attributes:
        topic, payload: to tell a redelivery by; given up for `digest` once Kafka has the message.
        digest: of topic and payload; None while these are there.
        retained: digests of topic and payload of a retained publish; None of any other.
    """

    __slots__ = ("digest", "payload", "qos", "retained", "topic")

    def __init__(self, generation: int, number: int, qos: int, topic: bytes, payload: bytes) -> None:
        self.generation = generation
        self.number = number
        self.settled = False
        self.qos = qos
        self.topic = topic
        self.payload = payload
        self.digest: int | None = None
        self.retained: tuple[int, int] | None = None

    def shorten(self) -> None:
        """Keep the digest alone."""
        if self.digest is None:
            self.digest = hash((self.topic, self.payload))
            self.topic = self.payload = b""

    def same(self, qos: int, topic: bytes, payload: bytes) -> bool:
        """Say whether a PUBLISH under this packet identifier carries this message."""
        if self.digest is not None:
            return qos == self.qos and self.digest == hash((topic, payload))
        return qos == self.qos and payload == self.payload and topic == self.topic


class SessionEvents(typing.Protocol):
    """Whoever drives the session; called from within `receive`."""

    def accepted(self, session_present: bool) -> None:
        """CONNACK: the broker has accepted, and may still have the session."""

    def refused(self, reason: str) -> None:
        """CONNACK or SUBACK with a reason; the connection is to be closed."""

    def subscribed(self) -> None:
        """SUBACK: the subscription is granted as it was asked for."""

    def unsubscribed(self) -> None:
        """UNSUBACK."""

    def ended(self, reason: str, *, taken_over: bool) -> None:
        """DISCONNECT: the broker ends the connection; `taken_over` by another client of the same name."""

    def publish_arrived(
        self,
        topic: bytes,
        payload: bytes,
        duplicate: bool,
        receipt: MqttReceipt | None,
        content_type: bytes,
    ) -> None:
        """A message to take; `receipt` is None at QoS 0, `content_type` empty where it says none."""

    def oversized_arrived(
        self, topic: bytes, beginning: bytes, size_bytes: int, receipt: MqttReceipt | None
    ) -> None:
        """A payload over the limit: its beginning alone."""


class GatewaySession:
    """One client identifier's session, over any number of connections; it only receives.

    Attributes:
        generation: the connection that there is now.
        redelivered, reused_identifiers, stale_receipts, over_receive_max, retained_again: counts of what is told apart
            below.
        keepalive_s, expiry_s: what was asked for, or what the broker wants instead (3.2.2.3.14, 3.2.2.3.2).
    """

    def __init__(
        self,
        who: Credentials,
        events: SessionEvents,
        *,
        five: bool,
        keepalive_s: int,
        session_expiry_s: int,
        receive_max: int,
        maximum_packet_bytes: int = MAXIMUM_PACKET_BYTES,
    ) -> None:
        self._who = who
        self._events = events
        self._five = five
        self._asked_keepalive_s = self.keepalive_s = keepalive_s
        self._asked_expiry_s = self.expiry_s = session_expiry_s
        self._receive_max = receive_max
        self._maximum_packet_bytes = maximum_packet_bytes
        # Packet identifiers taken and not free again, of this connection and of earlier ones of the session (4.1).
        self._held: dict[int, MqttReceipt] = {}
        # Of each topic the retained publish that Kafka has (at QoS 0: that was taken), as digests.
        self._retained: dict[int, int] = {}
        self._waiting: AcknowledgementQueue[MqttReceipt] = AcknowledgementQueue()
        self._out = bytearray()
        self._qos = 0
        # Of a packet that is not all there: its pieces, how many bytes they are, and how many are needed.
        self._pieces: list[bytes] = []
        self._have = self._needed = 0
        # Bytes still to come of a payload that is too long.
        self._skip = 0
        self._in_flight = 0
        self._accepted = self._resumed = self._heard = self._sent = False
        self._ticks = self._quiet_ticks = 0
        self.generation = 0
        self.redelivered = self.reused_identifiers = self.stale_receipts = self.over_receive_max = 0
        self.retained_again = 0

    @property
    def held(self) -> int:
        """How many packet identifiers are not free again."""
        return len(self._held)

    @property
    def settled(self) -> bool:
        """Whether Kafka has all that was taken."""
        return all(receipt.settled for receipt in self._held.values())

    def connect(self, generation: int) -> bytes:
        """Begin a connection and return CONNECT; what belongs to an earlier one is void."""
        self._begin(generation)
        return packets.connect(
            self._who,
            five=self._five,
            keepalive_s=self._asked_keepalive_s,
            session_expiry_s=self._asked_expiry_s,
            receive_max=self._receive_max,
            maximum_packet_bytes=self._maximum_packet_bytes,
        )

    def subscribe(self, topic_filter: str, qos: int) -> bytes:
        """Return SUBSCRIBE. It goes out on every connection: an older session may have lost the subscription."""
        self._qos = qos
        return packets.subscribe(_SUBSCRIBE_ID, topic_filter, qos, five=self._five)

    def watch(self, topic: str) -> bytes:
        """Return SUBSCRIBE to one more topic, at QoS 0; nobody waits for the answer, and a refusal changes nothing."""
        return packets.subscribe(_WATCH_ID, topic, 0, five=self._five)

    def publish(self, topic: str, payload: bytes) -> bytes:
        """Return PUBLISH at QoS 0."""
        return packets.publish(topic, payload, five=self._five)

    def unsubscribe(self, topic_filter: str) -> bytes:
        """Return UNSUBSCRIBE; what the broker has begun to send still comes (MQTT-3.10.4-3)."""
        return packets.unsubscribe(_UNSUBSCRIBE_ID, topic_filter, five=self._five)

    def disconnect(self, *, code: int = 0, end_session: bool = False) -> bytes:
        """Return DISCONNECT; with `end_session` the broker forgets the session at once (3.14.2.2.2)."""
        return packets.disconnect(five=self._five, code=code, session_expiry_s=0 if end_session else None)

    def acknowledge(self, receipt: MqttReceipt) -> None:
        """Kafka has it. Over an earlier connection nothing is said; a redelivery of the same message is answered."""
        receipt.settled = True
        if receipt.retained is not None:
            self._remember(*receipt.retained)
        if receipt.generation != self.generation:
            self.stale_receipts += 1
            receipt.shorten()

    def acknowledgements(self) -> bytes:
        """Return and forget what is to be written now: PUBACK, PUBREC (in order of receipt, 4.6) and PUBCOMP."""
        out = self._out
        for receipt in self._waiting.settled():
            number = receipt.number
            if receipt.qos == 1:
                # PUBACK ends the exchange: from now on the identifier means a new message (MQTT-4.3.2-5).
                if self._held.get(number) is receipt:
                    del self._held[number]
                self._in_flight -= 1
                out += _PUBACK
            else:
                # PUBREC: ours now; the identifier stays taken until PUBREL (MQTT-4.3.3-10).
                receipt.shorten()
                out += _PUBREC
            out += number.to_bytes(2, "big")
        if not out:
            return b""
        self._sent = True
        data = bytes(out)
        out.clear()
        return data

    def due(self) -> bool:
        """Say whether `acknowledgements` would return anything."""
        return bool(self._out) or self._waiting.due()

    def tick(self, *, deaf: bool) -> bytes | None:
        """Look at the keep-alive, four times per interval; return PINGREQ or nothing to send, None for a dead broker.

        Args:
            deaf: nothing is read at present, so the broker's silence says nothing.
        """
        self._quiet_ticks = 0 if self._heard or deaf else self._quiet_ticks + 1
        self._heard = False
        if self._quiet_ticks >= _SILENT_TICKS:
            return None
        self._ticks += 1
        if self._ticks % 2 or (self._sent and not self._quiet_ticks):
            if self._ticks % 2 == 0:
                self._sent = False
            return b""
        return packets.PING  # MQTT-3.1.2-20

    def receive(self, data: bytes) -> None:
        """Take bytes as they come, cut anywhere. Raises MalformedPacketError: the connection must be closed (4.13)."""
        self._heard = True
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._pieces:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._needed:
                return
            data = b"".join(self._pieces)
            self._pieces = []
        try:
            start = self._parse(data)
        except IndexError:
            raise MalformedPacketError("a packet that ends before its fields") from None
        if start < len(data):
            self._pieces = [data[start:]]
            self._have = len(data) - start

    def _begin(self, generation: int) -> None:
        self.generation = generation
        self.keepalive_s, self.expiry_s = self._asked_keepalive_s, self._asked_expiry_s
        self._waiting.clear()
        self._out.clear()
        self._in_flight = 0
        self._pieces = []
        self._have = self._needed = self._skip = 0
        self._accepted = self._heard = self._sent = False
        self._ticks = self._quiet_ticks = 0

    def _parse(self, data: bytes) -> int:
        """Cut `data` into packets (2.1) and return where the first unfinished one starts."""
        start, end = 0, len(data)
        while end - start >= 2:
            head = data[start]
            length = data[start + 1]
            body = start + 2
            if length & 128:
                decoded = packets.variable_integer(data, start + 1)
                if decoded is None:
                    break
                length, body = decoded
            after = body + length
            if length > self._maximum_packet_bytes:
                start = self._too_long(data, start, body, after)
                if start < 0:
                    return -start - 1
                continue
            if after > end:
                self._needed = after - start
                return start
            if head & 0xF0 == 0x30:
                self._publish(data, head, body, after)
            elif head == 0x62:
                self._release(data[body : body + 2])
            else:
                self._control(head, data[body:after])
            start = after
        self._needed = 0
        return start

    def _publish(  # noqa: C901, PLR0912 - one straight pass per message
        self, data: bytes, head: int, body: int, after: int, size_bytes: int = 0
    ) -> None:
        """One PUBLISH (3.3): topic, packet identifier above QoS 0, properties, payload."""
        if not self._accepted:
            raise MalformedPacketError("PUBLISH before CONNACK", 0x82)  # MQTT-3.2.0-1
        rest = topic_end = body + 2 + (data[body] << 8 | data[body + 1])
        number = 0
        qos = head >> 1 & 3
        if qos:
            number = data[rest] << 8 | data[rest + 1]
            rest += 2
            if qos == 3:
                raise MalformedPacketError("QoS 3")  # MQTT-3.3.1-4
        content_type = b""
        if self._five:
            # No properties: one zero. mosquitto passes on what a publisher adds.
            if data[rest] == 0:
                rest += 1
            else:
                content_type = packets.content_type(data, rest)
                rest = packets.skip_properties(data, rest)
        # Of a long packet the properties alone may fill what is kept: its payload is then somewhere behind.
        if rest > (body + size_bytes if size_bytes else after):
            raise MalformedPacketError("PUBLISH that ends before its fields")
        topic, payload = data[body + 2 : topic_end], data[rest:after]
        receipt = None
        if qos:
            receipt = self._take(qos, number, head & 8 != 0, topic, payload)
            if receipt is None:
                return
        if head & 1 and self._had(topic, payload, size_bytes, receipt):
            self.retained_again += 1
            if receipt is not None:
                self.acknowledge(receipt)
        elif size_bytes:
            self._events.oversized_arrived(topic, payload, size_bytes - (rest - body), receipt)
        else:
            self._events.publish_arrived(topic, payload, head & 8 != 0, receipt, content_type)

    def _had(self, topic: bytes, payload: bytes, size_bytes: int, receipt: MqttReceipt | None) -> bool:
        """Say whether a retained publish (3.3.1.3) has been taken already; what is new is remembered once Kafka has it.

        A broker sends what it keeps for each new subscription: again where it has lost the session. 3.1.1 has no Retain
        Handling, and there every SUBSCRIBE of a session that is still there brings it again, too.
        """
        which = hash(topic), hash((payload, size_bytes))
        if (self._resumed and not self._five) or self._retained.get(which[0]) == which[1]:
            return True
        if receipt is None:
            self._remember(*which)
        else:
            receipt.retained = which
        return False

    def _remember(self, topic: int, payload: int) -> None:
        if len(self._retained) < RETAINED_MAX or topic in self._retained:
            self._retained[topic] = payload

    def _take(
        self, qos: int, number: int, duplicate: bool, topic: bytes, payload: bytes
    ) -> MqttReceipt | None:
        """Return what answers for a new message, or None for one that we have already."""
        held = self._held.get(number)
        if held is not None:
            if duplicate and held.same(qos, topic, payload):
                self._again(held)
                return None
            if held.generation == self.generation:
                # Against MQTT-2.2.1-4, and no reason to lose a message: both are answered in their turn.
                self.reused_identifiers += 1
                self._in_flight -= qos == 2
        elif not number:
            raise MalformedPacketError("packet identifier 0", 0x82)  # MQTT-2.2.1-3
        self._in_flight += 1
        if self._in_flight > self._receive_max:
            # 3.1.2.11.3 calls for DISCONNECT 0x93. mosquitto 2.0.11 sends too many when it has a queue, and does so again
            # over the next connection: the gateway would take nothing more. So it is counted.
            self.over_receive_max += 1
        receipt = MqttReceipt(self.generation, number, qos, topic, payload)
        self._held[number] = receipt
        self._waiting.received(receipt)
        return receipt

    def _again(self, held: MqttReceipt) -> None:
        """A redelivery (MQTT-4.4.0-1): the copy that we hold answers for it, here."""
        self.redelivered += 1
        if held.generation != self.generation:
            held.generation = self.generation
            self._in_flight += 1
            self._waiting.received(held)
        elif held.digest is not None and held.qos == 2:
            # 3.1.1 lets a broker repeat itself within a connection: PUBREC again (MQTT-4.3.3-10).
            self._out += _PUBREC + held.number.to_bytes(2, "big")

    def _release(self, number: bytes) -> None:
        """PUBREL: the identifier is free again, known or not (MQTT-4.3.3-11)."""
        held = self._held.pop(int.from_bytes(number, "big"), None)
        if held is None and self._five:
            self._out += _PUBCOMP_UNKNOWN + number + _UNKNOWN  # 3.7.2.1
            return
        if held is not None and held.generation == self.generation:
            self._in_flight -= 1
        self._out += _PUBCOMP + number

    def _too_long(self, data: bytes, start: int, body: int, after: int) -> int:
        """Pass on the beginning of a payload over the limit; return where to go on, or -1 - start for want of bytes."""
        head, keep = data[start], body + _BEGINNING_BYTES
        if head & 0xF0 != packets.PUBLISH:
            raise MalformedPacketError(f"a packet of {after - start} bytes", 0x95)
        if len(data) < keep:
            self._needed = keep - start
            return -1 - start
        self._publish(data, head, body, keep, after - body)
        self._skip = max(0, after - len(data))
        return min(after, len(data))

    def _control(self, head: int, body: bytes) -> None:
        """Every other packet that a broker may send."""
        if head == packets.CONNACK and not self._accepted:
            self._connack(body)
        elif not self._accepted:
            raise MalformedPacketError(f"packet 0x{head:02x} before CONNACK", 0x82)  # MQTT-3.2.0-1
        elif head == packets.SUBACK:
            self._suback(body)
        elif head == packets.UNSUBACK:
            if packets.unsuback(body) == _UNSUBSCRIBE_ID:
                self._events.unsubscribed()
        elif head == packets.DISCONNECT and self._five:
            code, reason = packets.disconnected(body)
            self._events.ended(reason, taken_over=code == _TAKEN_OVER)
        elif head != packets.PINGRESP:
            raise MalformedPacketError(f"packet 0x{head:02x} from a broker", 0x82)

    def _suback(self, body: bytes) -> None:
        number, granted, refusal = packets.suback(body, five=self._five)
        if number != _SUBSCRIBE_ID:
            return
        if refusal is None and granted < self._qos:
            # The broker would forget what it sends, and its acknowledgement to a vehicle would mean nothing.
            refusal = f"QoS {granted} granted where {self._qos} was asked for"
        if refusal is not None:
            self._events.refused(f"refuses to subscribe: {refusal}")
        else:
            self._events.subscribed()

    def _connack(self, body: bytes) -> None:
        connack = packets.connack(body, five=self._five)
        if connack.refusal is not None:
            self._events.refused(f"refuses: {connack.refusal}")
            return
        self._accepted, self._resumed = True, connack.session_present
        if connack.keepalive_s is not None:
            self.keepalive_s = connack.keepalive_s
        if connack.session_expiry_s is not None:
            self.expiry_s = connack.session_expiry_s
        if not connack.session_present:
            # The broker knows nothing of it any more (4.1): what it sends is new, whatever its identifier.
            self._held.clear()
        self._events.accepted(connack.session_present)
