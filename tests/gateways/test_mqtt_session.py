"""The gateway's session on paper: cut anywhere, filled with anything, and every rule of acknowledgement."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fake_mqtt_broker import CONNACK, DISCONNECT, SUBACK, packet, publish
from hypothesis import given
from hypothesis import strategies as st

from gateways.protocols.mqtt import packets
from gateways.protocols.mqtt.packets import (
    UNREADABLE,
    Credentials,
    MalformedPacketError,
    encode_variable_integer,
    skip_properties,
    variable_integer,
)
from gateways.protocols.mqtt.session import MAXIMUM_PACKET_BYTES, GatewaySession, MqttReceipt

ACCEPTED = {True: packet(CONNACK << 4, b"\x00\x00\x00"), False: packet(CONNACK << 4, b"\x00\x00")}
RESUMED = {True: packet(CONNACK << 4, b"\x01\x00\x00"), False: packet(CONNACK << 4, b"\x01\x00")}
BOTH = pytest.mark.parametrize("five", [True, False])


class Driver:
    """Notes what the session tells."""

    def __init__(self, five: bool = True, **options: Any) -> None:
        self.five = five
        self.taken: list[tuple[bytes, bytes, bool, MqttReceipt | None]] = []
        self.content_types: list[bytes] = []
        self.told: list[Any] = []
        settings = {"keepalive_s": 60, "session_expiry_s": 3600, "receive_max": 20, **options}
        self.session = GatewaySession(Credentials("g"), self, five=five, **settings)

    def connect(self, *, resumed: bool = False) -> None:
        self.session.connect(self.session.generation + 1)
        self.session.receive((RESUMED if resumed else ACCEPTED)[self.five])

    def feed(self, topic: str, payload: bytes, mid: int, *, qos: int = 1, dup: bool = False) -> Any:
        """Give one PUBLISH; return its receipt, or None for one that was not taken."""
        before = len(self.taken)
        self.session.receive(publish(topic, payload, qos=qos, mid=mid, dup=dup, five=self.five))
        return self.taken[-1][3] if len(self.taken) > before else None

    def acknowledge(self, *receipts: Any) -> bytes:
        for receipt in receipts:
            self.session.acknowledge(receipt)
        return self.session.acknowledgements()

    def accepted(self, session_present: bool) -> None:
        self.told.append(("accepted", session_present))

    def refused(self, reason: str) -> None:
        self.told.append(("refused", reason))

    def subscribed(self) -> None:
        self.told.append("subscribed")

    def unsubscribed(self) -> None:
        self.told.append("unsubscribed")

    def ended(self, reason: str, *, taken_over: bool) -> None:
        self.told.append(("ended", reason, taken_over))

    def publish_arrived(
        self, topic: bytes, payload: bytes, duplicate: bool, receipt: Any, content_type: bytes = b""
    ) -> None:
        self.taken.append((topic, payload, duplicate, receipt))
        self.content_types.append(content_type)

    def oversized_arrived(self, topic: bytes, beginning: bytes, size_bytes: int, receipt: Any) -> None:
        self.told.append(("oversized", topic, beginning, size_bytes))
        self.taken.append((topic, beginning, False, receipt))


def puback(*mids: int) -> bytes:
    return b"".join(b"\x40\x02" + mid.to_bytes(2, "big") for mid in mids)


def pubrec(*mids: int) -> bytes:
    return b"".join(b"\x50\x02" + mid.to_bytes(2, "big") for mid in mids)


def pubrel(mid: int) -> bytes:
    return b"\x62\x02" + mid.to_bytes(2, "big")


MESSAGES = st.lists(
    st.tuples(st.text("abc/", min_size=1, max_size=20), st.binary(max_size=400), st.integers(0, 2)),
    max_size=8,
)


@BOTH
@given(MESSAGES, st.lists(st.integers(1, 300), min_size=1, max_size=20))
def test_packets_survive_any_cutting(five: bool, messages: list[Any], cuts: list[int]) -> None:
    driver = Driver(five)
    frames = b"".join(
        publish(topic, payload, qos=qos, mid=mid, five=five) + pubrel(1000 + mid)
        for mid, (topic, payload, qos) in enumerate(messages, 1)
    )
    driver.connect()
    at = turn = 0
    while at < len(frames):
        size = cuts[turn % len(cuts)]
        driver.session.receive(frames[at : at + size])
        at, turn = at + size, turn + 1
    assert [(t, p, 0 if d is None else d.qos) for t, p, _, d in driver.taken] == [
        (topic.encode(), payload, qos) for topic, payload, qos in messages
    ]
    assert [d.number for _, _, _, d in driver.taken if d] == [
        mid for mid, (_, _, qos) in enumerate(messages, 1) if qos
    ]
    assert driver.session.acknowledgements().count(b"\x70") == len(messages)


@given(st.integers(1, 70_000), st.integers(0, 3_000))
def test_a_payload_over_the_limit_is_cut_and_what_follows_is_whole(piece: int, over: int) -> None:
    driver = Driver(maximum_packet_bytes=1_500_000)
    driver.connect()
    payload = bytes(range(256)) * 5_860
    payload = payload[: 1_500_000 + over]
    data = publish("a", payload, qos=1, mid=1) + publish("b", b"next", qos=1, mid=2)
    for at in range(0, len(data), piece * 25):
        driver.session.receive(data[at : at + piece * 25])
    (told,) = driver.told[1:]
    assert (told[0], told[1], told[3]) == ("oversized", b"a", len(payload))
    assert payload.startswith(told[2])
    assert 1_000_000 < len(told[2]) <= 1_048_576
    assert driver.taken[1][:2] == (b"b", b"next")
    first, second = (taken[3] for taken in driver.taken)
    assert driver.acknowledge(second, first) == puback(1, 2)


@pytest.mark.parametrize("count", [8, 9, 90])
def test_properties_that_fill_a_packet_over_the_limit_leave_its_payload_out(count: int) -> None:
    """Nine user properties of 130 kB are more than what is kept of such a packet."""
    driver = Driver()
    driver.connect()
    properties = (b"\x26" + (b"\xff\xff" + bytes(65_535)) * 2) * count
    payload = b"p" * (MAXIMUM_PACKET_BYTES - len(properties))
    body = b"\x00\x01a\x00\x01" + encode_variable_integer(len(properties)) + properties + payload
    data = packet(0x32, body) + publish("b", b"next", qos=1, mid=2)
    for at in range(0, len(data), 262_144):
        driver.session.receive(data[at : at + 262_144])
    (found,) = driver.told[1:]
    assert found[:2] == ("oversized", b"a")
    assert found[3] == len(payload)
    assert payload.startswith(found[2])
    assert driver.taken[1][:2] == (b"b", b"next")
    first, second = (taken[3] for taken in driver.taken)
    assert driver.acknowledge(first, second) == puback(1, 2)


def test_properties_that_run_over_the_end_of_a_packet_over_the_limit_are_malformed() -> None:
    driver = Driver()
    driver.connect()
    body = b"\x00\x01a\x00\x01" + encode_variable_integer(MAXIMUM_PACKET_BYTES + 1)
    data = packet(0x32, body + bytes(MAXIMUM_PACKET_BYTES))
    with pytest.raises(MalformedPacketError):
        driver.session.receive(data)


def test_mqtt_5_announces_what_the_broker_need_not_send() -> None:
    """3.1.2.11.4."""
    announced = b"\x27" + MAXIMUM_PACKET_BYTES.to_bytes(4, "big")
    assert announced in Driver().session.connect(1)
    assert announced not in Driver(False).session.connect(1)


@pytest.mark.parametrize("properties", [b"", b"\x01\x00", b"\x02" + bytes(4), b"\x26" + bytes(200)])
def test_properties_of_a_message_are_skipped(properties: bytes) -> None:
    driver = Driver()
    driver.connect()
    body = b"\x00\x01t\x00\x09" + encode_variable_integer(len(properties)) + properties + b"payload"
    driver.session.receive(packet(0x32, body))
    assert driver.taken[0][:2] == (b"t", b"payload")


def content_type(text: bytes) -> bytes:
    return b"\x03" + len(text).to_bytes(2, "big") + text


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (b"", b""),
        (b"\x01\x01", b""),
        (content_type(b"application/json"), b"application/json"),
        (b"\x02" + bytes(4) + content_type(b"a/b") + b"\x26\x00\x01k\x00\x01v", b"a/b"),
        (content_type(b"")[:-1], UNREADABLE),
        (b"\x03\x00\x20short", UNREADABLE),
        (b"\x7f", UNREADABLE),
    ],
)
def test_a_content_type_is_found_among_the_properties_and_never_ends_the_connection(properties, said) -> None:
    """MQTT 5, 3.3.2.3.9. What cannot be read is a content type that no format has."""
    driver = Driver()
    driver.connect()
    for topic in ("vehicles/a/status", "vehicles/b/status"):
        driver.session.receive(publish(topic, b"payload", qos=1, mid=9, properties=properties))
    assert driver.content_types == [said, said]
    assert [payload for _, payload, _, _ in driver.taken] == [b"payload", b"payload"]


@given(st.integers(0, 268_435_455))
def test_variable_integers_round_trip(value: int) -> None:
    encoded = encode_variable_integer(value)
    assert variable_integer(encoded, 0) == (value, len(encoded))
    for short in range(len(encoded)):
        assert variable_integer(encoded[:short], 0) is None


def test_five_bytes_of_length_are_no_mqtt() -> None:
    with pytest.raises(ValueError, match="longer than 4"):
        variable_integer(b"\xff\xff\xff\xff\x01", 0)
    with pytest.raises(ValueError, match="cut short"):
        skip_properties(b"\xff", 0)


@BOTH
def test_bytes_that_are_no_mqtt_raise_one_kind_of_error(five: bool) -> None:
    rng = random.Random(3)
    refused = 0
    for _ in range(5_000):
        driver = Driver(five)
        driver.session.connect(1)
        try:
            if rng.random() < 0.7:
                driver.session.receive(ACCEPTED[five])
            for _ in range(rng.randrange(1, 4)):
                data = bytearray(rng.randbytes(rng.randrange(1, 300)))
                data[0] = rng.choice([0x20, 0x30, 0x32, 0x34, 0x62, 0x90, 0xB0, 0xE0, data[0]])
                driver.session.receive(bytes(data))
        except MalformedPacketError:
            refused += 1
    assert refused > 1_000


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (publish("t", b"", qos=3, mid=1), 0x81),
        (publish("t", b"", qos=1, mid=0), 0x82),
        (ACCEPTED[True], 0x82),
        (packet(0xC0, b""), 0x82),
        (packet(0x30, b"\x00\x09t"), 0x81),
        (packet(0x30, b""), 0x81),
        (packet(SUBACK << 4, b"\x00"), 0x81),
    ],
)
def test_what_a_broker_must_not_send_ends_the_connection_with_a_reason(data: bytes, code: int) -> None:
    driver = Driver()
    driver.connect()
    with pytest.raises(MalformedPacketError) as error:
        driver.session.receive(data)
    assert error.value.code == code
    assert driver.session.disconnect(code=code) == bytes((0xE0, 1, code))


def test_nothing_comes_before_connack() -> None:
    driver = Driver()
    driver.session.connect(1)
    with pytest.raises(MalformedPacketError, match="before CONNACK"):
        driver.session.receive(publish("t", b"x"))


# Acknowledgement: order, identity, generation.


@BOTH
@given(st.data())
def test_acknowledgements_leave_in_order_of_receipt_whatever_kafkas_order(five: bool, data: Any) -> None:
    """MQTT-4.6.0-2 and -3."""
    driver = Driver(five, receive_max=100)
    driver.connect()
    qos = data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=30))
    receipts = [driver.feed("t", b"%d" % mid, mid, qos=level) for mid, level in enumerate(qos, 1)]
    written = b""
    for index in data.draw(st.permutations(range(len(qos)))):
        driver.session.acknowledge(receipts[index])
        if data.draw(st.booleans()):
            written += driver.session.acknowledgements()
    written += driver.session.acknowledgements()
    assert written == b"".join((puback if q == 1 else pubrec)(mid) for mid, q in enumerate(qos, 1))


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_a_new_message_under_an_identifier_that_is_held_is_taken(five: bool, qos: int) -> None:
    """A broker killed and back with an older session gives the identifiers of its lost time to new messages."""
    driver = Driver(five)
    driver.connect()
    old = driver.feed("t", b"old", 5, qos=qos)
    driver.connect(resumed=True)
    new = driver.feed("t", b"new", 5, qos=qos)
    assert new is not None
    assert new is not old
    # Kafka's report for the old one says nothing of the new one.
    assert driver.acknowledge(old) == b""
    assert driver.acknowledge(new) == (puback if qos == 1 else pubrec)(5)


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_dup_alone_makes_no_redelivery(five: bool, qos: int) -> None:
    driver = Driver(five)
    driver.connect()
    old = driver.feed("t", b"old", 5, qos=qos)
    driver.connect(resumed=True)
    new = driver.feed("t", b"new", 5, qos=qos, dup=True)
    assert new is not None
    assert driver.acknowledge(old) == b""
    elsewhere = driver.feed("u", b"new", 6, qos=qos, dup=True)
    assert driver.acknowledge(elsewhere, new) == (puback if qos == 1 else pubrec)(5, 6)


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kafka_first", [True, False])
def test_a_redelivery_of_what_is_held_is_answered_by_the_first_copy(
    five: bool, qos: int, kafka_first: bool
) -> None:
    driver = Driver(five)
    driver.connect()
    first = driver.feed("t", b"one", 5, qos=qos)
    driver.connect(resumed=True)
    if kafka_first:
        assert driver.acknowledge(first) == b""
    assert driver.feed("t", b"one", 5, qos=qos, dup=True) is None
    if not kafka_first:
        assert driver.session.acknowledgements() == b""
        driver.session.acknowledge(first)
    assert driver.session.acknowledgements() == (puback if qos == 1 else pubrec)(5)
    assert driver.session.redelivered == 1


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_without_a_session_at_the_broker_nothing_is_a_redelivery(five: bool, qos: int) -> None:
    driver = Driver(five)
    driver.connect()
    old = driver.feed("t", b"one", 5, qos=qos)
    driver.connect(resumed=False)
    again = driver.feed("t", b"one", 5, qos=qos, dup=True)
    assert again is not None
    assert driver.acknowledge(old) == b""
    assert driver.acknowledge(again) == (puback if qos == 1 else pubrec)(5)


@BOTH
def test_an_identifier_reused_within_a_connection_loses_neither_message(five: bool) -> None:
    driver = Driver(five)
    driver.connect()
    first = driver.feed("t", b"one", 5)
    second = driver.feed("t", b"two", 5)
    assert driver.acknowledge(second) == b""
    assert driver.acknowledge(first) == puback(5, 5)
    assert driver.session.reused_identifiers == 1
    assert driver.session.held == 0


@BOTH
def test_qos_2_answers_a_second_publish_until_pubrel(five: bool) -> None:
    driver = Driver(five)
    driver.connect()
    first = driver.feed("t", b"one", 5, qos=2)
    assert driver.acknowledge(first) == pubrec(5)
    driver.connect(resumed=True)
    assert driver.feed("t", b"one", 5, qos=2, dup=True) is None
    assert driver.session.acknowledgements() == pubrec(5)
    driver.session.receive(pubrel(5))
    assert driver.session.acknowledgements() == b"\x70\x02\x00\x05"
    assert driver.session.held == 0
    assert driver.feed("t", b"one", 5, qos=2) is not None


def test_pubrel_of_an_unknown_identifier_says_so_in_mqtt_5() -> None:
    for five, answer in ((True, b"\x70\x03\x00\x09\x92"), (False, b"\x70\x02\x00\x09")):
        driver = Driver(five)
        driver.connect(resumed=True)
        driver.session.receive(pubrel(9))
        assert driver.session.acknowledgements() == answer


def test_more_in_flight_than_allowed_is_counted_and_taken() -> None:
    driver = Driver(receive_max=2)
    driver.connect()
    for mid in (1, 2):
        receipt = driver.feed("t", b"x", mid, qos=mid)
    driver.acknowledge(receipt, driver.taken[0][3])
    driver.session.receive(pubrel(2))
    for mid in (3, 4):
        driver.feed("t", b"x", mid)
    assert driver.session.over_receive_max == 0
    assert driver.feed("t", b"x", 5) is not None
    assert driver.session.over_receive_max == 1


@BOTH
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_broker_keeps_for_new_subscribers_is_taken_once(five: bool, qos: int) -> None:
    """RETAIN of a PUBLISH (3.3.1.3) is set in what a subscription brings, not in what is published meanwhile."""
    kept = publish("t", b"kept", qos=qos, mid=7, five=five)
    retained = bytes((kept[0] | 1,)) + kept[1:]
    driver = Driver(five)
    driver.connect()
    driver.session.receive(retained)
    assert [payload for _, payload, _, _ in driver.taken] == [b"kept"], "a session that is new has not had it"
    if qos:
        driver.acknowledge(driver.taken[0][3])
        driver.session.receive(packet(0x62, b"\x00\x07"))
    for count in (1, 2):
        driver.connect(resumed=True)
        driver.session.receive(retained)
        assert len(driver.taken) == 1
        assert driver.session.retained_again == count
        acknowledged = {0: b"", 1: puback(7), 2: b"\x50\x02\x00\x07"}[qos]
        assert driver.session.acknowledgements() == acknowledged
        driver.session.receive(packet(0x62, b"\x00\x07"))
        driver.session.receive(publish("t", b"new", qos=qos, mid=8, five=five))
        assert driver.taken.pop()[1] == b"new"


def retained(payload: bytes, *, topic: str = "t", mid: int = 7, qos: int = 1, five: bool = True) -> bytes:
    sent = publish(topic, payload, qos=qos, mid=mid, five=five)
    return bytes((sent[0] | 1,)) + sent[1:]


@BOTH
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_publish_is_taken_once_where_the_broker_has_lost_the_session(five: bool, qos: int) -> None:
    driver = Driver(five)
    for connection, payload in enumerate([b"kept", b"kept", b"kept", b"other", b"other"]):
        driver.connect()
        driver.session.receive(retained(payload, qos=qos, five=five))
        assert [taken for _, taken, _, _ in driver.taken] == [b"kept", b"other"][: 1 + (connection > 2)]
        acknowledged = driver.acknowledge(driver.taken[-1][3]) if qos else b""
        assert acknowledged == {0: b"", 1: puback(7), 2: pubrec(7)}[qos]
        driver.session.receive(pubrel(7))
    assert driver.session.retained_again == 3


@BOTH
def test_a_retained_publish_that_kafka_does_not_have_yet_is_taken_again(five: bool) -> None:
    """Its acknowledgement over the second connection would speak for the first copy."""
    driver = Driver(five)
    for _ in range(2):
        driver.connect()
        driver.session.receive(retained(b"kept", five=five))
    assert len(driver.taken) == 2
    assert driver.session.acknowledgements() == b""


def test_a_retained_publish_of_a_subscription_that_an_older_session_had_lost_is_taken() -> None:
    """MQTT 5 sends it for a new subscription alone (Retain Handling 1, 3.8.3.1)."""
    driver = Driver()
    driver.connect(resumed=True)
    driver.session.receive(retained(b"kept"))
    assert len(driver.taken) == 1


def test_what_is_remembered_of_retained_publishes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateways.protocols.mqtt.session.RETAINED_MAX", 2)
    driver = Driver()
    for _ in range(2):
        driver.connect()
        for topic in ("a", "b", "c"):
            driver.session.receive(retained(b"kept", topic=topic, qos=0))
    assert [topic for topic, _, _, _ in driver.taken] == [b"a", b"b", b"c", b"c"]


# The rest of a connection.


def test_connect_continues_the_session() -> None:
    wanted: Any = {"keepalive_s": 60, "session_expiry_s": 9, "receive_max": 7, "maximum_packet_bytes": 300}
    five = packets.connect(Credentials("g", "u", "p"), five=True, **wanted)
    said = b"\x0d\x11\x00\x00\x00\x09\x21\x00\x07\x27\x00\x00\x01\x2c"
    assert five == packet(0x10, b"\x00\x04MQTT\x05\xc0\x00\x3c" + said + b"\x00\x01g\x00\x01u\x00\x01p")
    old = packets.connect(Credentials("g"), five=False, **wanted)
    assert old == packet(0x10, b"\x00\x04MQTT\x04\x00\x00\x3c\x00\x01g")


@pytest.mark.parametrize(
    ("five", "connack", "told"),
    [
        (True, b"\x00\x87\x00", "not authorized"),
        (True, b"\x00\x86\x06\x1f\x00\x03why", "bad user name or password: why"),
        (True, b"\x00\xc7\x00", "0xc7"),
        (False, b"\x00\x05", "not authorized"),
        (False, b"\x00\x09", "return code 9"),
    ],
)
def test_a_refusal_has_its_reason(five: bool, connack: bytes, told: str) -> None:
    driver = Driver(five)
    driver.session.connect(1)
    driver.session.receive(packet(CONNACK << 4, connack))
    ((kind, reason),) = driver.told
    assert kind == "refused"
    assert told in reason


@BOTH
def test_a_subscription_granted_for_less_is_refused(five: bool) -> None:
    """At QoS 0 in place of 1 the broker would forget what it sends, and the acknowledgement would mean nothing."""
    driver = Driver(five)
    driver.connect()
    driver.session.subscribe("vehicles/#", 1)
    empty = b"\x00" if five else b""
    driver.session.receive(packet(SUBACK << 4, b"\x00\x01" + empty + b"\x00"))
    assert driver.told[-1] == ("refused", "refuses to subscribe: QoS 0 granted where 1 was asked for")
    driver.session.receive(packet(SUBACK << 4, b"\x00\x01" + empty + b"\x80"))
    assert "unspecified error" in driver.told[-1][1]
    driver.session.receive(packet(SUBACK << 4, b"\x00\x01" + empty + b"\x01"))
    assert driver.told[-1] == "subscribed"


def test_another_of_the_same_name_is_told_apart() -> None:
    driver = Driver()
    driver.connect()
    driver.session.receive(packet(DISCONNECT << 4, b"\x8e"))
    driver.session.receive(packet(DISCONNECT << 4, b"\x8b\x00"))
    assert driver.told[1:] == [
        ("ended", "session taken over", True),
        ("ended", "server shutting down", False),
    ]


def test_the_keep_alive_is_the_brokers_and_silence_is_found_out() -> None:
    driver = Driver()
    driver.session.connect(1)
    driver.session.receive(packet(CONNACK << 4, b"\x00\x00\x03\x13\x00\x0a"))
    assert driver.session.keepalive_s == 10
    sent = [driver.session.tick(deaf=False) for _ in range(7)]
    assert sent == [b"", packets.PING, b"", packets.PING, b"", packets.PING, None]
    driver.session.connect(2)
    driver.session.receive(ACCEPTED[True])
    assert None not in [driver.session.tick(deaf=True) for _ in range(20)]


@pytest.mark.parametrize(
    ("properties", "granted"), [(b"", 3600), (b"\x11\x00\x00\x00\x08", 8), (b"\x11" + b"\xff" * 4, 2**32 - 1)]
)
def test_the_sessions_expiry_is_what_the_broker_grants(properties: bytes, granted: int) -> None:
    """3.2.2.3.2; the next connection asks for its own again."""
    driver = Driver()
    driver.session.connect(1)
    driver.session.receive(packet(CONNACK << 4, b"\x00\x00" + bytes((len(properties),)) + properties))
    assert driver.session.expiry_s == granted
    assert b"\x11" + (3600).to_bytes(4, "big") in driver.session.connect(2)
    driver.session.receive(ACCEPTED[True])
    assert driver.session.expiry_s == 3600
