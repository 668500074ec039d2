"""The command line: reads words, calls the parts, and turns every refusal into one line and an exit code."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.exceptions import TyperException

from gateways.protocols import PROTOCOLS
from ivsim.commands import mount
from ivsim.interrupt import Interrupted
from ivsim.options import RunOptions, faults_of, mode_of, outage_of, run_options
from schemas.errors import Refusal
from schemas.formats import FORMATS
from simulator.links import LINKS

EXIT_FAILED = 1
EXIT_REFUSED = 2

app = typer.Typer(
    name="ivsim",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="IoV vehicle-to-cloud digital twin simulator: every message accounted for at every hop.",
)
mount(app)

DEFAULTS = RunOptions()


def _default(field: str) -> Any:
    return getattr(DEFAULTS, field)


LINK_NAMES = ", ".join(["auto", *(name for name in LINKS if name != "auto")])


@app.command()
def run(
    protocol: Annotated[str, typer.Option(help=f"One of: {', '.join(PROTOCOLS)}.")] = _default("protocol"),
    qos: Annotated[int | None, typer.Option(help="MQTT: QoS 0, 1 or 2 (default 1).")] = None,
    mqtt_version: Annotated[str | None, typer.Option(help="MQTT: 5 or 3.1.1 (default 5).")] = None,
    ack: Annotated[str | None, typer.Option(help="AMQP: consumer acknowledgement, auto or manual.")] = None,
    confirms: Annotated[
        bool | None, typer.Option("--confirms/--no-confirms", help="AMQP: publisher confirms.")
    ] = None,
    persistent: Annotated[
        bool | None, typer.Option("--persistent/--transient", help="AMQP: messages persistent or not.")
    ] = None,
    con: Annotated[
        bool | None, typer.Option("--con/--non", help="CoAP: confirmable or non-confirmable.")
    ] = None,
    topology: Annotated[
        str, typer.Option(help="gateway (broker, gateway, Kafka, twin) or echo (back to the vehicle's side).")
    ] = _default("topology"),
    vehicles: Annotated[int, typer.Option(help="How many vehicles, 1 to 65000.")] = _default("vehicles"),
    interval: Annotated[float, typer.Option(help="Seconds between two messages of a vehicle.")] = _default(
        "interval_s"
    ),
    duration: Annotated[float, typer.Option(help="Seconds in which messages are due.")] = _default(
        "duration_s"
    ),
    warmup: Annotated[
        float, typer.Option(help="Seconds at the start that are sent and not measured.")
    ] = _default("warmup_s"),
    loss_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds after which a message that arrives is late, and one that did not is lost."
        ),
    ] = _default("loss_timeout_s"),
    format: Annotated[str, typer.Option(help=f"Payload format: {', '.join(FORMATS)}.")] = _default("format"),  # noqa: A002
    trace: Annotated[
        str,
        typer.Option(
            help="A bundled trace (ivsim trace list) or a file; several, with commas between, are driven in turn."
        ),
    ] = _default("trace"),
    trace_offsets: Annotated[
        bool,
        typer.Option(
            "--trace-offsets/--no-trace-offsets", help="Each vehicle starts at its own second of the trace."
        ),
    ] = _default("trace_offsets"),
    rate_factor: Annotated[float, typer.Option(help="Multiplies the trace's rates.")] = _default(
        "rate_factor"
    ),
    loss: Annotated[
        float,
        typer.Option(help="Packet loss ratio per direction, 0 to 1, where the trace has no loss column."),
    ] = _default("loss_ratio"),
    loss_direction: Annotated[
        str, typer.Option(help="Which direction loses: both, uplink or downlink.")
    ] = _default("loss_direction"),
    rtt: Annotated[
        str | None,
        typer.Option(help="Round-trip time in ms, or a bundled trace with RTT; default: the trace's own."),
    ] = None,
    jitter: Annotated[
        float, typer.Option(help="Spread of each packet's delay in ms, around the trace's.")
    ] = _default("jitter_ms"),
    jitter_distribution: Annotated[
        str, typer.Option(help="Its shape: uniform, normal, pareto or paretonormal (netem's tables).")
    ] = _default("jitter_distribution"),
    loss_burst: Annotated[
        float | None,
        typer.Option(
            help="Mean packets of a burst of losses (Gilbert-Elliott); default: independent losses."
        ),
    ] = None,
    reorder: Annotated[float, typer.Option(help="Share of packets that overtake, 0 to 1.")] = _default(
        "reorder_ratio"
    ),
    duplicate: Annotated[
        float, typer.Option(help="Share of packets that come twice; for one vehicle.")
    ] = _default("duplicate_ratio"),
    queue_bytes: Annotated[
        int | None, typer.Option(help="Bytes that may wait for the rate; default: from rate and delay.")
    ] = None,
    link: Annotated[str, typer.Option(help=f"Link back end: {LINK_NAMES}.")] = _default("link"),
    outage: Annotated[
        list[str] | None, typer.Option(help="START:SECONDS without any packet; may be given more than once.")
    ] = None,
    trigger: Annotated[str, typer.Option(help="Spark trigger: realtime or microbatch.")] = _default(
        "trigger"
    ),
    kafka: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Kafka broker; default: one of the run's own.")
    ] = None,
    spark_master: Annotated[
        str | None, typer.Option(help="Spark's master, such as spark://HOST:7077; default: this machine.")
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Serve the live page of the twins while the run goes.")
    ] = False,
    page_port: Annotated[
        int, typer.Option(help="Port of that page on 127.0.0.1; 0 takes a free one.")
    ] = _default("page_port"),
    gateways: Annotated[int, typer.Option(help="Gateway processes that share the vehicles.")] = _default(
        "gateways"
    ),
    early_ack: Annotated[
        bool,
        typer.Option("--early-ack", help="Careless on purpose: acknowledge before Kafka has the record."),
    ] = False,
    security: Annotated[str, typer.Option(help="plain or tls (MQTT, AMQP).")] = _default("security"),
    keepalive: Annotated[
        int,
        typer.Option(
            help="Seconds of MQTT's keep-alive and AMQP's heartbeat: how soon a vehicle sees an outage."
        ),
    ] = _default("keepalive_s"),
    outbox_limit: Annotated[
        int, typer.Option(help="Messages a vehicle keeps while it has no connection.")
    ] = _default("outbox_limit"),
    outbox_policy: Annotated[
        str, typer.Option(help="When it is full: drop_oldest, drop_newest or block.")
    ] = _default("outbox_policy"),
    faults: Annotated[
        str | None, typer.Option(hidden=True, help="Losses on purpose, as JSON; see ivsim.options.Faults.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same messages over the same link.")] = _default(
        "seed"
    ),
    output: Annotated[
        Path | None,
        typer.Option(help="Directory of the result; default results/<run> below the current one."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print metrics.json alone on standard output.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
) -> None:
    """Send messages from a fleet over a replayed cellular link, keep its twins, and account for every message."""
    words = {
        "qos": qos,
        "mqtt_version": mqtt_version,
        "ack": ack,
        "confirms": confirms,
        "persistent": persistent,
        "con": con,
    }
    options = run_options(
        protocol=protocol,
        mode=mode_of(protocol, words),
        topology=topology,
        vehicles=vehicles,
        interval_s=interval,
        duration_s=duration,
        warmup_s=warmup,
        loss_timeout_s=loss_timeout,
        format=format,
        trace=trace,
        trace_offsets=trace_offsets,
        rate_factor=rate_factor,
        loss_ratio=loss,
        loss_direction=loss_direction,
        rtt=rtt,
        jitter_ms=jitter,
        jitter_distribution=jitter_distribution,
        loss_burst=loss_burst,
        reorder_ratio=reorder,
        duplicate_ratio=duplicate,
        queue_bytes=queue_bytes,
        link=link,
        outage=tuple(outage_of(text) for text in outage or ()),
        trigger=trigger,
        kafka=kafka,
        spark_master=spark_master,
        page=page,
        page_port=page_port,
        gateways=gateways,
        early_ack=early_ack,
        security=security,
        keepalive_s=keepalive,
        outbox_limit=outbox_limit,
        outbox_policy=outbox_policy,
        faults={} if faults is None else faults_of(faults),
        seed=seed,
    )
    raise typer.Exit(_run(options, output, as_json=as_json, quiet=quiet))


def _run(options: RunOptions, output: Path | None, *, as_json: bool, quiet: bool) -> int:
    """Run, print the result, and return the exit code."""
    from ivsim.report import print_summary  # noqa: PLC0415 - charts load in a second that --help need not wait
    from ivsim.runner import execute  # noqa: PLC0415

    outcome = execute(options, output, quiet=quiet or as_json)
    if outcome.error is not None:
        print(f"ivsim: {outcome.error}", file=sys.stderr)
    if as_json:
        print(json.dumps(outcome.metrics, indent=2, sort_keys=True))
    elif outcome.metrics:
        title = f"{options.protocol} {options.mode}, {options.vehicles} vehicles"
        print_summary(Console(), outcome.metrics, title, outcome.report)
    return outcome.exit_code


@app.command()
def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed runs left behind.")] = False,
) -> None:
    """Say what is installed, what is missing and how to get it, and which link works here."""
    from ivsim.doctor import doctor as examine  # noqa: PLC0415

    raise typer.Exit(examine(clean=clean))


@app.command()
def version() -> None:
    """Print the version."""
    print(f"ivsim {metadata.version('ivsim')}")


def main() -> None:
    """Run the command line; exit code 2 and one line for everything that is refused."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        message = error.format_message()
        if message:
            print(f"ivsim: {_one_line(message)} (see ivsim --help)", file=sys.stderr)
        sys.exit(EXIT_REFUSED if message else 0)
    except Refusal as refusal:
        print(f"ivsim: {_one_line(str(refusal))}", file=sys.stderr)
        sys.exit(EXIT_REFUSED)
    except KeyboardInterrupt:
        sys.exit(130)
    except Interrupted as interrupted:  # while a run was closing what it had opened: that is done by now
        print(f"ivsim: stopped by {interrupted}", file=sys.stderr)
        sys.exit(128 + interrupted.number)
    sys.exit(code if isinstance(code, int) else 0)


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
