"""Builds and reads rtnetlink messages for traffic control, byte by byte; it opens no socket."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

REQUEST: Final = 1
ACK: Final = 4
ROOT_DUMP: Final = 0x300
CREATE, CREATE_EXCLUSIVE = 0x400, 0x600

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NEWLINK = 16
NEWADDR, NEWROUTE, NEWNEIGH = 20, 24, 28
NEWQDISC, GETQDISC = 36, 38
NEWCLASS = 40
NEWFILTER = 44

ETH_P_IP: Final = 0x0800
TC_ROOT: Final = 0xFFFFFFFF
CLSACT: Final = 0xFFFFFFF1
CLSACT_HANDLE: Final = 0xFFFF0000
CLSACT_INGRESS, CLSACT_EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
TICK_NS: Final = 64  # PSCHED_SHIFT 6 in every kernel since 2.6.31; read back from /proc/net/psched

_HEADER = struct.Struct("=IHHII")
TC = struct.Struct("=BBHiIII")
_U32_MAX: Final = 0xFFFFFFFF
_TOGETHER: Final = 256


def attribute(kind: int, payload: bytes) -> bytes:
    """Return one rtattr, padded to four bytes."""
    size = 4 + len(payload)
    return struct.pack("=HH", size, kind) + payload + b"\0" * (-size % 4)


def u32(kind: int, value: int) -> bytes:
    return struct.pack("=HHI", 8, kind, value)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a request with sequence 0; `sequenced` gives it a number."""
    return _HEADER.pack(_HEADER.size + len(body), kind, REQUEST | flags, 0, 0) + body


def sequenced(messages: list[bytes], first: int, *, acknowledge_all: bool = False) -> bytes:
    """Join messages, numbering them from `first`; the last one asks for an acknowledgement.

    The kernel answers a failed request whether it asked or not, so one ACK is enough to know the end.
    """
    out = bytearray()
    last = len(messages) - 1
    for index, one in enumerate(messages):
        start = len(out)
        out += one
        flags = struct.unpack_from("=H", one, 6)[0]
        if index == last or acknowledge_all:
            flags |= ACK
        struct.pack_into("=HI", out, start + 6, flags, first + index)
    return bytes(out)


class Reply(NamedTuple):
    sequence: int
    errno: int  # 0 acknowledges
    reason: str


def errors(block: bytes) -> list[Reply]:
    """Return every NLMSG_ERROR in a block of replies, acknowledgements too."""
    replies = []
    for kind, sequence, start, end in messages(block):
        if kind == NLMSG_ERROR:
            errno = -struct.unpack_from("=i", block, start)[0]
            replies.append(Reply(sequence, errno, _extended_reason(block, start, end)))
    return replies


def _extended_reason(block: bytes, start: int, end: int) -> str:
    """Return the kernel's own words (NLMSGERR_ATTR_MSG), empty where it gave none."""
    flags = struct.unpack_from("=H", block, start - _HEADER.size + 6)[0]
    if not flags & 0x200:  # NLM_F_ACK_TLVS
        return ""
    # The request's header follows the error number, and the whole request unless NLM_F_CAPPED.
    request = _HEADER.size if flags & 0x100 else struct.unpack_from("=I", block, start + 4)[0]
    offset = start + 4 + (request + 3 & ~3)
    return attributes(block, offset, end).get(1, b"").rstrip(b"\0").decode(errors="replace")


def closes(block: bytes, last: int) -> bool:
    """Return whether a part of the replies holds the end of the answer to sequence number `last`."""
    return any(
        sequence == last and kind in (NLMSG_ERROR, NLMSG_DONE) for kind, sequence, _s, _e in messages(block)
    )


def kind_of(packed: bytes) -> str:
    """Return the words for a request in an error: its TCA_KIND, or its message type."""
    kind = struct.unpack_from("=H", packed, 4)[0]
    if kind not in (NEWQDISC, NEWCLASS, NEWFILTER):
        return f"message type {kind}"
    noun = {NEWQDISC: "qdisc", NEWCLASS: "class", NEWFILTER: "filter"}[kind]
    found = attributes(packed, _HEADER.size + TC.size, len(packed))
    return f"{noun} {found[1].rstrip(bytes(1)).decode()}"


