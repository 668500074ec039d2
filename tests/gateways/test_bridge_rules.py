"""The bridge against a producer and an intake of paper: no broker, no Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gateways.bridge import Bridge
from gateways.config import GatewayConfig
from gateways.counters import Counters
from gateways.kafka_delivery import KafkaDelivery
from gateways.process import GatewayProcess
from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.topics import KafkaTopics, vehicle_id


class Message:
    def __init__(self, topic: str, key: bytes, value: bytes) -> None:
        self.parts = (topic, key, value)

    def topic(self) -> str:
        return self.parts[0]

    def key(self) -> bytes:
        return self.parts[1]

    def value(self) -> bytes:
        return self.parts[2]

    def __len__(self) -> int:
        return len(self.parts[2])


class Producer:
    """Reports when told, with the error it is told."""

    def __init__(self) -> None:
        self.fatal: str | None = None
        self.waiting: list[tuple[Message, Any, Any]] = []
        self.full = 0
        self.most_bytes = 16_000_000
        self.produced = asyncio.Event()

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Any, headers: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        if len(value) > self.most_bytes:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.produced.set()
        self.waiting.append((Message(topic, key, value), headers, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        pass

    def report(self, error: KafkaError | None = None) -> tuple[Message, Any]:
        message, headers, on_delivery = self.waiting.pop(0)
        self.produced.clear()
        on_delivery(error, message)
        return message, headers


class Intake:
    def __init__(self) -> None:
        self.acknowledged: list[Any] = []
        self.invalid_ones: list[Any] = []
        self.paused = False

    def invalid(self, receipt: Any) -> None:
        assert receipt not in self.acknowledged, "the answer would be out already"
        self.invalid_ones.append(receipt)

    def acknowledge(self, receipt: Any) -> None:
        self.acknowledged.append(receipt)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def flush(self) -> None:
        pass


class Text:
    """`sequence epoch vehicle`, in words."""

    name = "text"
    sequence_modulus = None

    def peek(self, payload: bytes) -> Peek:
        try:
            sequence, epoch, vehicle = payload.split()
            return Peek(int(sequence), int(epoch), 5, vehicle.decode())
        except ValueError:
            raise PayloadError("text", 0, "not three words") from None


VEHICLE = vehicle_id(1)


def payload(sequence: int, epoch: int = 1) -> bytes:
    return b"%d %d %s" % (sequence, epoch, VEHICLE.encode())


@pytest.fixture
def fatal() -> list[str]:
    return []


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
async def make(fatal: list[str], producer: Producer) -> Callable[..., Bridge]:
    def made(*, early_ack: bool = False, payload_format: Any = None, by_media_type: Any = None) -> Bridge:
        counters = Counters()
        delivery = KafkaDelivery(
            producer=producer,  # type: ignore[arg-type]
            topics=KafkaTopics(),
            counters=counters,
            early_ack=early_ack,
            fatal=fatal.append,
        )
        bridge = Bridge(
            delivery=delivery,
            counters=counters,
            payload_format=payload_format or Text(),
            by_media_type={} if by_media_type is None else by_media_type,
            protocol="mqtt",
            mode="qos1",
            held_max=4,
            held_bytes_max=1_000,
        )
        bridge.connect(Intake())  # type: ignore[arg-type]
        return bridge

    return made


@pytest.fixture
async def bridge(make: Callable[..., Bridge]) -> Bridge:
    return make()


async def test_acknowledges_when_the_report_comes_and_not_before(bridge: Bridge, producer: Producer) -> None:
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    await asyncio.sleep(0)
    assert bridge.intake.acknowledged == []
    _, headers = producer.report()
    assert bridge.intake.acknowledged == ["a"]
    assert bridge.delivery.held == 0
    assert headers == [
        ("format", b"text"),
        ("protocol", b"mqtt"),
        ("mode", b"qos1"),
        ("epoch", b"1"),
        ("sequence", b"1"),
        ("sampled_at_ns", b"5"),
        ("received_at_ns", b"7"),
    ]
    bridge.close()


async def test_the_intake_knows_what_is_no_message_before_it_is_to_acknowledge_it(
    bridge: Bridge, producer: Producer
) -> None:
    bridge.take(VEHICLE, b"garbage", 7, False, "a")
    bridge.take(VEHICLE, payload(1), 7, False, "b")
    bridge.misaddressed("nowhere", b"x", 7, "c", "no vehicle")
    for _ in range(3):
        producer.report()
    assert bridge.intake.acknowledged == ["a", "b", "c"]
    assert bridge.intake.invalid_ones == ["a", "c"]
    bridge.close()


async def test_pauses_at_the_limit_and_resumes_at_half(bridge: Bridge, producer: Producer) -> None:
    for sequence in range(1, 6):
        bridge.take(VEHICLE, payload(sequence), 7, False, sequence)
    assert bridge.intake.paused
    for _ in range(3):
        producer.report()
    async with asyncio.timeout(5):
        while bridge.intake.paused:
            await asyncio.sleep(0.001)
    bridge.close()


async def test_pauses_at_the_limit_of_bytes(bridge: Bridge) -> None:
    bridge.take(VEHICLE, payload(1) + b" " * 2_000, 7, False, 1)
    assert bridge.intake.paused
    bridge.close()


async def test_a_failed_record_is_sent_again_and_stays_unacknowledged(
    bridge: Bridge, producer: Producer
) -> None:
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    message, headers = producer.report(KafkaError(KafkaError.REQUEST_TIMED_OUT))
    assert (bridge.intake.acknowledged, bridge.delivery.held) == ([], 1)
    await asyncio.wait_for(producer.produced.wait(), 5)
    again, headers_again = producer.report()
    assert (again.parts, headers_again) == (message.parts, headers)
    assert bridge.intake.acknowledged == ["a"]
    bridge.close()


async def test_a_record_that_kafka_will_never_take_becomes_a_dead_letter(
    bridge: Bridge, producer: Producer
) -> None:
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    producer.report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    letter, headers = producer.report()
    assert letter.topic() == "vehicle.dead-letter"
    assert b"Kafka" in dict(headers)["reason"]
    assert (bridge.intake.acknowledged, bridge.delivery.held, bridge.delivery.held_bytes) == (["a"], 0, 0)
    bridge.close()


async def test_a_message_that_the_producer_refuses_at_once_becomes_a_dead_letter(
    bridge: Bridge, producer: Producer
) -> None:
    producer.most_bytes = 100
    bridge.take(VEHICLE, payload(1) + b" " * 200, 7, False, "a")
    letter, headers = producer.report()
    sent = payload(1) + b" " * 200
    assert (letter.topic(), letter.value()) == ("vehicle.dead-letter", sent[: len(sent) // 10])
    assert b"Kafka" in dict(headers)["reason"]
    assert dict(headers)["payload_bytes"] == b"%d" % len(sent)
    assert dict(headers)["sequence"] == b"1"
    assert (bridge.intake.acknowledged, bridge.delivery.held, bridge.delivery.held_bytes) == (["a"], 0, 0)
    bridge.close()


async def test_a_payload_over_the_limit_leaves_its_beginning_size_and_reason(
    bridge: Bridge, producer: Producer
) -> None:
    sent = payload(1) + b" " * 16_500_000
    bridge.take(VEHICLE, sent, 7, False, "a")
    letter, headers = producer.report()
    assert letter.value() == sent[:900_000]
    assert dict(headers)["payload_bytes"] == b"%d" % len(sent)
    assert b"Kafka" in dict(headers)["reason"]
    assert bridge.intake.acknowledged == ["a"]
    bridge.close()


async def test_dead_letters_that_take_not_even_an_empty_one_end_the_gateway(
    bridge: Bridge, fatal: list[str], producer: Producer
) -> None:
    producer.most_bytes = -1
    bridge.take(VEHICLE, b"not three words", 7, False, "a")
    assert (len(fatal), bridge.intake.acknowledged) == (1, [])
    bridge.close()


async def test_a_huge_broken_payload_leaves_its_beginning(bridge: Bridge, producer: Producer) -> None:
    bridge.take(VEHICLE, b"x" * 17_000_000, 7, False, "a")
    letter, _ = producer.report()
    assert 0 < len(letter.value()) < 1_000_000
    assert (bridge.intake.acknowledged, bridge.delivery.held, bridge.delivery.held_bytes) == (["a"], 0, 0)
    bridge.close()


async def test_while_draining_nothing_is_taken_again(bridge: Bridge, producer: Producer) -> None:
    for sequence in range(1, 6):
        bridge.take(VEHICLE, payload(sequence), 7, False, sequence)
    assert bridge.intake.paused
    asyncio.get_running_loop().call_later(0.02, lambda: [producer.report() for _ in range(5)])
    assert await bridge.drain(5.0)
    assert bridge.intake.paused
    bridge.close()


async def test_nothing_is_asked_of_a_producer_that_is_closed(
    bridge: Bridge, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that comes with the last ones has its batch ended in a later turn of the loop."""
    asked: list[float] = []
    monkeypatch.setattr(producer, "poll", asked.append)
    bridge.take(VEHICLE, payload(1), 1, False, "r1")
    bridge.close()
    await asyncio.sleep(0)  # the next turn
    assert asked == []


