"""The result of a run whose own process was killed: made of the logs, tables and Kafka records that it has left.

Parts of a run end in order when their owner is gone, each with its log whole and its last words in a file. So a killed
run lacks what its owner alone knew (the live figures, the drift of the clocks) and the work that comes behind: that is
done here. Nothing is removed before all of it is made: who is stopped on the way begins anew.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.library.folder import goes_on
from ivsim.library.report_anew import built_ledger
from ivsim.option_rules import past_options
from ivsim.options import RunOptions
from ivsim.runs.accounting import remove_work
from ivsim.runs.checksums import write_checksums
from ivsim.runs.children import last_words_of
from ivsim.runs.directory import SCHEMA, RunDirectory
from ivsim.runs.endpoints import KafkaAddress, login_of
from ivsim.runs.kafka_log import NOT_KEPT, keep
from ivsim.runs.link_player import LINK_ROWS
from ivsim.runs.link_player import NAME as REPLAY
from ivsim.runs.processes import CONSUMER, ECHO, SENDER, gateway_places
from ivsim.runs.result import ledger_config, write_result
from ivsim.runs.snapshot import Facts, note, write_snapshot
from ivsim.testbed import leftovers
from ivsim.testbed.kafka_cluster import bootstrap_of, kafka_cluster
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.json_files import read_json
from schemas.topics import KafkaTopics, gateway_id
from simulator.capture.process import CATEGORIES_NAME, HANDSHAKES_NAME, LOG_NAME, MESSAGES_NAME, TABLE_NAME
from simulator.capture.second_log import to_table
from simulator.emission_log import Kind
from simulator.emission_table import read_events
from simulator.links.row_file import RowFile
from twin.queries import answers

KILLED: Final = "the run's own process was killed"
# A gateway waits so long for a Kafka that does not answer any more, and some seconds are its leave.
PATIENCE_S: Final = 30.0
_NO_LOG: Final = f"{NOT_KEPT}: the run has left no log of Kafka"


def finish(directory: Path, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Make the result of a run that was killed; return its metrics, which are partial.

    Refusal, and nothing changed, for a run that goes on, and for one that cannot be accounted for without its owner.
    """
    run = RunDirectory(directory.absolute())
    manifest = read_json(run.manifest)
    if manifest.get("schema") != SCHEMA:
        raise Refusal(f"{run.manifest}: schema {manifest.get('schema')!r}: this version reads {SCHEMA}")
    if goes_on(directory):
        raise Refusal(f"{directory}: the run goes on")
    options = past_options(manifest["options"])
    if options.agents:
        raise Refusal(
            f"{directory}: killed; the logs of its agents' vehicles went with it, and so did their times"
        )
    # What an earlier attempt has left is the run's, too.
    own = (manifest["run"], f"{manifest['run']}-report-")
    left = [one for one in leftovers.find() if one.run_id == own[0] or one.run_id.startswith(own[1])]
    if any(one.processes for one in left):
        say("waiting for its parts to end")
    leftovers.end_processes(left, PATIENCE_S)
    if not run.sums.is_file():
        try:
            _make_result(run, options, manifest, say)
        except OSError as error:
            raise Refusal(f"{directory}: {error.strerror or error}") from None
    remove_work(run)
    leftovers.clean(left)
    return read_json(run.metrics)


def _make_result(
    run: RunDirectory, options: RunOptions, manifest: dict[str, Any], say: Callable[[str], None]
) -> None:
    problems = [KILLED]
    if not run.snapshot.is_file():
        say("reading the logs of its parts")
        problems += _capture_tables(run)
        write_snapshot(run, options, RowFile(run.work / LINK_ROWS), _facts(run, options, manifest))
    if TOPOLOGIES[options.topology].twins and not run.kafka_records.is_file():
        say("reading Kafka's log")
        problems += _kafka_records(run, options, manifest["run"])
    if options.query != "none" and not (run.path / answers.ANSWERS).is_file():
        answers.collect(run.path)
    note(run, problems=problems)
    figures = built_ledger(ledger_config(run.path, options), say)
    say("working out the figures")
    write_result(run, figures)
    write_checksums(run)