def messages(block: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (type, sequence number, start and end of the body) of every message in a block."""
    offset = 0
    while offset + _HEADER.size <= len(block):
        size, kind, _flags, sequence, _pid = _HEADER.unpack_from(block, offset)
        if size < _HEADER.size:
            return
        yield kind, sequence, offset + _HEADER.size, offset + size
        offset += (size + 3) & ~3


def bodies(block: bytes, kind: int) -> dict[int, npt.NDArray[np.int64]]:
    """Return where the bodies of all messages of a type begin, by their length; what is cut off at the end is left out.

    Messages of a kind that follow each other have one length: such a run is found at once, not message by message.
    """
    found: dict[int, list[npt.NDArray[np.int64]]] = {}
    words = np.frombuffer(block, "=u4", len(block) // 4)
    offset = 0
    while offset + _HEADER.size <= len(block):
        size, this, *_ = _HEADER.unpack_from(block, offset)
        if size < _HEADER.size or offset + size > len(block):
            break
        step = (size + 3) & ~3
        alike = _alike(words[offset // 4 :], step // 4)
        if this == kind:
            starts = offset + _HEADER.size + step * np.arange(alike)
            found.setdefault(size - _HEADER.size, []).append(starts)
        offset += step * alike
    return {length: np.concatenate(starts) for length, starts in found.items()}


def _alike(words: npt.NDArray[np.uint32], step: int) -> int:
    """Return how many messages of `step` words from the first on have its length, type and flags, one at least."""
    rows = len(words) // step
    lengths, types = words[: rows * step : step], words[1 : rows * step : step]
    count = 1
    while count < rows:  # in pieces: a run is mostly much shorter than the block
        part = slice(count, count + _TOGETHER)
        differ = np.flatnonzero((lengths[part] != lengths[0]) | (types[part] != types[0]))
        if len(differ):
            return count + int(differ[0])
        count = min(rows, count + _TOGETHER)
    return count


def attributes(block: bytes, offset: int, end: int) -> dict[int, bytes]:
    """Return the rtattrs between two offsets by kind."""
    found = {}
    while offset + 4 <= end:
        size, kind = struct.unpack_from("=HH", block, offset)
        if size < 4:
            break
        found[kind & 0x3FFF] = block[offset + 4 : offset + size]
        offset += (size + 3) & ~3
    return found


def _tc(  # noqa: PLR0917 - the fields of tcmsg in their order
    kind: int, flags: int, device: int, handle: int, parent: int, rest: bytes, info: int = 0
) -> bytes:
    return message(kind, flags, TC.pack(0, 0, 0, device, handle, parent, info) + rest)


def dump(kind: int, device: int) -> bytes:
    """Return a request for all qdiscs or classes; the kernel filters classes by device, qdiscs not."""
    return _tc(kind, ROOT_DUMP, device, 0, 0, b"")


def htb_root(device: int, default: int) -> bytes:
    """Return: HTB at the root as 1:; unclassified packets go to class 1:`default` (0: straight through)."""
    glob = struct.pack("=IIIII", 3, 10, default, 0, 0)
    options = attribute(2, attribute(2, glob) + u32(5, 1000))
    return _tc(NEWQDISC, CREATE_EXCLUSIVE, device, 1 << 16, TC_ROOT, text(1, "htb") + options)


# Header, tcmsg, kind, options { TCA_HTB_PARMS { rate, ceil, buffer, cbuffer, quantum, level, prio } } at
# once: an update of 1,000 vehicles builds 4,000 messages, and packing them in pieces took half of its time.
_HTB_CLASS = struct.Struct("=IHHII BBHiIII HH4s HH HH BBHhHI BBHhHI IIIII")


def htb_class(device: int, minor: int, rate_bytes: int, burst_ticks: int, *, create: bool) -> bytes:
    """Return: class 1:minor, rate = ceil in bytes/s, `burst_ticks` of credit at most (64 ns each)."""
    # linklayer 1 (Ethernet) tells the kernel to compute times itself: no rate table is needed.
    rate = min(rate_bytes, _U32_MAX)
    size = _HTB_CLASS.size
    flags = REQUEST | (CREATE_EXCLUSIVE if create else 0)
    packed = _HTB_CLASS.pack(
        size, NEWCLASS, flags, 0, 0, 0, 0, 0, device, 0x10000 | minor, 0x10000, 0,
        8, 1, b"htb\0", size - 44, 2, size - 48, 1, 0, 1, 0, -1, 0, rate, 0, 1, 0, -1, 0, rate,
        burst_ticks, burst_ticks, 1514, 0, 0,
    )  # fmt: skip
    if rate_bytes <= _U32_MAX:
        return packed
    wide = struct.pack("=Q", rate_bytes)
    return _grown(packed, 44, attribute(6, wide) + attribute(7, wide))


def _grown(packed: bytes, options: int, more: bytes) -> bytes:
    """Return a message with attributes added to the options that start at byte `options`, its last part."""
    out = bytearray(packed + more)
    struct.pack_into("=I", out, 0, len(out))
    struct.pack_into("=H", out, options, len(out) - options)
    return bytes(out)


def flow_filter(device: int, key: int) -> bytes:
    """Return the one filter of a device: class minor = low 16 bits of an address, plus one.

    Args:
        device: interface index.
        key: 0 for the source address, 1 for the destination (FLOW_KEY_SRC, FLOW_KEY_DST).
    """
    options = u32(1, 1 << key) + u32(2, 0) + u32(3, 0x10001) + u32(6, 0xFFFF) + u32(7, 0)
    info = (1 << 16) | _swap(ETH_P_IP)
    return _tc(NEWFILTER, CREATE_EXCLUSIVE, device, 1, 1 << 16, text(1, "flow") + attribute(2, options), info)


def _swap(value: int) -> int:
    return (value & 0xFF) << 8 | value >> 8


# struct tcmsg: tcm_ifindex, tcm_handle and tcm_parent, behind the header and the family.
_PLACE, _PLACE_AT = np.dtype([("device", "=i4"), ("handle", "=u4"), ("parent", "=u4")]), 20
_FLAGS_AT, _SEQUENCE_AT = 6, 8


def places(device: npt.ArrayLike, handle: npt.ArrayLike, parent: npt.ArrayLike) -> npt.NDArray[np.void]:
    """Return where qdiscs or classes are, for `placed`."""
    columns = np.broadcast_arrays(device, handle, parent)
    found = np.empty(len(columns[0]), _PLACE)
    for name, column in zip(_PLACE.names or (), columns, strict=True):
        found[name] = column
    return found


def placed(messages: Sequence[bytes], at: npt.NDArray[np.void]) -> bytes:
    """Join messages as `sequenced` does from number 1 on, each for its own place, whatever place it was made for."""
    block = np.frombuffer(bytearray(b"".join(messages)), np.uint8)
    ends = np.cumsum([len(message) for message in messages])
    starts = np.concatenate(([0], ends[:-1]))
    numbers = np.arange(1, len(messages) + 1, dtype="=u4")
    block[starts[:, None] + np.arange(_SEQUENCE_AT, _SEQUENCE_AT + 4)] = numbers.view(np.uint8).reshape(-1, 4)
    block[starts[:, None] + np.arange(_PLACE_AT, _PLACE_AT + _PLACE.itemsize)] = at.view(np.uint8).reshape(
        -1, _PLACE.itemsize
    )
    block[starts[-1] + _FLAGS_AT] |= ACK
    return block.tobytes()


def or_made(leaf: bytes) -> bytes:
    """Return the message of a qdisc as one that makes it if there is none."""
    return leaf[:_FLAGS_AT] + struct.pack("=H", REQUEST | CREATE) + leaf[_FLAGS_AT + 2 :]


PLUG_BUFFER, PLUG_RELEASE, PLUG_LIMIT = 0, 2, 3


def plug(device: int, minor: int, action: int, limit_bytes: int, *, create: bool) -> bytes:
    """Return: plug leaf `minor`: under class 1:minor, a byte-limited queue that can be held and released."""
    flags = CREATE_EXCLUSIVE if create else 0
    rest = text(1, "plug") + attribute(2, struct.pack("=iI", action, limit_bytes))
    return _tc(NEWQDISC, flags, device, minor << 16, (1 << 16) | minor, rest)


def clsact(device: int) -> bytes:
    """Return: the hooks before and behind a device's queue."""
    return _tc(NEWQDISC, CREATE_EXCLUSIVE, device, CLSACT_HANDLE, CLSACT, text(1, "clsact"))


def redirect(device: int, hook: int, match: tuple[int, int, int], priority: int, target: int) -> bytes:
    """Return: packets of a hook whose IP header matches go to device `target`.

    Args:
        device: interface index.
        hook: CLSACT_INGRESS or CLSACT_EGRESS.
        match: value, mask and offset of the 32 bits compared, from the IP header's start.
        priority: filters are tried in its order.
        target: interface index of the device whose egress takes the packet.
    """
    value, mask, offset = match
    # struct tc_u32_sel with one key, terminal; struct tc_mirred: redirect to egress, the packet is stolen.
    selector = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0)
    selector += struct.pack(">II", mask, value) + struct.pack("=ii", offset, 0)
    mirred = struct.pack("=IIiiiiI", 0, 0, 4, 0, 0, 1, target)
    action = text(1, "mirred") + attribute(2, attribute(2, mirred))
    options = attribute(5, selector) + attribute(7, attribute(1, action))
    info = (priority << 16) | _swap(ETH_P_IP)
    return _tc(NEWFILTER, CREATE_EXCLUSIVE, device, 0, hook, text(1, "u32") + attribute(2, options), info)