async def test_early_acknowledgement_is_given_once(make: Callable[..., Bridge], producer: Producer) -> None:
    bridge = make(early_ack=True)
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    producer.report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    assert bridge.intake.acknowledged == ["a"]
    producer.most_bytes = 10
    bridge.take(VEHICLE, payload(2) + b" " * 200, 7, False, "b")
    assert bridge.intake.acknowledged == ["a", "b"]
    bridge.close()


async def test_a_full_producer_queue_delays_and_loses_nothing(bridge: Bridge, producer: Producer) -> None:
    producer.full = 2
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    await asyncio.wait_for(producer.produced.wait(), 5)
    producer.report()
    assert bridge.intake.acknowledged == ["a"]
    bridge.close()


async def test_a_fatal_producer_is_told_once_per_report_and_acknowledges_nothing(
    bridge: Bridge, fatal: list[str], producer: Producer
) -> None:
    bridge.take(VEHICLE, payload(1), 7, False, "a")
    producer.fatal = "fenced"
    producer.report(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH))
    assert len(fatal) == 1
    assert bridge.intake.acknowledged == []
    bridge.close()


async def test_epochs_are_apart(bridge: Bridge) -> None:
    for epoch, sequence in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3)):
        bridge.take(VEHICLE, payload(sequence, epoch), 7, False, None)
    assert (bridge.counters.duplicates, bridge.counters.older_epoch) == (0, 1)
    bridge.take(VEHICLE, payload(2, 2), 7, True, None)
    assert (bridge.counters.duplicates, bridge.counters.flagged_duplicates) == (1, 1)
    bridge.close()