def _facts(run: RunDirectory, options: RunOptions, manifest: dict[str, Any]) -> Facts:
    shards = int(manifest["sender"]["shards"])
    senders = [SENDER] if shards == 1 else [f"{SENDER}-{index}" for index in range(shards)]
    topology = TOPOLOGIES[options.topology]
    gateways = (
        [gateway_id(index) for index in range(len(gateway_places(options)))] if topology.bridged else []
    )
    if topology.echoed and options.parts[0].protocol.broker is None:
        gateways = [ECHO]
    start_at_ns = int(manifest["start_at_ns"])
    player = _last_words(run, REPLAY)
    return Facts(
        start_at_ns=start_at_ns,
        stop_at_ns=_last_event_at_ns(run.emission_logs(), start_at_ns),
        replay=player.get("replay") if (run.work / LINK_ROWS).is_file() else None,
        senders=[_last_words(run, name) for name in senders],
        gateways=[_last_words(run, name) for name in gateways],
        consumer=_last_words(run, CONSUMER) if topology.bridged and not topology.twins else None,
        refused_gateways=[
            f"{name} was refused {count} times"
            for name in gateways
            if (count := _last_words(run, name).get("connections_refused"))
        ],
        problems=[failure] if (failure := player.get("failure")) else [],
    )


def _last_words(run: RunDirectory, name: str) -> dict[str, Any]:
    """Return what a part said at its end; nothing of one that was killed itself."""
    try:
        found = json.loads(last_words_of(run.work, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_event_at_ns(logs: Sequence[Path], start_at_ns: int) -> int:
    """Return when a sender noted something last: until then the run is known to have gone on."""
    events = read_events(logs)
    return int(events["at_ns"][events["kind"] != Kind.WORDS].max(initial=start_at_ns))


def _capture_tables(run: RunDirectory) -> list[str]:
    """Take out what a killed capture has left of its tables, and count its frames by its log; return what is missing."""
    missing = []
    for name in (TABLE_NAME, MESSAGES_NAME, CATEGORIES_NAME, HANDSHAKES_NAME):
        path = run.path / name
        try:
            pq.read_schema(path)
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowInvalid):
            path.unlink()
            missing.append(f"{name}: cut off")
    counts, table = run.path / LOG_NAME, run.path / TABLE_NAME
    if counts.is_file() and not table.is_file():
        pq.write_table(to_table(counts), table)
    return missing


def _kafka_records(run: RunDirectory, options: RunOptions, run_id: str) -> list[str]:
    """Keep what Kafka held, there or in the log that the run's own has left; return why it cannot be, if so."""
    try:
        if options.kafka is not None:
            topics = KafkaTopics(f"{options.kafka_topic_prefix}{run_id}.")
            keep(KafkaAddress(options.kafka, topics, login_of(options)), run.kafka_records)
            return []
        logs = sorted((path.parent for path in run.work.glob("kafka*/log/meta.properties")), key=_node)
        if not logs:
            return [_NO_LOG]
        attempt = f"report-{secrets.token_hex(3)}"
        with (
            RunRecord(f"{run_id}-{attempt}", run.work / attempt, run.logs) as record,
            kafka_cluster(record, len(logs), storages=logs) as servers,
        ):
            keep(KafkaAddress(bootstrap_of(servers)), run.kafka_records)
    except (NotReady, ProcessDied, Refusal) as error:
        words = str(error).partition("\n")[0]
        return [words if words.startswith(NOT_KEPT) else f"{NOT_KEPT}: {words}"]
    return []


def _node(log: Path) -> int:
    """Return the id of the broker whose log it is."""
    lines = (log / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next((int(line.partition("=")[2]) for line in lines if line.startswith("node.id=")), 0)
