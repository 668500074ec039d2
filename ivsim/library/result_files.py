"""docs/results.md, every file and column of a run's result: `python -m ivsim.library.result_files > docs/results.md`.

Names and types come from where the tables are written; a column that is there and not described here fails a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ivsim.markdown_table import table
from ledger.metrics import METRICS
from ledger.sources import KEPT_HEADERS

HEAD: Final = """# The files of a result

Made from the code by `python -m ivsim.library.result_files`; a test holds it to what a run writes. A result is a
directory, `results/<run>/`. `ivsim export` writes the tables as CSV, Parquet or JSON ([library.md](library.md)).
Times `*_at_ns` are nanoseconds since 1970 by the host's one clock, `*_ns` nanoseconds, and every other unit is in the
name. In `manifest.json`, `run.json` and `decisions-0.jsonl` such a time, and a seed, is a number that may be above 2^53:
read them with what keeps whole numbers, as Python does; jq and JavaScript change them. **Null is not 0**: it says that a
thing did not happen or was not measured, as given below. What the steps of a message's way are called stands in the
[glossary](glossary.md).
"""
FILES: Final[Mapping[str, str]] = {
    "report.html": "the report, one file that opens offline",
    "metrics.json": (
        "every figure below, null where it is undefined; `certificate`, `validity`, `partial`, `partial_reason`; with"
        " `--mix` `parts`, some of them for each protocol's vehicles; with `--agent` `agents`, as in `run.json`;"
        " with `--query` `query`, the share of answers in time and their latency; with `--topology ingest` `platform`, CPU and"
        " memory of the platform's servers"
    ),
    "manifest.json": (
        "options, name and tags with them, seed, versions, machine, what the link is, how long a record waits for others at a"
        " gateway, the times of the run's phases"
    ),
    "run.json": "start, end of the schedule and of a run that was stopped, warm-up, the largest backlog; senders that died, those"
    " that were lost with their agent, and how each ended; of each agent what it had, how far its clock was ahead before and behind"
    " the run, with what uncertainty, and why it was lost; the replay's own account, the last figures of senders, gateways and"
    " consumer, what went wrong, and how the live figures compare. It is written when the parts have stopped: of it and the logs"
    " all else is made",
    "clock.json": "how far the wall clock moved against the monotonic clock, and is from UTC at most",
    "live.json": "the last live figures of the run, which the ledger is compared with",
    "link_proof.json": "the checks of the seconds driven through the link again behind the run (`--no-probe`, `--prove-link`)",
    "emissions.events": "the senders' log as it grew, binary; `emissions-0.events` and so on of several senders",
    "received-0.events": "a gateway's log as it grew, binary; one a gateway",
    "confirmed-0.events": "with `--topology ingest`: what the platform has confirmed, as it grew, binary; one a gateway",
    "consumed-0.events": "with `--topology ingest`: what the consumer had, as it grew, binary",
    "in-flight-0.events": (
        "with `--topology edge`: what a gateway had sent, and Kafka had not answered, when it ended; one a gateway"
    ),
    "decisions-0.jsonl": (
        "where `--batching` names a policy that chooses: a line of JSON a decision of a gateway, with rule, reason and what it"
        " was made of; one file a gateway ([batching.md](batching.md#the-decisions))"
    ),
    "wire.events": "the capture's counts as they grew, binary",
    "frames.pcap": "every frame at the vehicles' end, with `--pcap`",
    "logs/": "what each process said",
    "SHA256SUMS": "of all files, by which `ivsim audit` knows that nobody changed them",
}


class Table(NamedTuple):
    """One table: what a row is, and each column with its meaning, what its null says included."""

    row: str
    columns: Mapping[str, str]


_MESSAGE: Final = {
    "vehicle_id": "of the vehicle; with `epoch` and `sequence` the message's name",
    "epoch": "how often the vehicle has begun anew",
    "sequence": "of the message within its vehicle and epoch",
}
_STAMPS: Final = {
    "sampled_at_ns": "when the reading was taken",
    "due_at_ns": "when the message was due by the schedule",
    "emitted_at_ns": "when it was handed to the client library; null: never, or the sender died first",
    "acknowledged_at_ns": "when the protocol's last acknowledgement came; null: none did, or the mode has none",
    "refused_at_ns": "when the peer said that it will not keep it; null: it did not",
    "refused_reason": "what the peer said; null: nothing",
    "unanswered_at_ns": "when the vehicle gave it up without a word of the peer; null: it did not",
    "reached_cloud_at_ns": "when TCP, or CoAP's answer, proves that the broker's host has all of it; null: not proven",
    "received_at_ns": "when its end took it in, the gateway or an echo's receiver; null: never seen there",
    "payload_bytes": "of the reading, encoded; null: never emitted",
    "unsent_reason": "why the client would not take it; null: it did",
    "buffered": "it could not go when it was due, and waited in the vehicle",
}
_ASKED: Final = "null: the replay did not play this second, in which the capture saw frames"
_COUNTED: Final = "null: the capture was not read"
TABLES: Final[Mapping[str, Table]] = {
    "ledger": Table(
        "a message of the schedule",
        {
            **_MESSAGE,
            **_STAMPS,
            "appended_at_ns": "when Kafka appended its first record, with `--topology ingest` when the platform confirmed it to the"
            " gateway; null: no record",
            "applied_at_ns": "when Kafka appended the twin's first state that contains it, with `--topology ingest` when the"
            " consumer had it; null: none does",
            "copies": "records of it in Kafka, or at the consumer; null: none, or they were not read",
            "rejected_reason": "why the twin would not take its record; null: it did, or there is no record",
            "unsent_reason": "why the client would not take it (run_stopped: not due yet when the run stopped); null: it did",
            "fate": "delivered, late, lost, refused, unsent or unknown",
            "hop": "where a lost message was last seen, or who refused one; null for every other fate",
            "in_window": "it counts: due after the warm-up and a loss timeout before the stop",
            "emission_lag_ns": "emitted - due; null: never emitted",
            "one_way_delay_ns": "received - emitted; null: not delivered",
            "bridge_delay_ns": "appended - received; null: not delivered, or an echo",
            "processing_delay_ns": "applied - appended; null: not delivered, an echo, or `--topology ingest`",
            "end_to_end_latency_ns": "applied - due; null: not delivered, or an echo",
            "acknowledgement_time_ns": "acknowledged - emitted; null: not acknowledged",
        },
    ),
    "emissions": Table(
        "a message of the schedule, as the vehicles saw it",
        {
            **_MESSAGE,
            **_STAMPS,
            "received_at_ns": "when it came back to the receiver beside its vehicle; null: it did not, or no echo",
            "refused_by": "who refused it, broker or gateway; null: nobody",
            "held_back": "true: the client was given it and never put a byte of it on the wire; null: not so, or not known",
        },
    ),
    "received": Table(
        "a message that a gateway took in",
        {**_MESSAGE, "received_at_ns": "when it had all of it"},
    ),
    "in_flight": Table(
        "a message that a gateway at the edge had sent, and Kafka had not answered, when the gateway ended",
        {**_MESSAGE, "noted_at_ns": "when the gateway ended"},
    ),
    "confirmed": Table(
        "a message that the platform has confirmed to a gateway, with `--topology ingest`",
        {**_MESSAGE, "confirmed_at_ns": "when the gateway had the confirmation"},
    ),
    "consumed": Table(
        "a record that the consumer had, with `--topology ingest`; a message that came twice has two",
        {**_MESSAGE, "consumed_at_ns": "when it had it"},
    ),
    "connections": Table(
        "a step of a vehicle's connection",
        {
            "vehicle_id": "of the vehicle",
            "event": "connect_due (only with --connect-rate), connecting, connected, connect_failed, disconnected",
            "at_ns": "when",
            "handshake_ns": "from the attempt to connected; null for every other step",
            "session_present": "the peer still had the vehicle's session; null for every other step than connected",
            "backlog": "messages that waited in the vehicle then",
        },
    ),
    "link": Table(
        "a second (-1: before the start), vehicle and direction",
        {
            "second": "since the start",
            "vehicle_id": "of the vehicle; with `--topology edge` the gateway, whose link it is",
            "direction": "uplink or downlink",
            "asked_rate_bps": "rate asked of the link; null: no limit, or the replay did not play this second",
            "asked_delay_ms": f"one-way delay; {_ASKED}",
            "asked_loss_ratio": f"share of packets lost; {_ASKED}",
            "asked_jitter_ms": f"spread of the delay; {_ASKED}",
            "asked_reorder_ratio": f"share of packets that overtake; {_ASKED}",
            "asked_burst_packets": f"mean length of a burst of losses; {_ASKED}",
            "applied_at_ns": f"when the change was made; {_ASKED}",
            "update_ms": f"how long the change took; {_ASKED}",
            "counted_at_ns": "when the kernel's counters were read; null: they were not",
            "qdisc_bytes": "that left the link's queue, frames; null: not counted",
            "qdisc_packets": "that left it; null: not counted",
            "drops": "packets that the link lost, by loss; null: not counted",
            "queue_drops": "packets that found its queue full; null: not counted",
            "backlog_bytes": "in the queue at the second's end; null: not counted",
            "probe_sent": f"the link's own probes sent; {_ASKED}",
            "probe_received": f"of those, received; {_ASKED}",
            "probe_delay_ms": "their one-way delay; null: none came",
            "probe_bytes": f"their bytes that the capture saw, IP headers included; {_ASKED}",
            "wire_bytes": f"captured, IP headers included; {_COUNTED}",
            "wire_packets": f"captured packets; {_COUNTED}",
            "retransmitted_bytes": f"of TCP, sent again; {_COUNTED}",
            "pure_ack_packets": f"of TCP, which only acknowledge; {_COUNTED}",
            "keep_alive_packets": f"of TCP; {_COUNTED}",
        },
    ),
    "kafka_records": Table(
        "a record of `vehicle.status` or `twin.state`, without its payload",
        {
            "topic": "without the run's prefix",
            "partition": "of the topic",
            "offset": "in the partition",
            "appended_at_ns": "Kafka's stamp, whole milliseconds",
            "key": "raw bytes (as hexadecimal digits in CSV and JSON); null: none",
            "value_bytes": "length of the value; null: no value",
            "value_has_key": "the key's bytes are somewhere in the value",
            **{
                f"header_{name}": "raw bytes of the last header of that name; null: none"
                for name in KEPT_HEADERS
            },
        },
    ),
    "wire": Table("a second, vehicle and direction, of captured frames", {}),
    "answers": Table(
        "an answer of `--query`; of a message that came twice there may be two",
        {
            **_MESSAGE,
            "station": "the nearest one, by its name in the file of stations",
            "distance_m": "to it, along the great circle",
            "answered_at_ns": "when the answer was there",
        },
    ),
    "wire_categories": Table("a phase, vehicle, direction, purpose and layer, with its bytes", {}),
    "wire_messages": Table("a message found in the captured bytes", {}),
    "wire_handshakes": Table("a handshake of TLS or DTLS", {}),
}


def reference() -> str:
    """Return the document."""
    parts = [
        HEAD,
        "## Files\n\n" + table(("File", "What it holds"), [(f"`{n}`", w) for n, w in FILES.items()]),
    ]
    for name, kept in TABLES.items():
        title = f"## `{name}.parquet`: one row is {kept.row}\n\n"
        if kept.columns:
            parts.append(
                title + table(("Column", "Meaning"), [(f"`{c}`", m) for c, m in kept.columns.items()])
            )
        else:
            parts.append(
                title + "Its columns, and what is counted in which: [wire-bytes.md](wire-bytes.md).\n"
            )
    rows = [
        (f"`{m.name}`", "" if m.unit == "1" else m.unit, m.population, m.meaning) for m in METRICS.values()
    ]
    parts.append("## Figures of `metrics.json`\n\n" + table(("Figure", "Unit", "Of which", "Meaning"), rows))
    return "\n".join(parts)


if __name__ == "__main__":
    print(reference(), end="")
