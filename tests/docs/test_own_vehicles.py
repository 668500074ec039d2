"""docs/how-to/own-vehicles.md, done as it says: its gateways, what strangers send them, and what is then in Kafka."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiocoap
import pika
import pytest

from gateways.protocols.amqp.forget import delete_queue
from gateways.protocols.base import Endpoint
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/how-to/own-vehicles.md").read_text()
COMMANDS = re.findall(r"^    (\S.*)$", GUIDE, re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
STATUS = re.findall(r"^```json\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)[0]
READY_S = 60.0
# aiocoap-client is beside the interpreter.
PATH = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def commands(program: str) -> list[str]:
    return [one for one in COMMANDS if one.startswith(f"{program} ")]


def test_the_guide_has_what_its_tests_try() -> None:
    assert [shlex.split(one)[2] for one in commands("ivsim gateway")] == [
        "mqtt",
        "amqp",
        "coap",
        "mqtt",
        "amqp",
        "mqtt",
    ]
    assert len(commands("mosquitto_pub")) == 3
    assert len(commands("aiocoap-client")) == 1
    assert [next(word for word in ("aio_pika", "pika", "confluent_kafka") if word in block) for block in PYTHON] == [
        "pika", "aio_pika", "confluent_kafka",
    ]  # fmt: skip


def test_its_message_is_one() -> None:
    peek = FORMATS["json"].peek(STATUS.encode())
    assert (peek.vehicle_id, peek.sequence, peek.epoch) == ("truck-7", 1, 1)
    status = FORMATS["json"].decode(STATUS.encode())
    assert (status.position.latitude_deg, status.position.ground_speed_kmh) == (52.1, 81.5)


class Gateway:
    """A gateway as its user starts it: `ivsim gateway ...`, told by its exit code and its two streams."""

    def __init__(self, words: list[str], log: Path) -> None:
        self._log = log
        with log.open("w") as file:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "ivsim.cli", "gateway", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True, cwd=ROOT,
            )  # fmt: skip
        self.line = self.popen.stdout.readline()
        self.page = re.sub(r".*(http://\S+)/metrics.*\n", r"\1", self.popen.stdout.readline())

    @property
    def log(self) -> str:
        return self._log.read_text()

    def health(self) -> tuple[int, list[str]]:
        try:
            with urllib.request.urlopen(f"{self.page}/health", timeout=10) as answer:
                return answer.status, json.load(answer)["problems"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["problems"]

    def stop(self) -> tuple[int, str]:
        """Ask it to end as systemd does; return its exit code and its last line."""
        self.popen.send_signal(signal.SIGTERM)
        rest, _ = self.popen.communicate(timeout=30)
        return self.popen.returncode, rest.strip()

    def close(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    with ExitStack() as stack:

        def start(words: str) -> Gateway:
            found = Gateway(
                [*shlex.split(words), "--metrics-port", "0"], tmp_path / f"{uuid.uuid4().hex}.log"
            )
            stack.callback(found.close)
            return found

        yield start


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record) as server:
        yield server


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something to become so."""
    end_s = time.monotonic() + READY_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