class Broken:
    name = "broken"
    sequence_modulus = None

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def peek(self, _payload: bytes) -> Peek:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        IndexError(),
        RecursionError("too deep"),
        Peek(0, 1, None, None),
        Peek(-3, 1, None, None),
        Peek(2**64 - 1, 1, None, None),
        Peek(1, 2**40, None, None),
        Peek(1, 1, None, "someone else"),
    ],
)
async def test_no_answer_of_a_format_stops_the_bridge(
    make: Callable[..., Bridge], producer: Producer, answer: Any
) -> None:
    bridge = make(payload_format=Broken(answer))
    bridge.take(VEHICLE, b"x", 7, False, "a")
    letter, headers = producer.report()
    assert letter.topic() == "vehicle.dead-letter"
    assert dict(headers)["reason"]
    assert bridge.intake.acknowledged == ["a"]
    bridge.close()


class Numbers(Text):
    """`vehicle epoch sequence`, the other way round."""

    name = "numbers"

    def peek(self, payload: bytes) -> Peek:
        vehicle, epoch, sequence = payload.split()
        return Peek(int(sequence), int(epoch), 5, vehicle.decode())


@pytest.mark.parametrize(
    ("said", "text", "name"),
    [
        ("", payload(1), b"text"),
        ("application/octet-stream", payload(1), b"text"),
        ("text/words", payload(1), b"text"),
        ("Text/Words; charset=utf-8", payload(1), b"text"),
        ("text/numbers", b"%s 1 7" % VEHICLE.encode(), b"numbers"),
    ],
)
async def test_a_message_that_says_its_format_is_read_by_it(make, producer, said, text, name) -> None:
    bridge = make(by_media_type={"text/words": Text(), "text/numbers": Numbers()})
    for number in range(2):
        bridge.take(VEHICLE, text, 1, False, number, said)
    for _ in range(2):
        message, headers = producer.report()
        assert (message.topic(), message.value()) == (KafkaTopics().status, text)
        assert dict(headers)["format"] == name
    assert bridge.counters.dead_letters == 0


