"""A process of Java's own beside this one, without a bridge (Program.java): one for a process, from its first use to its end."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import struct
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Final

from gateways.sinks.java import OPTIONS
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import class_path, java_path

MAIN: Final = "ivsim.clients.Program"
END_S: Final = 10.0
_HEAD: Final = struct.Struct(">ci")
_REPLY: Final = struct.Struct(">bi")


class Program:
    """The process; it ends with its standard input, and so with this process, however that ends."""

    def __init__(self) -> None:
        self._secret = secrets.token_hex(32)
        words = [java_path(), *OPTIONS, "-cp", os.pathsep.join(class_path()), MAIN]
        # Closed with the process, by `end`.
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._secret}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"Java ended with exit code {self._process.wait()} before it listened")
        self._port = int(said)

    def connection(self) -> Connection:
        """Return a new connection, which is one end's."""
        return Connection(self._port, self._secret)

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@cache
def program() -> Program:
    """Return the process's own, started when it is first asked for."""
    made = Program()
    atexit.register(made.end)
    return made


class Connection:
    """Commands of one end, each answered before the next."""

    def __init__(self, port: int, secret: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb")
        self._socket.sendall(secret.encode())

    def ask(self, command: bytes, *parts: bytes) -> bytes:
        """Return the answer; RuntimeError with Java's words where it failed."""
        self._socket.sendall(b"".join((_HEAD.pack(command, sum(map(len, parts))), *parts)))
        head = self._read.read(_REPLY.size)
        if len(head) < _REPLY.size:
            raise RuntimeError("Java has ended")
        status, length = _REPLY.unpack(head)
        found: bytes = self._read.read(length)
        if status:
            raise RuntimeError(found.decode())
        return found

    def close(self) -> None:
        self._read.close()
        self._socket.close()


def block(content: bytes) -> bytes:
    """Return bytes behind their length."""
    return struct.pack("<i", len(content)) + content


def named(properties: str, topic: str) -> bytes:
    """Return what an end is made of."""
    return block(properties.encode()) + block(topic.encode())


class BesideSender:
    """FrameSender.java in the process beside."""

    def __init__(self, properties: str, topic: str) -> None:
        self._connection = program().connection()
        try:
            self._connection.ask(b"S", named(properties, topic))
        except BaseException:
            self._connection.close()
            raise

    def send(self, frame: bytes) -> None:
        self._connection.ask(b"s", frame)

    def answers(self, wait_ms: int) -> bytes:
        return self._connection.ask(b"a", struct.pack("<q", wait_ms))

    def flush(self) -> None:
        self._connection.ask(b"f")

    def counted(self) -> tuple[float, float]:
        wire_bytes, records = struct.unpack("<dd", self._connection.ask(b"m"))
        return wire_bytes, records

    def close(self) -> None:
        try:
            self._connection.ask(b"x")
        finally:
            self._connection.close()


class BesideReceiver:
    """FrameReceiver.java in the process beside."""

    def __init__(self, properties: str, topic: str) -> None:
        self._named = named(properties, topic)
        self._connection = program().connection()

    def open(self, partitions: Sequence[int], *, resumed: bool) -> list[int]:
        told = struct.pack(f"<ii{len(partitions)}i", resumed, len(partitions), *partitions)
        begins = self._connection.ask(b"R", self._named, told)
        return list(struct.unpack(f"<{len(partitions)}q", begins))

    def poll(self, wait_ms: int) -> bytes:
        return self._connection.ask(b"r", struct.pack("<q", wait_ms))

    def commit(self, partition: int, offset: int) -> None:
        self._connection.ask(b"k", struct.pack("<iq", partition, offset))

    def close(self) -> None:
        try:
            self._connection.ask(b"x")
        finally:
            self._connection.close()
