"""What every platform of the pipe engine promises, asked of each by its own clients."""

from __future__ import annotations

import time
from contextlib import ExitStack
from importlib import import_module
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named, redis_clients
from ivsim.study.engines.pipe.platforms.base import Full, Refused
from ivsim.study.engines.pipe.platforms.kafka_clients import producer_settings
from ivsim.testbed.credentials import make_keystore
from ivsim.testbed.registry import RunRecord

SETTINGS = {"partitions": 2, "producers": 2, "take_ms": 50.0, "take_records": 10}
WAIT_S = 30.0
KAFKA_LIBRARIES = [name for name in PLATFORMS if name.startswith("kafka-")]
NEEDS = {
    **{name: [pytest.mark.kafka] for name in ("kafka", "pulsar")},
    **{name: [pytest.mark.kafka, pytest.mark.full] for name in KAFKA_LIBRARIES},
    "redis": [pytest.mark.broker],
}
# Fetched by whoever wants it: set-up leaves it out.
OPTIONAL = {"pulsar"}
# What a platform's client or server does not tell.
UNSAID = {
    **{name: {"batches"} for name in KAFKA_LIBRARIES},
    **{name: {"wire_bytes", "batches", "batch_records"} for name in ("kafka-aiokafka", "kafka-python")},
    "pulsar": {"wire_bytes", "stored_bytes"},
}


def parameter(name):
    """Return a platform with its marks; one that set-up leaves out is skipped where it is not installed."""
    lack = platform_named(name).missing() if name in OPTIONAL else None
    skip = [pytest.mark.skipif(lack is not None, reason=str(lack))]
    return pytest.param(name, marks=[*NEEDS.get(name, []), *skip])


def having(setting):
    """Return the platforms that obey a setting, as parameters."""
    return [parameter(name) for name in PLATFORMS if setting in platform_named(name).settings]


def first_of(parameters):
    """Return the parameters, all but the first for `make test-all` alone."""
    first, *others = parameters
    return [
        first,
        *(pytest.param(*one.values, marks=(*one.marks, pytest.mark.full), id=one.id) for one in others),
    ]


@pytest.fixture(scope="module")
def servers(tmp_path_factory, session_record):
    """Return what gives a row's servers; rows that start theirs in the same way share them."""
    with ExitStack() as stack:
        there = {}

        def of(row):
            how = type(row).open
            if how not in there:
                directory = tmp_path_factory.mktemp(row.name)
                record = stack.enter_context(RunRecord(f"c{time.time_ns()}", directory))
                there[how] = stack.enter_context(row.open(record, directory))
            return there[how]

        yield of


@pytest.fixture(scope="module", params=[parameter(name) for name in PLATFORMS])
def opened(request, servers):
    row = platform_named(request.param)
    return row, servers(row)


@pytest.fixture
def place(opened, request):
    _, platform = opened
    more = getattr(request, "param", {})
    found = platform.place(f"contract-{time.time_ns()}", settings(opened[0], **more))
    yield found
    platform.clear(found)


def settings(row, **more):
    return pipe_options({"platform": row.name, **SETTINGS, **more}).model_dump(mode="json")


class Arrival(NamedTuple):
    number: int
    partition: int
    offset: int
    value: bytes


class Clients:
    """Senders and one receiver of all partitions, with what they were told."""

    def __init__(self, row, place, senders=1, *, resumed=False, **more):
        self.resumed = resumed
        module = import_module(row.clients)
        self.reports = []
        asked = settings(row, **more)
        self.senders = [
            module.sender(place, asked, index, lambda *report: self.reports.append(report))
            for index in range(senders)
        ]
        self.receiver = module.receiver(place, asked, [0, 1])

    def __enter__(self):
        self.begins = dict(self.receiver.open(resumed=self.resumed))
        for sender in self.senders:
            sender.open()
        return self

    def __exit__(self, *_):
        for sender in self.senders:
            sender.close()
        self.receiver.close()

    def received(self, count):
        return self.until(lambda found: len(found) >= count)

    def until(self, enough):
        found, until_s = [], time.monotonic() + WAIT_S
        while not enough(found) and time.monotonic() < until_s:
            arrivals = self.receiver.poll()
            assert len(arrivals.number) <= SETTINGS["take_records"]
            found += [Arrival(*one) for one in zip(*arrivals, strict=True)]
        return found


