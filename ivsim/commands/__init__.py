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
    Command("load", "ivsim.commands.load", "A load test in stages, judged by thresholds."),
    Command("agent", "ivsim.commands.agent", "A part of another machine's load test: senders on this one."),
    Command("fleet", "ivsim.commands.fleet", "A fleet's messages as Parquet files, without sending any."),
    Command(
        "audit", "ivsim.commands.audit", "Recompute a finished run's figures from its raw logs, and compare."
    ),
    Command("report", "ivsim.commands.report", "A finished run's figures and report anew from its tables."),
    Command("results", "ivsim.commands.results", "Results of runs and studies: list, show, remove."),
    Command("compare", "ivsim.commands.compare", "Two runs side by side, each figure with the difference."),
    Command("export", "ivsim.commands.export", "A result as CSV, Parquet or JSON for other programs."),
    Command("study", "ivsim.commands.study", "Trade-offs as data: run in a fair order, reported, compared."),
    Command(
        "pipe", "ivsim.commands.pipe", "Records through a platform such as Kafka: delay, speed and cost."
    ),
    Command(
        "platform",
        "ivsim.commands.platform",
        "Ingestion platforms: list them, install those that set-up leaves out.",
    ),
    Command(
        "profile", "ivsim.commands.profile", "Deployment profiles: try each connection, say what is missing."
    ),
    Command("reproduce", "ivsim.commands.reproduce", "Repeat a published study, claim by claim."),
    Command("trace", "ivsim.commands.trace", "Traces of cellular links: import, list, show, plot, generate."),
    Command("link", "ivsim.commands.link", "The emulated link: what works here, and proof of what it does."),
    Command("gateway", "ivsim.commands.gateway", "One gateway alone, between your broker and your Kafka."),
    Command(
        "serve", "ivsim.commands.serve", "Gateway, twins and their service on your broker and your Kafka."
    ),
    Command("twin", "ivsim.commands.twin", "The vehicles' twins: serve them, get one, watch all."),
    Command(
        "chaos", "ivsim.commands.chaos", "Kill or cut a part in mid-run, and check what each mode promised."
    ),
    Command("up", "ivsim.commands.up", "Keep a testbed open, on which runs begin within seconds."),
    Command(
        "shell", "ivsim.commands.shell", "A shell where a vehicle lives, on its side of the replayed link."
    ),
    Command("setup", "ivsim.commands.setup", "The jars of an installed wheel: fetch or bundle them."),
    Command("doctor", "ivsim.commands.doctor", "What is installed, what is missing, and how to get it."),
    Command(
        "plugins",
        "ivsim.commands.plugins",
        "Parts of other packages: what is installed, and what is refused.",
    ),
    Command("version", "ivsim.commands.version", "Print the version and the commit."),
)

COMMANDS: Final[dict[str, Command]] = {row.name: row for row in _ROWS}
