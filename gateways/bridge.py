"""The bridge: takes a message from an intake, names and counts it, and hands it over to Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from gateways.handover import FORMAT, MODE, PROTOCOL, RECEIVED, SAMPLED, SEQUENCE, HandOver, Record
from gateways.producer import Header, RecordProducer
from gateways.protocols.base import Receipt
from gateways.receive_log import ReceiveLog
from schemas.formats import Format
from schemas.topics import KafkaTopics
from schemas.tracks import Track

# While records are on their way to Kafka, how often delivery reports are fetched between two batches.
_POLL_S = 0.001
_TRACKS_MAX = 200_000
# What the receive log and the ledger can hold.
_SEQUENCE_MAX = 2**63 - 2
_EPOCH_MAX = 2**31 - 1


def _resumed(key: bytes, epoch: int, highest: int) -> Track:
    """Return the track of a vehicle that an earlier gateway had followed."""
    track = Track(key, epoch)
    track.expected = highest + 1
    return track


class Bridge(HandOver):
    """Implements gateways.protocols.base.Sink: names each message, counts it, and hands it over."""

    def __init__(
        self,
        *,
        producer: RecordProducer,
        topics: KafkaTopics,
        payload_format: Format,
        protocol: str,
        mode: str,
        held_max: int,
        held_bytes_max: int,
        early_ack: bool = False,
        drop: frozenset[tuple[str, int]] = frozenset(),
        mislabel: frozenset[tuple[str, int]] = frozenset(),
        log: ReceiveLog | None = None,
        progress: Mapping[bytes, tuple[int, int]] = MappingProxyType({}),
        fatal: Callable[[str], None],
    ) -> None:
        origin = (
            (FORMAT, payload_format.name.encode()),
            (PROTOCOL, protocol.encode()),
            (MODE, mode.encode()),
        )
        super().__init__(
            producer=producer, topics=topics, origin=origin, held_max=held_max, held_bytes_max=held_bytes_max,
            early_ack=early_ack, fatal=fatal,
        )  # fmt: skip
        self._format_header, self._protocol_header, self._mode_header = origin
        self._peek = payload_format.peek
        self._modulus = payload_format.sequence_modulus
        self._drop = drop
        self._mislabel = mislabel
        self._log = log
        self._tracks = {key.decode(): _resumed(key, *reached) for key, reached in progress.items()}
        self._batch_open = False
        self._timer: asyncio.TimerHandle | None = None
        self._stamp = 0
        self._stamp_header: Header = (RECEIVED, b"0")
        self._draining = False

    def take(  # noqa: C901, PLR0912 - one straight pass per message; calls would cost what the budget has not
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Receipt
    ) -> None:
        """Log one message and hand it to Kafka; whatever it holds, this never raises."""
        counters = self.counters
        counters.received += 1
        counters.received_bytes += len(payload)
        if not self._batch_open:
            self._open_batch()
        try:
            sequence, epoch, sampled_at_ns, named = self._peek(payload)
            if not (0 < sequence <= _SEQUENCE_MAX and 0 <= epoch <= _EPOCH_MAX):
                raise ValueError(f"sequence {sequence} of epoch {epoch} is out of range")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - no payload, and no fault of a format, may stop the bridge
            self._dead_letter(vehicle_id, payload, received_at_ns, receipt, str(error) or repr(error))
            return
        if named is not None and named != vehicle_id:
            reason = f"the payload names vehicle {named!r}"
            self._dead_letter(vehicle_id, payload, received_at_ns, receipt, reason)
            return
        track = self._tracks.get(vehicle_id)
        if track is None or track.epoch != epoch:
            track = self._track(vehicle_id, epoch)
        if self._modulus is not None:
            sequence = track.unwrap(sequence, self._modulus)
        if duplicate:
            counters.flagged_duplicates += 1
        if sequence == track.expected:
            track.expected = sequence + 1
        elif track.seen_before(sequence):
            counters.duplicates += 1
        if self._log is not None:
            self._log.append(track.key, epoch, sequence, received_at_ns)
        if self._drop and (vehicle_id, sequence) in self._drop:
            counters.dropped_on_purpose += 1
            self.intake.acknowledge(receipt)
            return
        if received_at_ns != self._stamp:
            self._stamp = received_at_ns
            self._stamp_header = (RECEIVED, b"%d" % received_at_ns)
        headers: list[Header] = [
            self._format_header,
            self._protocol_header,
            self._mode_header,
            track.epoch_header,
            (SEQUENCE, b"%d" % sequence),
            (SAMPLED, b"" if sampled_at_ns is None else b"%d" % sampled_at_ns),
            self._stamp_header,
        ]
        if self._mislabel and (vehicle_id, sequence) in self._mislabel:
            headers[0] = (FORMAT, b"mislabelled-on-purpose")
        self._hand_over(Record(self._topic, track.key, payload, headers, receipt))

    def misaddressed(
        self, address: str, payload: bytes, received_at_ns: int, receipt: Receipt, reason: str
    ) -> None:
        """Take a message without a vehicle: it goes to the dead letters."""
        self.counters.received += 1
        self.counters.received_bytes += len(payload)
        if not self._batch_open:
            self._open_batch()
        self._dead_letter(address, payload, received_at_ns, receipt, reason)

    def link(self, up: bool, reason: str) -> None:
        """Count the intake's connections; it repairs them by itself."""
        self.counters.connected = int(up)
        if not up:
            self.counters.connections_lost += 1
            self.counters.last_connection_loss = reason

    async def drain(self, timeout_s: float) -> bool:
        """Wait until Kafka has all that is held; False when time is over first."""
        self._draining = True
        end = time.monotonic() + timeout_s
        while self.held and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
            self._end_batch()
        return self.held == 0

    def close(self) -> None:
        """Stop asking for delivery reports; what is still held stays unacknowledged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._log is not None:
            self._log.close()

    def _track(self, vehicle_id: str, epoch: int) -> Track:
        """Return the vehicle's track in this epoch; a late message of an older epoch gets a passing one."""
        track = self._tracks.get(vehicle_id)
        if track is None:
            track = Track(vehicle_id.encode(), epoch)
            if len(self._tracks) < _TRACKS_MAX:
                self._tracks[vehicle_id] = track
        elif epoch > track.epoch:
            track.restart(epoch)
        else:
            self.counters.older_epoch += 1
            return Track(track.key, epoch)
        return track

    def _open_batch(self) -> None:
        self._batch_open = True
        self._loop.call_soon(self._end_batch)

    def _end_batch(self) -> None:
        """Fetch delivery reports, write the log, then the acknowledgements; come again while any is due."""
        self._batch_open = False
        if self._log is not None:
            self._log.flush()
        self._producer.poll(0)
        self.intake.flush()
        low = self.held <= self._held_max // 2 and self.held_bytes <= self._held_bytes_max // 2
        if self.paused and low and not self._draining:
            self.paused = False
            self.intake.resume()
        if self._producer.fatal is not None:
            self._fatal(f"the producer cannot go on: {self._producer.fatal}")
        if self._timer is None and self.held:
            self._timer = self._loop.call_later(_POLL_S, self._poll_again)

    def _poll_again(self) -> None:
        self._timer = None
        self._end_batch()