def test_records_come_once_with_number_place_and_bytes(opened, place):
    row, platform = opened
    values = {number: bytes([number % 256]) * (number * 7 % 300) for number in range(1, 101)}
    with Clients(row, place, senders=2) as clients:
        for number, value in values.items():
            clients.senders[(number - 1) % 2].send(number, None, value, time.time_ns())
        assert [sender.flush(WAIT_S) for sender in clients.senders] == [0, 0]
        found = clients.received(100)
        assert {one.number: one.value for one in found} == values
        assert sorted(clients.reports) == [(number, None) for number in values]
        for partition in (0, 1):
            own = [one for one in found if one.partition == partition]
            assert [one.offset for one in own] == list(range(len(own)))
            for sender in (0, 1):
                numbers = [one.number for one in own if (one.number - 1) % 2 == sender]
                assert numbers == sorted(numbers)
        assert platform.ends(place) == {
            partition: sum(one.partition == partition for one in found) for partition in (0, 1)
        }
        statistics = [sender.statistics() for sender in clients.senders]
        said = {
            "batch_records": [one["batch_records"] for one in statistics],
            "wire_bytes": [one["wire_bytes"] for one in statistics],
            "stored_bytes": [platform.stored_bytes(place)],
        }
    for name, found in said.items():
        if name in UNSAID.get(row.name, ()):
            assert set(found) == {None}
        elif name == "batch_records":
            assert sum(found) == 100
        else:
            assert sum(found) > sum(map(len, values.values()))


def test_an_empty_place_has_ends_and_gives_nothing(opened, place):
    row, platform = opened
    with Clients(row, place) as clients:
        assert platform.ends(place) == {0: 0, 1: 0}
        assert [len(column) for column in clients.receiver.poll()] == [0] * 4


# Two readers of one partition at a time: Redis would hand over what the first has, and Pulsar lets no second one in.
@pytest.mark.parametrize(
    "opened", [parameter(name) for name in ("kafka", "null", *KAFKA_LIBRARIES)], indirect=True
)
def test_a_reader_that_resumes_begins_where_it_says_and_leaves_nothing_out(opened, place):
    row, _ = opened
    module, asked = import_module(row.clients), settings(row)
    with Clients(row, place) as clients:
        for number in range(1, 21):
            clients.senders[0].send(number, None, b"x", 0)
        clients.senders[0].flush(WAIT_S)
        clients.received(20)
        clients.receiver.acknowledge(0, 3)
        until_s = time.monotonic() + WAIT_S
        kept = {0: 4, 1: 0} if "commit" in row.settings else {0: 0, 1: 0}
        while (begins := resumed(module, place, asked, 0)[0]) != kept and time.monotonic() < until_s:
            time.sleep(0.1)  # what is acknowledged is on its way
        assert begins == kept
    begins, found = resumed(module, place, asked, 20 - sum(kept.values()))
    assert begins == kept
    for partition in (0, 1):
        assert [one.offset for one in found if one.partition == partition] == list(range(kept[partition], 10))


def resumed(module, place, asked, count):
    receiver = module.receiver(place, asked, [0, 1])
    begins, found, until_s = receiver.open(resumed=True), [], time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < until_s:
        found += [Arrival(*one) for one in zip(*receiver.poll(), strict=True)]
    receiver.close()
    return dict(begins), found


