"""`ivsim chaos`: kill or cut a part in the middle of a run and check what the mode promised."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gateways.protocols import PROTOCOLS, protocol_named
from gateways.sinks import CONFLUENT, KAFKA, PLATFORMS, SINKS
from ivsim.chaos.campaign import Campaign
from ivsim.chaos.campaign_run import run_again, run_campaign
from ivsim.chaos.case import Case, run_case
from ivsim.chaos.faults import FAULTS
from ivsim.chaos.promises import Judgement
from ivsim.chaos.schedule import read as read_schedule
from ivsim.chaos.table import Judged, print_tables
from ivsim.commands.files import writing
from ivsim.option_rules import run_options
from ivsim.runs.interrupt import interruptible
from ivsim.runs.preflight import check_client, check_deliveries
from ivsim.runs.testbed import Testbed
from ledger.metrics import FATES
from schemas.errors import Refusal
from schemas.json_files import write_json
from schemas.topics import MAX_GATEWAYS

RESULTS = "chaos.json"
INTERRUPTED = 128  # a shell's exit codes above it name a signal


def cases_of(
    protocol: str | None,
    mode: str | None,
    fault: str | None,
    gateways: int = 1,
    kafka_client: str = CONFLUENT,
    platform: str | None = None,
) -> list[Case]:
    """Return the cases that the words choose; Refusal for a word no table has."""
    if platform is not None:
        _check_platform(platform, kafka_client)
    if kafka_client not in SINKS:
        raise Refusal(f"--kafka-client {kafka_client!r}: allowed are {', '.join(SINKS)}")
    check_client(kafka_client)
    if not 1 <= gateways <= MAX_GATEWAYS:
        raise Refusal(f"--gateways {gateways}: allowed are 1 to {MAX_GATEWAYS}")
    rows = PROTOCOLS.values() if protocol is None else (protocol_named(protocol, "--protocol"),)
    if fault is not None and fault not in FAULTS:
        raise Refusal(f"--fault {fault!r}: allowed are {', '.join(FAULTS)}")
    modes = [(row.name, name) for row in rows for name in row.modes]
    if mode is not None:
        if protocol is None or (protocol, mode) not in modes:
            owners = "; ".join(f"{row.name} has {', '.join(row.modes)}" for row in rows)
            raise Refusal(f"--mode {mode!r}: name its --protocol; {owners}")
        modes = [(protocol, mode)]
    faults = [name for name in FAULTS if fault in {None, name}]
    through = platform or ""
    found = [Case(p, m, name, gateways, kafka_client, through) for p, m in modes for name in faults]
    cases = [case for case in found if FAULTS[case.fault].applies_to(case.protocol, through)]
    if not cases:
        raise Refusal(f"--fault {fault}: {_lacking(str(fault), protocol, platform)}")
    return cases


def _check_platform(platform: str, kafka_client: str) -> None:
    if platform not in PLATFORMS:
        raise Refusal(f"--platform {platform!r}: allowed are {', '.join(PLATFORMS)}")
    if platform != KAFKA and kafka_client != CONFLUENT:
        raise Refusal(f"--kafka-client {kafka_client}: needs --platform {KAFKA}; it is {platform}")
    check_deliveries(run_options(topology="ingest", platform=platform))


def _lacking(fault: str, protocol: str | None, platform: str | None) -> str:
    """Return why no case that was chosen has the part that fails."""
    if FAULTS[fault].of_platform and platform is None:
        return f"needs --platform, one of {', '.join(PLATFORMS)}"
    if FAULTS[fault].of_twins and platform is not None:
        return f"a run through --platform {platform} has no twins, and no Kafka before them"
    return f"{protocol} has no broker that could fail"


def command(
    every: Annotated[
        bool, typer.Option("--all", help="Every mode of every protocol with every fault (about two hours).")
    ] = False,
    protocol: Annotated[str | None, typer.Option(help=f"One of: {', '.join(PROTOCOLS)}.")] = None,
    mode: Annotated[str | None, typer.Option(help="A mode of that protocol, such as qos1.")] = None,
    fault: Annotated[str | None, typer.Option(help=f"One of: {', '.join(FAULTS)}.")] = None,
    gateways: Annotated[
        int | None,
        typer.Option(help="Gateways that share the vehicles (1); a fault of the gateway is the first one's."),
    ] = None,
    kafka_client: Annotated[
        str | None,
        typer.Option(
            help=f"Library by which gateways send to Kafka, one of: {', '.join(SINKS)}. ({CONFLUENT})"
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            help=f"Through this platform to a consumer, not through Kafka into twins; one of: {', '.join(PLATFORMS)}."
        ),
    ] = None,
    campaign: Annotated[
        int | None,
        typer.Option(help="Random schedules with so many faults in all, over every mode, drawn from --seed."),
    ] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Run one schedule of a campaign again, from its file.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of every case's run, or of the campaign (1).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Directory of the results; cases judged there are kept.")
    ] = None,
) -> None:
    """Kill or cut one part in the middle of a run, bring it back, and check what each mode promised."""
    _check(
        {
            "--all": every,
            "--protocol": protocol,
            "--mode": mode,
            "--fault": fault,
            "--gateways": gateways is not None,
            "--kafka-client": kafka_client is not None,
            "--platform": platform is not None,
            "--seed": seed is not None,
        },
        campaign,
        schedule,
    )
    if campaign is not None or schedule is not None:
        code = _campaign(campaign, schedule, 1 if seed is None else seed, output)
        raise typer.Exit(code)
    if not every and (protocol, mode, fault) == (None, None, None):
        raise Refusal("chaos: choose --all, a --protocol, --mode or --fault, or a --campaign")
    cases = cases_of(
        protocol, mode, fault, 1 if gateways is None else gateways, kafka_client or CONFLUENT, platform
    )
    base = output or Path("results") / time.strftime("chaos-%Y%m%d-%H%M%S", time.gmtime())
    with writing("--output", base):
        base.mkdir(parents=True, exist_ok=True)
    with interruptible(), Testbed() as testbed:
        raise typer.Exit(judge_all(base, cases, seed=1 if seed is None else seed, testbed=testbed))


def _check(others: dict[str, object], campaign: int | None, schedule: Path | None) -> None:
    """Refusal for a campaign without a fault, and for words that have no effect beside it or beside a schedule."""
    if campaign is not None and campaign < 1:
        raise Refusal(f"--campaign {campaign}: must be at least 1")
    if campaign is not None and schedule is not None:
        raise Refusal("--schedule: has no effect with --campaign, which draws its own")
    word = "--campaign" if campaign is not None else "--schedule"
    for name, value in others.items():
        if value and (schedule is not None or (campaign is not None and name != "--seed")):
            raise Refusal(f"{name}: has no effect with {word}")


def _campaign(faults: int | None, file: Path | None, seed: int, output: Path | None) -> int:
    """Run a campaign, or one schedule again; return the exit code."""
    again = None if file is None else read_schedule(file)
    base = output or Path("results") / time.strftime("chaos-%Y%m%d-%H%M%S", time.gmtime())
    with writing("--output", base):
        base.mkdir(parents=True, exist_ok=True)
    if again is not None:
        if (base / again.name).exists():
            raise Refusal(f"--output {base}: holds a {again.name} already; name a new directory")
        with interruptible(), Testbed() as testbed:
            return run_again(again, base, testbed)
    assert faults is not None
    made = Campaign(base, faults, seed)
    with interruptible(), Testbed() as testbed:
        code = run_campaign(made, testbed)
    made.sweep()
    return code


def judge_all(base: Path, cases: list[Case], *, seed: int, testbed: Testbed) -> int:
    """Run the cases that `base` does not hold yet, print what each came to, and return the exit code."""
    judged = _run_all(cases, base, seed, testbed)
    print_tables(Console(), judged)
    print(f"results: {base}")
    return 1 if any(judgement.broken for judgement in judged.values()) else 0


def _run_all(cases: list[Case], base: Path, seed: int, testbed: Testbed) -> Judged:
    """Run what `base` does not hold yet, one after the other, saying on stderr how it goes."""
    console = Console(stderr=True, highlight=False)
    known = _known(base)
    todo = [case for case in cases if case.name not in known]
    judged = {case: known[case.name] for case in cases if case.name in known}
    if judged:
        console.print(f"{len(judged)} cases are in {base} already")
    began_s = time.monotonic()
    for index, case in enumerate(todo):
        left_s = (time.monotonic() - began_s) / index * (len(todo) - index) if index else None
        left = "" if left_s is None else f", {left_s / 60:.0f} min left"
        console.print(
            rf"\[{index + 1}/{len(todo)}{left}] {case.protocol} {case.mode}, {FAULTS[case.fault].what}"
        )
        outcome, judgement = run_case(case, base, seed=seed, testbed=testbed)
        if outcome.exit_code > INTERRUPTED:
            console.print(f"stopped; the same command with --output {base} goes on from here")
            raise typer.Exit(outcome.exit_code)
        judged[case] = judgement
        known[case.name] = judgement
        write_json(base / RESULTS, {name: vars(found) for name, found in known.items()})
        counts = judgement.counts
        told = ", ".join(f"{counts[fate]} {fate}" for fate in FATES if counts.get(fate))
        console.print(
            f"    {'BROKEN: ' + '; '.join(judgement.broken) if judgement.broken else 'kept'}: {told}"
        )
    return {case: judged[case] for case in cases}


def _known(base: Path) -> dict[str, Judgement]:
    """Return what an earlier, interrupted command has judged there; Refusal when that is not readable."""
    path = base / RESULTS
    if not path.is_file():
        return {}
    try:
        return {name: Judgement(**found) for name, found in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise Refusal(f"--output {base}: {RESULTS} is none of this command's: {error}") from None