class NetemOptions(NamedTuple):
    """netem's parameters in the kernel's units."""

    delay_ticks: int = 0
    limit_packets: int = 1000
    loss: int = 0  # of 2**32 - 1
    jitter_ticks: int = 0
    rate_bytes: int = 0  # 0: no rate
    gap: int = 0
    duplicate: int = 0
    reorder: int = 0
    table: bytes = b""  # int16 values of a delay distribution
    gilbert_elliott: tuple[int, int, int, int] | None = None  # p, r, h, k1 as struct tc_netem_gemodel


# Header, tcmsg, kind, options { tc_netem_qopt, TCA_NETEM_RATE, TCA_NETEM_REORDER } at once.
_NETEM = struct.Struct("=IHHII BBHiIII HH8s HH IIIIII HHIiIi HHII")
_NETEM_OPTIONS: Final = 48


def netem(device: int, minor: int, options: NetemOptions, *, create: bool) -> bytes:
    """Return: netem leaf `minor`: under class 1:minor with every parameter given.

    The rate is always sent (a change without it keeps the old one), and so is the reordering (a gap without
    it means "all but every gap-th").
    """
    o = options
    size = _NETEM.size
    flags = REQUEST | (CREATE_EXCLUSIVE if create else 0)
    packed = _NETEM.pack(
        size, NEWQDISC, flags, 0, 0, 0, 0, 0, device, minor << 16, 0x10000 | minor, 0,
        10, 1, b"netem\0", size - _NETEM_OPTIONS, 2,
        o.delay_ticks, o.limit_packets, o.loss, o.gap, o.duplicate, o.jitter_ticks,
        20, 6, min(o.rate_bytes, _U32_MAX), 0, 0, 0, 12, 3, o.reorder, 0,
    )  # fmt: skip
    more = b""
    if o.rate_bytes > _U32_MAX:
        more += attribute(8, struct.pack("=Q", o.rate_bytes))  # TCA_NETEM_RATE64
    if o.table:
        more += attribute(2, o.table)
    if o.gilbert_elliott is not None:
        # TCA_NETEM_LOSS (5) nested: NETEM_LOSS_GE (2).
        more += attribute(5 | 0x8000, attribute(2, struct.pack("=IIII", *o.gilbert_elliott)))
    return _grown(packed, _NETEM_OPTIONS, more) if more else packed