@pytest.mark.full
@pytest.mark.parametrize("opened", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_a_broker_that_is_killed_comes_back_with_what_it_had(opened, place):
    _, platform = opened
    before = dict(platform.pids())
    with Clients(*opened[:1], place) as clients:
        clients.senders[0].send(1, None, b"before", 0)
        clients.senders[0].flush(WAIT_S)
        platform.kill(0)
        until_s = time.monotonic() + WAIT_S
        while not platform.back(place) and time.monotonic() < until_s:
            time.sleep(0.05)
        assert before.keys() == platform.pids().keys()
        assert before["broker-0"] != platform.pids()["broker-0"]
        assert sum(platform.ends(place).values()) == 1
        clients.senders[0].send(2, None, b"after", 0)
        assert clients.senders[0].flush(WAIT_S) == 0
        assert sorted(one.number for one in clients.received(2)) == [1, 2]


@pytest.mark.parametrize("opened", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_kafka_speaks_tls_to_those_who_trust_it_and_to_nobody_else(opened, tmp_path):
    row, platform = opened
    place = platform.place(f"tls-{time.time_ns()}", settings(row, security="tls"))
    try:
        with Clients(row, place, security="tls") as clients:
            for number in range(1, 21):
                clients.senders[0].send(number, None, b"secret", 0)
            assert clients.senders[0].flush(WAIT_S) == 0
            assert sorted(one.number for one in clients.received(20)) == list(range(1, 21))
        _, stranger = make_keystore(tmp_path / "other", "127.0.0.1")
        plain = {name: value for name, value in place.items() if name != "authority"}
        for wrong in (plain, {**place, "authority": str(stranger)}):
            with pytest.raises(KafkaException):
                Producer(producer_settings(wrong, settings(row))).list_topics(timeout=3)
    finally:
        platform.clear(place)


def test_a_full_call_waits_for_its_number(opened, place):
    row, _ = opened
    with Clients(row, place, take="full", take_ms=5_000.0) as clients:
        for number in range(1, 26):
            clients.senders[0].send(number, None, b"x", 0)
        clients.senders[0].flush(WAIT_S)
        assert [len(clients.receiver.poll().number) for _ in range(2)] == [10, 10]


def test_a_record_over_the_limit_is_refused_and_the_others_are_not(opened, place):
    row, platform = opened
    with Clients(row, place) as clients:
        sender = clients.senders[0]
        sender.send(1, None, b"small", 0)
        with pytest.raises(Refused):
            sender.send(2, None, bytes(row.record_bytes + 100_000), 0)
        sender.send(3, None, b"small", 0)
        sender.flush(WAIT_S)
        assert [one.number for one in sorted(clients.received(2))] == [1, 3]
    assert sum(platform.ends(place).values()) == 2


@pytest.mark.parametrize("opened", having("linger_ms"), indirect=True)
def test_a_full_queue_says_so_and_takes_more_once_there_is_room(opened, place, monkeypatch):
    row, _ = opened
    monkeypatch.setattr(import_module(row.clients), "QUEUE_MESSAGES", 10)
    with Clients(row, place, linger_ms=1_000.0) as clients:
        sender = clients.senders[0]
        for number in range(1, 11):
            sender.send(number, None, b"x", 0)
        with pytest.raises(Full):
            sender.send(11, None, b"x", 0)
        assert sender.flush(WAIT_S) == 0
        sender.send(11, None, b"x", 0)
        assert sender.flush(WAIT_S) == 0
        assert sorted(one.number for one in clients.received(11)) == list(range(1, 12))
        assert sorted(clients.reports) == [(number, None) for number in range(1, 12)]


@pytest.mark.timing
@pytest.mark.parametrize("opened", first_of(having("linger_ms")), indirect=True)
def test_records_wait_for_their_batch_and_not_longer(opened, place):
    row, _ = opened
    with Clients(row, place, linger_ms=300.0) as clients:
        sender = clients.senders[0]
        began_s = time.monotonic()
        for number in range(1, 21):
            sender.send(number, None, b"x", 0)
        while len(clients.reports) < 20 and time.monotonic() < began_s + WAIT_S:
            sender.poll(0.01)
        assert 0.25 < time.monotonic() - began_s < 5
        sender.flush(WAIT_S)
        # One batch for all, or one for each partition.
        assert sender.statistics()["batches"] in ({None} if "batches" in UNSAID.get(row.name, ()) else {1, 2})


@pytest.mark.parametrize("opened", having("commit"), indirect=True)
def test_what_a_consumer_that_has_gone_did_not_acknowledge_is_given_out_again(opened, place):
    row, _ = opened
    with Clients(row, place, commit="call") as clients:
        for number in range(1, 41):
            clients.senders[0].send(number, None, b"x", 0)
        assert clients.senders[0].flush(WAIT_S) == 0
        fifth = [(0, 4), (1, 4)]
        first = clients.until(lambda found: {(one.partition, one.offset) for one in found} >= set(fifth))
        for partition, offset in fifth:
            clients.receiver.acknowledge(partition, offset)
    with Clients(row, place, commit="call", resumed=True) as clients:
        assert clients.begins == {0: 5, 1: 5}
        again = clients.received(30)
        assert len(again) == 30
        for partition in (0, 1):
            assert [one.offset for one in again if one.partition == partition] == list(range(5, 20))
        assert {one.number for one in again} | {one.number for one in first if one.offset <= 4} == set(
            range(1, 41)
        )


@pytest.mark.parametrize("opened", having("commit"), indirect=True)
def test_where_nobody_acknowledges_a_consumer_begins_at_the_beginning(opened, place):
    row, _ = opened
    with Clients(row, place) as clients:
        for number in range(1, 21):
            clients.senders[0].send(number, None, b"x", 0)
        clients.senders[0].flush(WAIT_S)
        first = clients.received(20)
    with Clients(row, place, resumed=True) as clients:
        assert clients.begins == {0: 0, 1: 0}
        assert sorted(clients.received(20)) == sorted(first)


@pytest.mark.parametrize(
    "place",
    [pytest.param({"durability": "cache"}, marks=pytest.mark.full), {"durability": "synced"}],
    indirect=True,
    ids=str,
)
@pytest.mark.parametrize("opened", having("durability"), indirect=True)
def test_a_kill_loses_nothing_acknowledged_and_clients_go_on(opened, place):
    row, platform = opened
    with Clients(row, place, linger_ms=1.0) as clients:
        sender = clients.senders[0]
        for number in range(1, 201):
            sender.send(number, None, b"before" * 20, 0)
        assert sender.flush(WAIT_S) == 0
        before = clients.received(100)
        pids = dict(platform.pids())
        platform.kill(0)
        for number in range(201, 301):
            sender.send(number, None, b"while it was gone", 0)
            sender.poll(0)
        until_s = time.monotonic() + WAIT_S
        while not platform.back(place) and time.monotonic() < until_s:
            time.sleep(0.02)
        platform.check()
        assert platform.pids().keys() == pids.keys()
        assert not set(platform.pids().values()) & set(pids.values())
        assert sender.flush(WAIT_S) == 0
        assert sorted(clients.reports) == [(number, None) for number in range(1, 301)]
        after = clients.until(lambda found: {one.number for one in (*before, *found)} >= set(range(1, 301)))
        assert {one.number for one in (*before, *after)} == set(range(1, 301))
        # What has no answer when it is killed may be there twice; what was acknowledged may not.
        assert len([one for one in (*before, *after) if one.number <= 200]) == 200
    with Clients(row, place) as clients:
        there = clients.until(lambda found: {one.number for one in found} >= set(range(1, 301)))
        assert {one.number for one in there} == set(range(1, 301))
        ends = platform.ends(place)
        assert sum(ends.values()) >= 300


@pytest.mark.parametrize(
    "more",
    [
        {"codec": "zstd", "linger_ms": 50.0},
        {"codec": "gzip"},
        {"codec": "lz4"},
        {"codec": "snappy", "partitioner": "key"},
        {"acks": "0"},
        {"acks": "1", "partitioner": "sticky"},
        {"idempotence": True, "commit": "record"},
        {"linger_ms": 0, "batch_messages": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("opened", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_kafka_obeys_its_settings(opened, place, more):
    row, _ = opened
    with Clients(row, place, **more) as clients:
        sender = clients.senders[0]
        for number in range(1, 201):
            sender.send(number, b"key" if more.get("partitioner") == "key" else None, b"value" * 60, 0)
        assert sender.flush(WAIT_S) == 0
        found = clients.received(200)
        assert sorted(one.number for one in found) == list(range(1, 201))
        said = sender.statistics()
    if more.get("codec", "none") != "none":
        assert said["wire_bytes"] < 200 * 300 / 2
    if more.get("partitioner") == "key":
        assert len({one.partition for one in found}) == 1
    if more.get("batch_messages") == 1:
        assert said["batches"] == said["batch_records"] == 200


def _key_of_pulsar(place, partition):
    from ivsim.study.engines.pipe.platforms import pulsar_clients  # noqa: PLC0415 - where it is installed

    client = pulsar_clients._client(place)
    try:
        reader = client.create_reader(
            pulsar_clients.topic(place, partition), pulsar_clients.pulsar.MessageId.earliest
        )
        return reader.read_next(10_000).partition_key().encode()
    finally:
        client.shutdown()


def _key_of_redis(place, partition):
    with redis_clients.client(place["host"], place["port"]) as client:
        ((_, fields),) = client.xrange(redis_clients.stream(place, partition), count=1)
        return fields[b"k"]


def _key_of_kafka(place, partition):
    consumer = Consumer({"bootstrap.servers": place["bootstrap"], "group.id": "keys"})
    try:
        consumer.assign([TopicPartition(place["topic"], partition, 0)])
        return consumer.poll(10).key()
    finally:
        consumer.close()


KEY_OF = {"kafka": _key_of_kafka, "pulsar": _key_of_pulsar, "redis": _key_of_redis}


@pytest.mark.parametrize("opened", [parameter(name) for name in KEY_OF], indirect=True)
def test_a_record_keeps_its_key_and_those_of_one_key_their_partition(opened, place):
    row, _ = opened
    keys = [b"v%06d" % (number % 20) for number in range(1, 201)]
    with Clients(row, place, partitioner="key") as clients:
        sender = clients.senders[0]
        for number, key in enumerate(keys, 1):
            sender.send(number, key, b"value", 0)
        assert sender.flush(WAIT_S) == 0
        found = clients.received(200)
    partitions = {key: {one.partition for one in found if keys[one.number - 1] == key} for key in keys}
    assert all(len(of_key) == 1 for of_key in partitions.values())
    assert set.union(*partitions.values()) == {0, 1}
    first = min((one for one in found if one.partition == 1), key=lambda one: one.offset)
    assert KEY_OF[row.name](place, 1) == keys[first.number - 1]


@pytest.mark.parametrize(
    "more",
    [
        {"acks": "0", "partitioner": "key"},
        {"acks": "1", "linger_ms": 0},
        {"idempotence": True, "commit": "call"},
    ],
    ids=str,
)
@pytest.mark.parametrize("opened", [parameter(name) for name in KAFKA_LIBRARIES], indirect=True)
def test_every_library_obeys_its_settings(opened, place, more):
    row, _ = opened
    with Clients(row, place, **more) as clients:
        sender = clients.senders[0]
        for number in range(1, 201):
            sender.send(number, b"key" if more.get("partitioner") == "key" else None, b"value" * 60, 0)
        assert sender.flush(WAIT_S) == 0
        found = clients.received(200)
        assert sorted(one.number for one in found) == list(range(1, 201))
        assert {one.value for one in found} == {b"value" * 60}
        assert sorted(clients.reports) == [(number, None) for number in range(1, 201)]
    assert len({one.partition for one in found}) == (1 if more.get("partitioner") == "key" else 2)
