"""The table of commands, one module and one line each; a command's module is imported when it is called."""

from __future__ import annotations

from typing import Final, NamedTuple


class Command(NamedTuple):
    """One row of `COMMANDS`.

    Attributes:
        name: the word of the command line.
        module: has `app` (commands of its own) or `command`.
        help: the line of `ivsim --help`, which imports no module.
    """

    name: str
    module: str
    help: str


_ROWS = (
    Command(
        "run", "ivsim.commands.run", "Send a fleet's messages over a replayed link, and account for each."
    ),
    Command("load", "ivsim.commands.load", "Run a load test in stages, judged by thresholds."),
    Command("agent", "ivsim.commands.agent", "Run senders on this machine for a coordinator on another."),
    Command(
        "fleet", "ivsim.commands.fleet", "Write a fleet's messages to Parquet files, without sending any."
    ),
    Command(
        "audit", "ivsim.commands.audit", "Recompute a finished run's figures from its raw logs, and compare."
    ),
    Command("report", "ivsim.commands.report", "Rebuild a finished run's metrics and report."),
    Command("results", "ivsim.commands.results", "List, show and remove the results of runs and studies."),
    Command("compare", "ivsim.commands.compare", "Compare two runs or studies, figure by figure."),
    Command(
        "export", "ivsim.commands.export", "Write a result's tables as CSV, Parquet or JSON, or its charts."
    ),
    Command("study", "ivsim.commands.study", "Run, resume, report and compare trade-off studies."),
    Command(
        "aa", "ivsim.commands.aa", "Measure one setting of a study twice: what differences does that find?"
    ),
    Command("pipe", "ivsim.commands.pipe", "Measure a platform such as Kafka: latency, throughput and cost."),
    Command(
        "platform",
        "ivsim.commands.platform",
        "List ingestion platforms, and install those that set-up leaves out.",
    ),
    Command("profile", "ivsim.commands.profile", "Test the connections of a deployment profile."),
    Command("reproduce", "ivsim.commands.reproduce", "Repeat a published study, claim by claim."),
    Command(
        "trace", "ivsim.commands.trace", "Import, list, show, plot and generate traces of cellular links."
    ),
    Command("link", "ivsim.commands.link", "Check which link emulation works here, and verify what it does."),
    Command("gateway", "ivsim.commands.gateway", "Run one gateway between your broker and your Kafka."),
    Command(
        "serve", "ivsim.commands.serve", "Run gateway, twins and their service on your broker and Kafka."
    ),
    Command("twin", "ivsim.commands.twin", "Serve the vehicles' twins, get one, or watch all."),
    Command(
        "chaos", "ivsim.commands.chaos", "Kill or cut a part in mid-run, and check what each mode promises."
    ),
    Command("up", "ivsim.commands.up", "Keep a testbed open, on which runs begin within seconds."),
    Command("shell", "ivsim.commands.shell", "Open a shell on the vehicle's side of the replayed link."),
    Command("setup", "ivsim.commands.setup", "Fetch or bundle the jars of an installed wheel."),
    Command(
        "doctor", "ivsim.commands.doctor", "Check what is installed, what is missing, and how to get it."
    ),
    Command(
        "plugins",
        "ivsim.commands.plugins",
        "List installed plugins, and why any is refused.",
    ),
    Command("version", "ivsim.commands.version", "Print the version and the commit."),
)

COMMANDS: Final[dict[str, Command]] = {row.name: row for row in _ROWS}
