"""The bridge: takes a message from an intake, names and counts it, and gives it to a delivery.

An intake (one protocol's end) calls `take`; the delivery (one platform's end) calls the intake's
`acknowledge` once the platform has the record. In between stands this class alone: it names the message, counts
it, notes it in the receive log, and pauses the intake while too much is on its way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gateways.counters import Counters
from gateways.delivery import FORMAT, MODE, PROTOCOL, RECEIVED, SAMPLED, SEQUENCE, Delivery, Header
from gateways.protocols.ends import Intake, Receipt
from gateways.receive_log import ReceiveLog
from schemas.formats import Format, Peek
from schemas.formats.media_types import OCTETS, plain
from schemas.tracks import Track

# While records are on their way, how often confirmations are fetched between two batches.
_POLL_S = 0.001
# Vehicles whose messages are followed: of others a sequence that wraps (format `small`) is taken as it stands.
TRACKS_MAX = 200_000
# What the receive log and the ledger can hold.
_SEQUENCE_MAX = 2**63 - 2
_EPOCH_MAX = 2**31 - 1
# Media types that are remembered; what vehicles may say has no bound.
_KINDS_MAX = 1_000
_KIND_CHARACTERS = 255


class _Kind(NamedTuple):
    """What the bridge must know of a format."""

    peek: Callable[[bytes], Peek]
    modulus: int | None
    header: Header


def _kind(payload_format: Format) -> _Kind:
    return _Kind(payload_format.peek, payload_format.sequence_modulus, (FORMAT, payload_format.name.encode()))


def _resumed(key: bytes, epoch: int, highest: int) -> Track:
    """Return the track of a vehicle that an earlier gateway had followed."""
    track = Track(key, epoch)
    track.expected = highest + 1
    return track


class Bridge:
    """Implements gateways.protocols.ends.Sink; `connect` gives it its intake before the first message.

    Args:
        payload_format: of messages that do not say theirs.
        by_media_type: of those that do.
        held_max, held_bytes_max: above either the intake is paused, until half of it is left.
        drop: (vehicle id, sequence) pairs to take, log, acknowledge and never deliver: a fault on purpose.
        mislabel: pairs to deliver under a format that no twin knows.
        progress: key of a vehicle -> (epoch, highest sequence) that an earlier gateway had followed.

    Attributes:
        paused: the intake was told to stop taking.
    """

    intake: Intake

    def __init__(
        self,
        *,
        delivery: Delivery,
        counters: Counters,
        payload_format: Format,
        by_media_type: Mapping[str, Format] = MappingProxyType({}),
        protocol: str,
        mode: str,
        held_max: int,
        held_bytes_max: int,
        drop: frozenset[tuple[str, int]] = frozenset(),
        mislabel: frozenset[tuple[str, int]] = frozenset(),
        log: ReceiveLog | None = None,
        progress: Mapping[bytes, tuple[int, int]] = MappingProxyType({}),
    ) -> None:
        self.counters = counters
        self.delivery = delivery
        self.paused = False
        self._deliver = delivery.deliver
        self._held_max = held_max
        self._held_bytes_max = held_bytes_max
        self._loop = asyncio.get_running_loop()
        origin = ((PROTOCOL, protocol.encode()), (MODE, mode.encode()))
        self._origin = origin
        self._protocol_header, self._mode_header = origin
        self._own = _kind(payload_format)
        self._by_media_type = by_media_type
        self._kinds: dict[str, _Kind | None] = {}
        self._drop = drop
        self._mislabel = mislabel
        self._log = log
        self._tracks = {key.decode(): _resumed(key, *reached) for key, reached in progress.items()}
        self._batch_open = False
        self._timer: asyncio.TimerHandle | None = None
        self._stamp = 0
        self._stamp_header: Header = (RECEIVED, b"0")
        self._draining = self._stopping = self._closed = False

    def connect(self, intake: Intake) -> None:
        """Take messages from this intake, and let the delivery acknowledge to it."""
        self.intake = intake
        self.delivery.acknowledge = intake.acknowledge

    def take(  # noqa: C901, PLR0912, PLR0917 - one straight pass per message; calls would cost what the budget has not
        self,
        vehicle_id: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Receipt,
        content_type: str = "",
    ) -> None:
        """Log one message and deliver it; whatever it holds, this never raises."""
        counters = self.counters
        counters.received += 1
        counters.received_bytes += len(payload)
        if not self._batch_open:
            self._open_batch()
        kind = self._kind_of(content_type) if content_type else self._own
        if kind is None:
            reason = f"content type {content_type[:80]!r}: allowed are {', '.join(self._by_media_type)}"
            self._dead_letter(vehicle_id, payload, received_at_ns, receipt, reason, None)
            return
        peek, modulus, format_header = kind
        try:
            sequence, epoch, sampled_at_ns, named = peek(payload)
            if not (0 < sequence <= _SEQUENCE_MAX and 0 <= epoch <= _EPOCH_MAX):
                raise ValueError(f"sequence {sequence} of epoch {epoch} is out of range")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - no payload, and no fault of a format, may stop the bridge
            self._dead_letter(vehicle_id, payload, received_at_ns, receipt, str(error) or repr(error), kind)
            return
        if named is not None and named != vehicle_id:
            reason = f"the payload names vehicle {named!r}"
            self._dead_letter(vehicle_id, payload, received_at_ns, receipt, reason, kind)
            return
        track = self._tracks.get(vehicle_id)
        if track is None or track.epoch != epoch:
            track = self._track(vehicle_id, epoch)
        if modulus is not None:
            sequence = track.unwrap(sequence, modulus)
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
            format_header,
            self._protocol_header,
            self._mode_header,
            track.epoch_header,
            (SEQUENCE, b"%d" % sequence),
            (SAMPLED, b"" if sampled_at_ns is None else b"%d" % sampled_at_ns),
            self._stamp_header,
        ]
        if self._mislabel and (vehicle_id, sequence) in self._mislabel:
            headers[0] = (FORMAT, b"mislabelled-on-purpose")
        self._deliver(track.key, payload, headers, receipt)
        delivery = self.delivery
        if delivery.held > self._held_max or delivery.held_bytes > self._held_bytes_max:
            self._pause()

    def misaddressed(
        self, address: str, payload: bytes, received_at_ns: int, receipt: Receipt, reason: str
    ) -> None:
        """Take a message without a vehicle: it goes to the dead letters."""
        self.counters.received += 1
        self.counters.received_bytes += len(payload)
        if not self._batch_open:
            self._open_batch()
        self._dead_letter(address, payload, received_at_ns, receipt, reason, self._own)

    def oversized(
        self,
        address: str,
        beginning: bytes,
        received_at_ns: int,
        receipt: Receipt,
        *,
        size_bytes: int,
        reason: str,
    ) -> None:
        """Take what is kept of a payload over the limit: it goes to the dead letters, with the size that it had."""
        self.counters.received += 1
        self.counters.received_bytes += size_bytes
        if not self._batch_open:
            self._open_batch()
        self._dead_letter(
            address, beginning, received_at_ns, receipt, reason, self._own, size_bytes=size_bytes
        )

    def link(self, up: bool, reason: str) -> None:
        """Count the intake's connections; it repairs them by itself."""
        self.counters.connected = int(up)
        if up:
            self.counters.connected_at_ns = time.time_ns()
        else:
            self.counters.connections_lost += 1
            self.counters.last_connection_loss = reason

    def turned_away(self, reason: str) -> None:
        """Count it each time; the process says each new reason once in each time without a connection."""
        self.counters.connections_refused += 1
        self.counters.last_refusal = self.counters.last_connection_loss = reason

    async def drain(self, timeout_s: float) -> bool:
        """Wait until the platform has all that is held; False when time is over first.

        Whoever has paused the intake may let it go on behind this, for what its peer had put aside for it: then the limits
        pause and resume it as before.
        """
        self._draining = self._stopping = True
        end = time.monotonic() + timeout_s
        while self.delivery.held and time.monotonic() < end:
            self._end_batch()
            await asyncio.sleep(_POLL_S)
        self._draining = self.paused = False
        return self.delivery.held == 0

    def close(self) -> None:
        """Stop asking for confirmations; what is still held stays unacknowledged."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._log is not None:
            self._log.close()

    def _kind_of(self, content_type: str) -> _Kind | None:
        """Return what a message is that says so, None where that is no format here."""
        if content_type in self._kinds:
            return self._kinds[content_type]
        media_type = plain(content_type)
        found = self._by_media_type.get(media_type)
        kind = self._own if media_type == OCTETS else None if found is None else _kind(found)
        if len(self._kinds) < _KINDS_MAX and len(content_type) <= _KIND_CHARACTERS:
            self._kinds[content_type] = kind
        return kind

    def _dead_letter(  # noqa: PLR0917 - as `take`
        self,
        address: str,
        payload: bytes,
        received_at_ns: int,
        receipt: Receipt,
        reason: str,
        kind: _Kind | None,
        *,
        size_bytes: int | None = None,
    ) -> None:
        """Write a message to the dead letters; `kind` None is one of no format here, and they do not say any."""
        self.intake.invalid(receipt)
        said = [] if kind is None else [kind.header]
        headers: list[Header] = [*said, *self._origin, (RECEIVED, b"%d" % received_at_ns)]
        self.delivery.dead_letter(address.encode(), payload, headers, receipt, reason, size_bytes=size_bytes)
        if self.delivery.held > self._held_max or self.delivery.held_bytes > self._held_bytes_max:
            self._pause()

    def _pause(self) -> None:
        if not self.paused:
            self.paused = True
            self.counters.pauses += 1
            self.intake.pause()

    def _track(self, vehicle_id: str, epoch: int) -> Track:
        """Return the vehicle's track in this epoch; a late message of an older epoch gets a passing one."""
        track = self._tracks.get(vehicle_id)
        if track is None:
            track = Track(vehicle_id.encode(), epoch)
            if len(self._tracks) < TRACKS_MAX:
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
        """Fetch confirmations, write the log, then the acknowledgements; come again while any is due."""
        self._batch_open = False
        if self._closed:
            return  # called for a message that came with the last ones; what it would ask is closed, too
        if self._log is not None:
            self._log.flush()
        delivery = self.delivery
        if self._stopping:
            delivery.flush()  # waits for no batch: nothing more may come to fill it
        delivery.poll()
        self.intake.flush()
        low = delivery.held <= self._held_max // 2 and delivery.held_bytes <= self._held_bytes_max // 2
        if self.paused and low and not self._draining:
            self.paused = False
            self.intake.resume()
        if self._timer is None and delivery.held:
            self._timer = self._loop.call_later(_POLL_S, self._poll_again)

    def _poll_again(self) -> None:
        self._timer = None
        self._end_batch()
