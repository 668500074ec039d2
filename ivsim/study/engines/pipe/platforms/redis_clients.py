"""Redis Streams' clients, as a producer's or a consumer's process has them: a stream for each partition, one group.

An entry has two fields: `n`, its number, and `v`, its value; a third one, `k`, where it has a key. Redis knows no
offset; a consumer counts the entries of its streams, and asks how many lie before where it goes on.

The producer speaks the protocol by hiredis over a socket that never blocks: commands go out as soon as a batch is due,
whatever is still unanswered, and answers come in order. After a broken connection what has no answer is sent again,
as Kafka's producer does: what Redis had carried out already is there twice, and the ledger counts it.

The consumer reads with redis-py. Where it acknowledges, acknowledgements travel with the next read. What was given to
a consumer that has gone is claimed when the next one opens (`XAUTOCLAIM`); where nobody acknowledges (`commit` none),
nothing is kept to be claimed (`NOACK`), and the stream is read from its beginning.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from zlib import crc32

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full, Place, Refused, Report

GROUP: Final = "readers"
# proto-max-bulk-len as installed
RECORD_BYTES: Final = 536_870_912
# A queue that is full slows a producer down: as many records and bytes as Kafka's has room for.
QUEUE_MESSAGES: Final = 100_000
QUEUE_BYTES: Final = 268_435_456
READ_BYTES: Final = 262_144
ANSWER_S: Final = 30.0
AGAIN_S: Final = 0.05
BEGINNING: Final = b"0-0"
# How many entries of a stream are at or before an id; streams have no such command.
UP_TO: Final = "return redis.call('XLEN',KEYS[1]) - #redis.call('XRANGE',KEYS[1],'('..ARGV[1],'+')"
# Its stub knows commands of one word alone.
PACK: Final[Any] = hiredis.pack_command
LOST: Final = (redis.ConnectionError, redis.TimeoutError)


def stream(place: Place, partition: int) -> str:
    """Return the key of a partition."""
    return f"{place['name']}:{partition}"


def client(
    host: str,
    port: int,
    timeout_s: float = ANSWER_S,
    connected: Callable[..., None] | None = None,
) -> redis.Redis:
    """Return a client that repeats nothing by itself: a command without an answer may have been carried out.

    It connects again by itself: `connected` is called with each new connection, which it has to greet.
    """
    return redis.Redis(
        host,
        port,
        protocol=2,
        socket_timeout=timeout_s,
        socket_connect_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=connected,
    )


class RedisSender:
    """A producer: XADD after XADD, without waiting for answers."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        self._address = (place["host"], place["port"])
        self._streams = [stream(place, one).encode() for one in range(place["partitions"])]
        self._next = index % len(self._streams)
        self._report = report
        self._linger_s: float = settings["linger_ms"] / 1_000
        self._batch_messages: int = settings["batch_messages"]
        self._batch_bytes: int = settings["batch_bytes"]
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self._tried_s = -math.inf
        # number and command of what has no answer yet
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        # commands of the batch that is being filled, which are the last of those
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._due_s = math.inf
        # what the socket has not taken yet
        self._out: list[bytes] = []
        self._rest = memoryview(b"")
        self._wire_bytes = 0
        self._batches = 0
        self._batch_records = 0

    def open(self) -> None:
        until_s = time.monotonic() + ANSWER_S
        while not self._connected():
            if time.monotonic() > until_s:
                raise redis.ConnectionError(f"no Redis answered at {self._address} within {ANSWER_S:g} s")
            time.sleep(AGAIN_S)

    def _connected(self) -> bool:
        """Return whether there is a connection; try to make one, at most every `AGAIN_S`."""
        if self._socket is not None:
            return True
        now_s = time.monotonic()
        if now_s - self._tried_s < AGAIN_S:
            return False
        self._tried_s = now_s
        try:
            made = socket.create_connection(self._address, ANSWER_S)
        except OSError:
            return False
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            made.sendall(b"PING\r\n")
            # A server that still reads its file says so, and would refuse what is sent.
            alive = made.recv(READ_BYTES) == b"+PONG\r\n"
        except OSError:
            alive = False
        if not alive:
            made.close()
            return False
        made.setblocking(False)
        self._socket = made
        self._reader = hiredis.Reader()
        sent = len(self._waiting) - len(self._held)
        self._out = [command for _, command in islice(self._waiting, sent)]
        self._rest = memoryview(b"")
        return True

    def _disconnected(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns
        if len(value) > RECORD_BYTES:
            raise Refused(f"{len(value)} B: at most {RECORD_BYTES} B")
        if len(self._waiting) >= QUEUE_MESSAGES or (
            self._waiting and self._waiting_bytes + len(value) > QUEUE_BYTES
        ):
            raise Full
        if key is None:
            target = self._next
            self._next = target + 1 if target + 1 < len(self._streams) else 0
            keyed: tuple[bytes, ...] = ()
        else:
            target = crc32(key) % len(self._streams)
            keyed = (b"k", key)
        command: bytes = PACK(
            (b"XADD", self._streams[target], b"*", b"n", b"%d" % number, b"v", value, *keyed)
        )
        self._waiting.append((number, command))
        self._waiting_bytes += len(command)
        self._held.append(command)
        self._held_bytes += len(command)
        held = len(self._held)
        if held >= self._batch_messages or self._held_bytes >= self._batch_bytes or not self._linger_s:
            self._release()
            self._push()
        elif held == 1:
            self._due_s = time.monotonic() + self._linger_s

    def _release(self) -> None:
        """Let the batch go."""
        if not self._held:
            return
        self._out += self._held
        self._batches += 1
        self._batch_records += len(self._held)
        self._held = []
        self._held_bytes = 0
        self._due_s = math.inf

    def _push(self) -> None:
        """Give the socket what it takes."""
        if self._socket is None:
            return
        try:
            while self._rest or self._out:
                if not self._rest:
                    self._rest = memoryview(self._out[0] if len(self._out) == 1 else b"".join(self._out))
                    self._out.clear()
                taken = self._socket.send(self._rest)
                self._wire_bytes += taken
                self._rest = self._rest[taken:]
        except BlockingIOError:
            return
        except OSError:
            self._disconnected()

    def _pull(self) -> bool:
        """Hand over the answers that are there; return whether there was one."""
        if self._socket is None:
            return False
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._disconnected()
            return False
        self._reader.feed(data)
        came = False
        while (answer := self._reader.gets()) is not False:
            number, command = self._waiting.popleft()
            self._waiting_bytes -= len(command)
            self._report(number, str(answer) if isinstance(answer, hiredis.ReplyError) else None)
            came = True
        return came

    def poll(self, timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while True:
            now_s = time.monotonic()
            if now_s >= self._due_s:
                self._release()
            if self._connected():
                self._push()
            if self._pull() or now_s >= until_s:
                return
            self._await(min(until_s, self._due_s) - time.monotonic())

    def _await(self, left_s: float) -> None:
        """Return once the socket has something, or at the time."""
        left_s = max(0.0, left_s)
        if self._socket is None:
            time.sleep(min(left_s, AGAIN_S))
            return
        writing = [self._socket] if self._rest or self._out else []
        select.select([self._socket], writing, [], left_s)

    def flush(self, timeout_s: float) -> int:
        self._release()
        until_s = time.monotonic() + timeout_s
        while self._waiting and (left_s := until_s - time.monotonic()) > 0:
            self.poll(min(left_s, AGAIN_S))
        return len(self._waiting)

    def statistics(self) -> Mapping[str, float | None]:
        return {
            "wire_bytes": self._wire_bytes,
            "batches": self._batches,
            "batch_records": self._batch_records,
        }

    def close(self) -> None:
        self._disconnected()


# An entry as Redis gives it: its id, and its fields and values in turn.
Entry = tuple[bytes, list[bytes]]


class _Chunk(NamedTuple):
    """Entries of a partition that were read and not yet given out."""

    partition: int
    offset: int
    entries: list[Entry]


class RedisReceiver:
    """A consumer of some streams, by one group; a name of its own in it, which the next one of the same streams takes over."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._wait_s: float = settings["take_ms"] / 1_000
        self._connections = self._known = 0
        self._client = client(place["host"], place["port"], self._wait_s + ANSWER_S, self._connected)
        # Answers as they come: objects for each entry would cost more than the rest.
        for command in ("XREADGROUP", "XAUTOCLAIM"):
            self._client.set_response_callback(command, lambda answer, **_: answer)
        self._most: int = settings["take_records"]
        self._full: bool = settings["take"] == "full"
        self._acknowledges: bool = settings.get("commit", "none") != "none"
        self._name = f"consumer-{partitions[0]}"
        self._streams = {one: stream(place, one) for one in partitions}
        self._partition_of = {key.encode(): one for one, key in self._streams.items()}
        self._after: dict[Any, Any] = dict.fromkeys(self._streams.values(), ">")
        self._next = dict.fromkeys(partitions, 0)
        # id of the last entry that was read, of each partition
        self._last: dict[int, bytes] = {}
        self._ready: deque[_Chunk] = deque()
        # first offset and ids of what was given out and is not acknowledged
        self._given: dict[int, deque[tuple[int, bytes]]] = {one: deque() for one in partitions}
        self._acknowledged: dict[int, list[bytes]] = {one: [] for one in partitions}
        self._lost = False

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        for partition, key in self._streams.items():
            if resumed and self._acknowledges:
                self._resume(partition)
            else:
                self._client.xgroup_setid(key, GROUP, BEGINNING, entries_read=0)
        self._known = self._connections
        first = {chunk.partition: chunk.offset for chunk in self._ready}
        return {**self._next, **first}

    def _connected(self, connection: Any) -> None:
        connection.on_connect()
        self._connections += 1

    def _resume(self, partition: int) -> None:
        """Go on behind what was read; without any of it, with what the group gave to a consumer that has gone."""
        key, last = self._streams[partition], self._last.get(partition)
        if not self._acknowledges:
            # The group's own place may be behind an answer that was lost on its way here.
            self._client.xgroup_setid(key, GROUP, last or BEGINNING)
            self._next[partition] = self._up_to(key, last) if last is not None else 0
            return
        claimed = [one for one in self._claimed(key) if last is None or _ordinal(one[0]) > _ordinal(last)]
        if claimed:
            first = self._up_to(key, claimed[0][0]) - 1
            self._kept(partition, first, claimed)
            return
        if last is None:
            (group,) = self._client.xinfo_groups(key)
            last = group["last-delivered-id"]
        self._next[partition] = self._up_to(key, last)

    def _claimed(self, key: str) -> list[Entry]:
        """Return what the group has given out and nobody has acknowledged, in order; it is this consumer's now."""
        found: list[Entry] = []
        at: bytes | str = BEGINNING
        while True:
            at, entries, *_ = self._client.xautoclaim(key, GROUP, self._name, 0, at, count=1_000)
            found += [one for one in entries if one is not None and one[1] is not None]
            if at == BEGINNING:
                return found

    def _up_to(self, key: str, last: bytes | str) -> int:
        return int(self._client.eval(UP_TO, 1, key, last))

    def _kept(self, partition: int, first: int, entries: list[Entry]) -> None:
        self._ready.append(_Chunk(partition, first, entries))
        self._next[partition] = first + len(entries)
        self._last[partition] = entries[-1][0]

    def poll(self) -> Arrivals:
        until_s = time.monotonic() + self._wait_s
        try:
            self._read(until_s)
        except redis.BusyLoadingError:
            time.sleep(AGAIN_S)
        except LOST:
            # It may come back; whether it has died is its owner's to see.
            self._lost = True
            time.sleep(AGAIN_S)
        return self._arrivals()

    def _read(self, until_s: float) -> None:
        while True:
            if self._lost:
                for partition in self._streams:
                    self._resume(partition)
                self._known, self._lost = self._connections, False
            there = sum(len(chunk.entries) for chunk in self._ready)
            if there >= (self._most if self._full else 1):
                return
            left_ms = math.ceil((until_s - time.monotonic()) * 1_000)
            if left_ms <= 0:
                return
            self._fetch(self._most - there, left_ms)

    def _fetch(self, most: int, wait_ms: int) -> None:
        """Read what is there, or comes within the time, and acknowledge what was given out before."""
        told = {one: ids for one, ids in self._acknowledged.items() if ids}
        if told:
            with self._client.pipeline(transaction=False) as pipeline:
                for partition, ids in told.items():
                    pipeline.xack(self._streams[partition], GROUP, *ids)
                pipeline.xreadgroup(GROUP, self._name, self._after, count=most, block=wait_ms)
                answer = pipeline.execute()[-1]
            self._acknowledged = {one: [] for one in self._streams}
        else:
            answer = self._client.xreadgroup(
                GROUP, self._name, self._after, count=most, block=wait_ms, noack=not self._acknowledges
            )
        if self._connections != self._known:
            # The server may have lost what it had not on its disk: where this answer begins is not known.
            self._lost = True
            return
        for key, entries in answer or ():
            partition = self._partition_of[key]
            self._kept(partition, self._next[partition], entries)

    def _arrivals(self) -> Arrivals:
        """Give out as many as a call may."""
        if not self._ready:
            return NONE
        numbers: list[int] = []
        partitions: list[int] = []
        offsets: list[int] = []
        values: list[bytes] = []
        while self._ready and len(numbers) < self._most:
            partition, first, entries = self._ready.popleft()
            room = self._most - len(numbers)
            if len(entries) > room:
                self._ready.appendleft(_Chunk(partition, first + room, entries[room:]))
                entries = entries[:room]
            numbers += [int(fields[1]) for _, fields in entries]
            values += [fields[3] for _, fields in entries]
            partitions += [partition] * len(entries)
            offsets += range(first, first + len(entries))
            if self._acknowledges:
                ids = (one for one, _ in entries)
                self._given[partition].extend(zip(range(first, first + len(entries)), ids, strict=True))
        return Arrivals(numbers, partitions, offsets, values)

    def acknowledge(self, partition: int, offset: int) -> None:
        """Note what the next read tells Redis."""
        given, told = self._given[partition], self._acknowledged[partition]
        while given and given[0][0] <= offset:
            told.append(given.popleft()[1])

    def close(self) -> None:
        try:
            for partition, ids in self._acknowledged.items():
                if ids:
                    self._client.xack(self._streams[partition], GROUP, *ids)
        except redis.RedisError:
            pass  # it has gone: what it holds will be given out again
        finally:
            self._client.close()


def _ordinal(entry_id: bytes) -> tuple[int, int]:
    """Return what ids are ordered by: milliseconds, and the number within them."""
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> RedisSender:
    """Return the producer's end."""
    return RedisSender(place, settings, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> RedisReceiver:
    """Return the consumer's end."""
    return RedisReceiver(place, settings, partitions)