@pytest.mark.broker
@pytest.mark.kafka
def test_what_strangers_send_is_in_kafka(tmp_path, kafka, broker, rabbitmq_loopback, gateway) -> None:
    (tmp_path / "status.json").write_text(STATUS)
    queue = f"g-{uuid.uuid4().hex[:8]}"
    there = {"9092": kafka.rpartition(":")[2], "1883": str(broker.port), "5672": str(rabbitmq_loopback[1])}
    prefix = f"{uuid.uuid4().hex[:8]}."

    def here(text: str) -> str:
        """The guide's words with the addresses and names of this test."""
        place = re.compile(r"127\.0\.0\.1([: ,\"]+(?:-p )?)(\d{4})\b")
        text = place.sub(lambda found: f"127.0.0.1{found[1]}{there.get(found[2], found[2])}", text)
        return text.replace("fleet.", prefix)

    started = {}
    try:
        for command in commands("ivsim gateway")[:3]:
            protocol = shlex.split(command)[2]
            words = here(command.removeprefix("ivsim gateway "))
            words = words.replace("127.0.0.1:5683", "127.0.0.1:0")
            started[protocol] = gateway(f"{words} --name {queue}")
            assert f"gateway {queue} " in started[protocol].line, started[protocol].log
        there["5683"] = re.search(r"127\.0\.0\.1:(\d+): into", started["coap"].line)[1]
        assert f"made {prefix}vehicle.status, {prefix}vehicle.dead-letter" in started["mqtt"].log
        for program in ("mosquitto_pub", "aiocoap-client"):
            for command in commands(program):
                subprocess.run(shlex.split(here(command)), cwd=tmp_path, env=PATH, check=True, timeout=30)
        for block in PYTHON[:2]:
            subprocess.run([sys.executable, "-c", here(block)], cwd=tmp_path, check=True, timeout=30)
        send_what_says_its_format(broker.port, rabbitmq_loopback[1], int(there["5683"]), tmp_path)
        received = {"mqtt": 5, "amqp": 4, "coap": 3}
        for protocol, count in received.items():
            one = started[protocol]
            until(lambda one=one, count=count: counted(one) == count, f"{protocol}: {one.log}")
            assert one.health() == (200, [])
        shown = subprocess.run(
            [sys.executable, "-c", here(PYTHON[2])], capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()
        good = [line for line in shown if line.startswith(f"{prefix}vehicle.status truck-7 ")]
        letters = [line for line in shown if line.startswith(f"{prefix}vehicle.dead-letter truck-7 ")]
        assert len(good) + len(letters) == len(shown)
        assert sorted((header("protocol", line), header("format", line)) for line in good) == [
            ("amqp", "json"), ("amqp", "json"), ("amqp", "protobuf"), ("coap", "json"), ("coap", "protobuf"),
            ("mqtt", "json"), ("mqtt", "json"), ("mqtt", "protobuf"),
        ]  # fmt: skip
        assert {header("sequence", line) for line in good} == {"1"}
        assert sorted((header("protocol", line), header("reason", line)[:21]) for line in letters) == [
            ("amqp", "content type 'text/ht"),
            ("coap", "content type 'CoAP Co"),
            ("mqtt", "content type 'text/ht"),
            ("mqtt", "json payload, byte 4:"),
        ]
        for protocol, count in received.items():
            code, last = started[protocol].stop()
            assert (code, last.partition(",")[0]) == (0, f"stopped: {count} messages taken"), started[
                protocol
            ].log
    finally:
        delete_queue(Endpoint(*rabbitmq_loopback), queue)


def header(name: str, line: str) -> str:
    found = re.search(rf"'{name}': b(['\"])(.*?)\1[,}}]", line)
    assert found is not None, line
    return found[2]


def send_what_says_its_format(mqtt: int, amqp: int, coap: int, folder: Path) -> None:
    """Send to the gateways, whose own format is JSON, a message in Protobuf, and one of a format that nobody knows."""
    payload = FORMATS["protobuf"].encode(FORMATS["json"].decode(STATUS.encode()))
    (folder / "status.pb").write_bytes(payload)
    types = {"application/x-protobuf": "status.pb", "text/html": "status.json"}
    for said, file in types.items():
        words = f"mosquitto_pub -p {mqtt} -V mqttv5 -q 1 -t vehicles/truck-7/status -D publish content-type {said} -f {file}"
        subprocess.run(shlex.split(words), cwd=folder, check=True, timeout=30)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp))
    channel = connection.channel()
    channel.confirm_delivery()
    for said, file in types.items():
        properties = pika.BasicProperties(content_type=said)
        channel.basic_publish(
            "amq.topic", "vehicles.truck-7.status", (folder / file).read_bytes(), properties
        )
    connection.close()
    assert asyncio.run(_post(coap, {65_001: payload, 60: payload})) == ["2.04", "4.15"]


async def _post(port: int, payloads: dict[int, bytes]) -> list[str]:
    context = await aiocoap.Context.create_client_context()
    try:
        uri = f"coap://127.0.0.1:{port}/vehicles/truck-7/status"
        codes = []
        for number, payload in payloads.items():
            request = aiocoap.Message(code=aiocoap.POST, uri=uri, payload=payload, content_format=number)
            async with asyncio.timeout(30):
                codes.append((await context.request(request).response).code.dotted)
        return codes
    finally:
        await context.shutdown()


def page(one: Gateway) -> str:
    with urllib.request.urlopen(f"{one.page}/metrics", timeout=10) as answer:
        return answer.read().decode()


def counted(one: Gateway) -> int:
    return int(float(re.search(r"^ivsim_gateway_delivered_total\{.*\} (\S+)$", page(one), re.MULTILINE)[1]))


@pytest.mark.broker
@pytest.mark.kafka
def test_a_lost_broker_is_logged_shown_and_found_again(kafka, broker, gateway) -> None:
    prefix = f"{uuid.uuid4().hex[:8]}."
    words = f"mqtt --target mqtt://127.0.0.1:{broker.port} --kafka {kafka} --kafka-topic-prefix {prefix}"
    one = gateway(words)
    code, _ = one.stop()
    assert (code, one.log) == (
        2,
        (
            f"ivsim: --kafka {kafka}: no topic {prefix}vehicle.status, {prefix}vehicle.dead-letter: make it, or add"
            " --make-topics\n"
        ),
    )
    one = gateway(f"{words} --make-topics")
    assert one.health() == (200, [])
    where = f"MQTT broker 127.0.0.1:{broker.port}"
    broker.process.kill()
    until(lambda: f"{where}: connection lost: " in one.log, "no line of the loss")
    assert one.health()[0] == 503
    assert one.health()[1][0].startswith("no connection: ")
    until(lambda: f"{where}: Connection refused; trying again" in one.log, "no line of the attempts")
    broker.restart()
    until(lambda: one.health()[0] == 200, "the broker was not found again")
    assert one.log.count(f"{where}: connected") == 2
    assert one.stop()[0] == 0
