"""The consumer's process (`python -m ivsim.ingest.process CONFIG`): notes when it had each record of messages.

It reads from the first record until it is told to stop, and then on to the end that the platform has by then.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from pydantic import field_validator

from gateways.receive_log import ReceiveLog
from ivsim.ingest.receiver import RECEIVERS, Receiver, Taken, opened
from schemas.config import Strict, read_config
from schemas.control import commands, emit, on_sigterm
from schemas.errors import Refusal
from schemas.tracks import Track

# How often the owner is told, and how long the end of the platform is looked for.
PROGRESS_S: Final = 0.2
END_S: Final = 20.0
NAME_BYTES: Final = 32


class ConsumerConfig(Strict):
    """What a consumer is told.

    Attributes:
        platform: a key of RECEIVERS.
        bootstrap: its address.
        kafka_login: file by which it logs in at Kafka; "" goes there in the clear.
        topic: of messages.
        partitions: that it has.
        log: where to note what it has, in the form of the gateways' receive log.
    """

    platform: str
    bootstrap: str
    kafka_login: str = ""
    topic: str
    partitions: int
    log: str

    @field_validator("platform")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in RECEIVERS:
            raise ValueError(f"{value!r}: allowed are {', '.join(RECEIVERS)}")
        return value


class Consumer:
    """From `ready` to `done`.

    Attributes:
        distinct: messages that it had, each counted once.
        unreadable: records that name no message.
    """

    def __init__(self, receiver: Receiver, log: ReceiveLog) -> None:
        self._receiver, self._log = receiver, log
        self._tracks: dict[tuple[bytes, int], Track] = {}
        self._stop = threading.Event()
        self.records = self.distinct = self.unreadable = 0

    def stop(self) -> None:
        """Read on to the end, and no further; from any thread."""
        self._stop.set()

    def run(self) -> bool:
        """Read until it is stopped; return whether it came to the platform's end then."""
        due_s = 0.0
        while not self._stop.is_set():
            self._take(PROGRESS_S)
            if (now_s := time.monotonic()) >= due_s:
                due_s = now_s + PROGRESS_S
                emit("progress", **self.figures())
        until_s = time.monotonic() + END_S
        while time.monotonic() < until_s:
            if not self._take(PROGRESS_S) and not self._receiver.behind():
                return True
        return False

    def figures(self) -> dict[str, int]:
        """Return what was read so far."""
        return {"records": self.records, "distinct": self.distinct, "unreadable": self.unreadable}

    def _take(self, timeout_s: float) -> bool:
        taken = self._receiver.take(timeout_s)
        at_ns = time.time_ns()
        for one in taken:
            self._note(one, at_ns)
        self._log.flush()
        return bool(taken)

    def _note(self, one: Taken, at_ns: int) -> None:
        self.records += 1
        try:
            epoch, sequence = int(one.epoch), int(one.sequence)
        except ValueError:
            epoch = sequence = -1
        if not (0 <= epoch < 2**32 and 0 < sequence < 2**63 and 0 < len(one.key) <= NAME_BYTES):
            self.unreadable += 1
            return
        track = self._tracks.get((one.key, epoch))
        if track is None:
            track = self._tracks[one.key, epoch] = Track(one.key, epoch)
        self.distinct += not track.seen_before(sequence)
        self._log.append(one.key, epoch, sequence, at_ns)


def main(arguments: list[str]) -> int:
    """Consume; 0 when it was stopped in order, 1 when the platform said what cannot be, 2 for bad input."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m ivsim.ingest.process CONFIG.json\n")
        return 2
    try:
        config = read_config(arguments[0], ConsumerConfig)
    except Refusal as error:
        emit("error", message=str(error))
        sys.stderr.write(f"{error}\n")
        return 2
    try:
        with (
            closing(ReceiveLog(Path(config.log))) as log,
            closing(
                opened(config.platform, config.bootstrap, config.topic, config.partitions, config.kafka_login)
            ) as receiver,
        ):
            consumer = Consumer(receiver, log)
            on_sigterm(consumer.stop)
            threading.Thread(target=_obey, args=(consumer,), daemon=True).start()
            emit("ready")
            complete = consumer.run()
            emit("done", complete=complete, **consumer.figures())
    except Exception as error:  # noqa: BLE001 - each platform's library has its own
        emit("error", message=f"{type(error).__name__}: {error}")
        return 1
    return 0


def _obey(consumer: Consumer) -> None:
    """Stop at the owner's word, and when the owner is gone."""
    for _ in commands("stop"):
        break
    consumer.stop()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
