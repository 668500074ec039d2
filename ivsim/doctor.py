"""What is installed, what is missing, how to get it, and what dead runs left; changes nothing unasked."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateways.protocols import PROTOCOLS
from ivsim.testbed import leftovers
from ivsim.testbed.paths import in_clone, jars_dir, set_up
from ivsim.testbed.programs import where
from ivsim.testbed.server import ServerKind
from ivsim.testbed.servers import SERVERS
from schemas.errors import Refusal
from twin.fold_jar import fold_jar

EXIT_WELL = 0
EXIT_LACKING = 1
OLDEST_JAVA = 17
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
JARS_REMEDY = f"{set_up()} (one Maven run)"


@dataclass(frozen=True)
class Finding:
    """One part of the machine.

    Attributes:
        needed_for: who misses it; a part of every run is "every run".
        found: what is there, None when it is missing.
        remedy: the one line that gets it.
    """

    part: str
    needed_for: str
    found: str | None
    remedy: str

    @property
    def essential(self) -> bool:
        return self.needed_for == EVERY_RUN


EVERY_RUN = "every run"


def doctor(*, clean: bool) -> int:
    """Print the state of this machine; return 0 when a run can be made and nothing stays that was to go."""
    console = Console()
    found = examine()
    links = link_states()
    console.print(_parts_table(found))
    for finding in (finding for finding in found if finding.found is None):
        # One line each, to be copied: never broken by the width of the terminal.
        console.print(f"{finding.part}: {escape(finding.remedy)}", soft_wrap=True)
    console.print(_links_table(links))
    lacking = [finding for finding in found if finding.found is None and finding.essential]
    if not any(reason is None for name, reason in links.items() if name != "direct"):
        console.print("No emulating link works here: only `--link direct`, the control, can be run.")
        lacking.append(Finding("link", EVERY_RUN, None, "see the reasons above"))
    stays = _report_leftovers(console, clean=clean)
    return EXIT_LACKING if lacking or stays else EXIT_WELL


def examine() -> list[Finding]:
    """Return what this machine has of the parts a run, the tests and the studies use."""
    return [
        _python_packages(),
        Finding("Java", EVERY_RUN, _java(), "apt-get install default-jre-headless"),
        Finding("jars of Spark's connector", EVERY_RUN, _jars("spark"), JARS_REMEDY),
        Finding(
            "the twin's fold",
            EVERY_RUN,
            _fold(),
            "make setup" if in_clone() else "pip install --force-reinstall ivsim",
        ),
        Finding("the name localhost", EVERY_RUN, _localhost(), "echo 127.0.0.1 localhost >> /etc/hosts"),
        _program("nsenter", EVERY_RUN, "apt-get install util-linux"),
        _program("setpriv", EVERY_RUN, "apt-get install util-linux"),
        _program("ip", EVERY_RUN, "apt-get install iproute2"),
        *(_server(kind) for kind in SERVERS.values()),
        _program("linux.uml", "--link uml", "apt-get install user-mode-linux"),
        _program("mkfs.ext4", "platform power-cut", "apt-get install e2fsprogs"),
        _program("mvn", "fetching the jars", "apt-get install maven"),
        _program("tshark", "audits of frames, tests", "apt-get install tshark"),
        _program("busybox", "tests of the link netem", "apt-get install busybox"),
        _program("flatc", "study serialisation-cpp", "apt-get install flatbuffers-compiler"),
        _program("protoc", "study serialisation-cpp", "apt-get install protobuf-compiler"),
        _program("g++", "study serialisation-cpp", "apt-get install g++"),
        _program("ping", "ivsim shell", "apt-get install iputils-ping"),
        Finding("chromium", "tests of the page", _first(CHROMIUMS), "apt-get install chromium"),
    ]


def link_states() -> dict[str, str | None]:
    """Return, for each link back end, None where it works here, else why not."""
    from simulator.links import LINKS, why_not  # noqa: PLC0415 - the doctor must come even when a part is broken

    return {name: why_not(name) for name in LINKS}


def _python_packages() -> Finding:
    wrong = list(_differing())
    found = None if wrong else f"{len(list(_pins()))} as pinned"
    how = "make setup" if in_clone() else "pip install --force-reinstall ivsim"
    return Finding("Python packages", EVERY_RUN, found, f"{how} ({', '.join(wrong)})")


def _differing() -> Iterator[str]:
    for name, version in _pins():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed = "missing"
        if installed != version:
            yield f"{name} {installed}, wanted {version}"


def _pins() -> Iterator[tuple[str, str]]:
    for requirement in metadata.requires("ivsim") or []:
        if "extra ==" not in requirement and (match := re.fullmatch(r"([\w.-]+)==([\w.]+)", requirement)):
            yield match[1], match[2]


def _java() -> str | None:
    java = shutil.which("java")
    if java is None:
        return None
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(([0-9]+)[^"]*)"', text)
    return match[1] if match and int(match[2]) >= OLDEST_JAVA else None


def _jars(kind: str) -> str | None:
    count = len(list(jars_dir(kind).glob("*.jar")))
    return f"{count} in {jars_dir(kind)}" if count else None


def _fold() -> str | None:
    try:
        return str(fold_jar())
    except Refusal:
        return None


def _localhost() -> str | None:
    # Spark's Python side binds to it by name.
    try:
        return str(socket.gethostbyname("localhost"))
    except OSError:
        return None


def _program(name: str, needed_for: str, remedy: str) -> Finding:
    return Finding(name, needed_for, _first((name,)), remedy)


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := where(name))), None)


def _server(kind: ServerKind) -> Finding:
    try:
        found = kind.find()
    except Refusal:
        found = None
    users = (f"--protocol {row.name}" for row in PROTOCOLS.values() if row.broker == kind.name)
    return Finding(kind.part, kind.needed_for or ", ".join(users), found, kind.remedy)


def _parts_table(findings: list[Finding]) -> Table:
    table = _table("part", "", "found", "needed for")
    for finding in findings:
        place = escape(finding.found) if finding.found is not None else "missing, see below"
        table.add_row(finding.part, _mark(good=finding.found is not None), place, finding.needed_for)
    return table


def _mark(*, good: bool) -> str:
    return "[green]yes[/]" if good else "[red]no[/]"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _links_table(states: dict[str, str | None]) -> Table:
    table = _table("link", "", "why")
    for name, reason in states.items():
        table.add_row(name, _mark(good=reason is None), escape(reason or "probed just now"))
    return table


def _report_leftovers(console: Console, *, clean: bool) -> list[str]:
    found = leftovers.find()
    if not found:
        console.print("Killed runs have left nothing behind.")
        return []
    console.print("[bold]Left by killed runs:[/]")
    for line in (line for leftover in found for line in leftover.lines()):
        console.print(f"  {escape(line)}")
    if not clean:
        console.print("`ivsim doctor --clean` removes it.")
        return []
    stays = leftovers.clean(found)
    console.print(
        "Could not be removed (are you root? does Kafka answer?):" if stays else "All of it is removed."
    )
    for line in stays:
        console.print(f"  {escape(line)}")
    return stays