async def test_one_that_is_not_of_the_format_that_it_says_is_a_dead_letter_of_that(make, producer) -> None:
    bridge = make(by_media_type={"text/numbers": Numbers()})
    bridge.take(VEHICLE, payload(1), 1, False, "r", "text/numbers")
    message, headers = producer.report()
    assert message.topic() == KafkaTopics().dead_letter
    assert dict(headers)["format"] == b"numbers"


@pytest.mark.parametrize("said", ["text/html", "\ufffd", "x" * 70_000])
async def test_an_unknown_content_type_goes_to_the_dead_letters_with_that_reason(
    make, producer, said
) -> None:
    bridge = make(by_media_type={"text/words": Text()})
    for receipt in ("a", "b"):
        bridge.take(VEHICLE, payload(1), 1, False, receipt, said)
        message, headers = producer.report()
        told = dict(headers)
        assert (message.topic(), message.value()) == (KafkaTopics().dead_letter, payload(1))
        assert told["reason"] == f"content type {said[:80]!r}: allowed are text/words".encode()
        assert "format" not in told, "it is of none that is known here"
    assert bridge.intake.invalid_ones == ["a", "b"]


class Looked(dict[str, Any]):
    """A table that notes what is looked up in it: what is remembered is not asked for again."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_up.append(key)
        return default


async def test_what_is_remembered_of_content_types_is_bounded(make, producer) -> None:
    table = Looked()
    bridge = make(by_media_type=table)
    short = [f"text/{number}" for number in range(1_500)]
    long = [f"{one}{'x' * 300}" for one in short]
    for _ in range(2):
        table.looked_up.clear()
        for content_type in long + short:
            bridge.take(VEHICLE, payload(1), 1, False, object(), content_type)
            producer.report()
    assert table.looked_up == long + short[1_000:]
    bridge.close()


async def test_a_refusal_that_comes_again_behind_a_recovery_is_told_again(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateways.process._PROGRESS_S", 0.005)
    monkeypatch.setattr(bridge.intake, "counters", dict, raising=False)
    told: list[str] = []
    looks = asyncio.Semaphore(0)

    def tell(event: str, **values: Any) -> None:
        if event == "turned_away":
            told.append(values["reason"])
        elif event == "progress":
            looks.release()

    async def looked() -> None:
        """Return once the process has looked at all that is there by now."""
        while not looks.locked():
            await looks.acquire()
        async with asyncio.timeout(10):
            for _ in range(2):
                await looks.acquire()

    config = GatewayConfig(name="g", mode="qos1", host="h", port=1, bootstrap="b:1")
    process = GatewayProcess("mqtt", config, tell)
    process._bridge = bridge
    task = asyncio.ensure_future(process._report())
    for outage in (1, 2):
        bridge.link(up=False, reason="reset")
        for _ in range(3):
            bridge.turned_away("not authorized")
            await looked()
        assert told == ["not authorized"] * outage
        bridge.link(up=True, reason="")
        await looked()
    bridge.link(up=False, reason="reset")
    await looked()
    assert told == ["not authorized"] * 2, "a lost link alone is no refusal"
    task.cancel()
    bridge.close()
