"""Run make's goals where nothing is installed: in a bare Debian with git and make, on a clone of the last commit.

A machine that has been worked on hides a step that set-up forgets. Here set-up begins with nothing: the file system is
one that mmdebstrap has just made, with mounts and processes of its own (setup/bare_root.sh). It shares the network and
the kernel with this machine, and is told how this machine's package clients reach their registries (host_clients.py).

Each command is the first process of a PID namespace. With it ends all that it started; with that end its mounts, so
that afterwards there is nothing but a directory to remove.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

import host_clients

ROOT = Path(__file__).resolve().parents[1]
ENTER = Path(__file__).with_name("bare_root.sh")
# The clone, with what lies beside this checkout (recorded drives for some tests) beside it.
DIRECTORY, BESIDE = Path("/srv/ivsim"), "shared"
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
NAMESPACES = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"),
)


class Parts:
    """How long each part took."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._taken.append((name, time.monotonic() - began))
            say(f"{name}: {clock(self._taken[-1][1])}")

    def sum_up(self) -> None:
        if self._taken:
            each = ", ".join(f"{name} {clock(seconds)}" for name, seconds in self._taken)
            say(f"{each}; in all {clock(sum(seconds for _, seconds in self._taken))}")


def main(words: Sequence[str] | None = None) -> int:
    """Return the first exit code that is not 0; 2 where the chroot cannot be made."""
    options = parsed(words)
    end_on_signals()
    parts = Parts()
    try:
        refuse_what_is_not_committed()
        with chroot_directory(options.keep) as directory:
            root = directory / "root"
            if not root.exists():
                say(f"making a bare Debian {options.suite} in {root}")
                with parts.part("chroot"):
                    make_chroot(root, options.suite)
            with parts.part("clone"):
                clone(root / DIRECTORY.relative_to("/"))
            return run_all(root, options, parts)
    except NoChrootError as refused:
        say(str(refused))
        return 2
    finally:
        parts.sum_up()


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bare.sh", description="Run make's goals on the last commit in a bare Debian chroot."
    )
    add = parser.add_argument
    add("goals", nargs="*", metavar="GOAL", help="make's goals, each by itself (default: run test)")
    add("--keep", type=Path, metavar="DIRECTORY", help="make the chroot here, or use the one kept here")
    add("--suite", default="bookworm", help="Debian's release (default: %(default)s)")
    add("--command", help="a shell command line to run in the clone, instead of goals and their set-up")
    options = parser.parse_args(words)
    if options.command and options.goals:
        parser.error("--command takes the place of goals")
    options.goals = options.goals or ["run", "test"]
    return options


class NoChrootError(Exception):
    """The chroot cannot be made; the message says why."""


def end_on_signals() -> None:
    """Let the signals that end this process unwind it, so that its owners clean up."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        sys.exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, end)


def say(text: str) -> None:
    print(f"bare: {text}", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def refuse_what_is_not_committed() -> None:
    # Root may read anybody's checkout; git wants to be told so.
    argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoChrootError(f"needs a git checkout: {done.stderr.strip()}")
    if done.stdout:
        names = ", ".join(line[3:] for line in done.stdout.splitlines()[:3])
        raise NoChrootError(f"only what is committed would be tested; commit or stash first: {names}")


@contextlib.contextmanager
def chroot_directory(kept: Path | None) -> Iterator[Path]:
    """Yield the directory to work in: one that is kept, or one that is gone afterwards however this ends."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
        return
    directory = Path(tempfile.mkdtemp(prefix="ivsim-bare-"))
    try:
        directory.chmod(0o755)  # apt fetches as a user of its own
        yield directory
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # an impatient second Ctrl-C would leave half of it
        shutil.rmtree(directory)


def make_chroot(root: Path, suite: str) -> None:
    """Make a minimal Debian at `root`, whole or not at all, with what the README asks for: git and make."""
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    sources = host_clients.host_sources(suite)
    wanted = "git,make,ca-certificates" if any(" https:" in line for line in sources) else "git,make"
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as options:
        options.write(host_clients.host_apt_options())
        options.flush()
        argv = ["--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", f"--include={wanted}"]
        # Nobody needs this system after a crash, so dpkg need not wait for the disk at every file.
        argv += [f"--aptopt={options.name}", "--dpkgopt=force-unsafe-io", suite, str(unfinished), *sources]
        with tempfile.TemporaryFile("w+") as log:
            # What it keeps for itself while it works is below our directory, and ends with it.
            if run_apart(argv, os.environ | {"TMPDIR": str(root.parent)}, log):
                log.seek(0)
                raise NoChrootError(f"mmdebstrap could not make the chroot:\n{log.read()[-4000:]}")
    for name in ("hosts", "resolv.conf"):
        shutil.copy(f"/etc/{name}", unfinished / "etc" / name)
    name = socket.gethostname()
    (unfinished / "etc/hostname").write_text(name + "\n")
    with (unfinished / "etc/hosts").open("a") as hosts:
        hosts.write(f"\n127.0.0.1 localhost {name}\n")
    unfinished.rename(root)


def clone(target: Path) -> None:
    """Bring the last commit to `target`: a new clone, or the one that is there, moved to it."""
    with tempfile.NamedTemporaryFile("w", suffix=".gitconfig") as config:
        config.write("[safe]\n\tdirectory = *\n")
        config.flush()
        # Not by -c: git does not hand that on to the other git that it starts here.
        environment = os.environ | {"GIT_CONFIG_GLOBAL": config.name}
        if not target.exists():
            commands = [["clone", "-q", "--no-hardlinks", str(ROOT), str(target)]]
        else:
            fetch, checkout = ["fetch", "-q", str(ROOT), "HEAD"], ["checkout", "-q", "-f", "FETCH_HEAD"]
            commands = [["-C", str(target), *words] for words in (fetch, checkout)]
        for words in commands:
            if subprocess.run(["git", *words], env=environment, check=False).returncode:
                raise NoChrootError(f"git could not clone {ROOT}")


def run_all(root: Path, options: argparse.Namespace, parts: Parts) -> int:
    shown = host_clients.carry(root, os.environ)
    if (ROOT.parent / BESIDE).is_dir():
        shown.append(f"{ROOT.parent / BESIDE}={DIRECTORY.parent / BESIDE}")
    commands = [("command", ["sh", "-c", options.command])] if options.command else list(steps(options.goals))
    environment = host_clients.environment(os.environ)
    for name, argv in commands:
        with parts.part(name):
            code = run_apart(["sh", str(ENTER), str(root), str(DIRECTORY), *shown, "--", *argv], environment)
        if code:
            say(f"{name} ended with {code}")
            return code
    return 0


def steps(goals: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield name and command of each step: make would begin with the set-up too, here its time stands by itself."""
    done = set()
    for goal in goals:
        wanted = "run" if goal == "run" else "test"
        if wanted not in done:
            yield f"set-up for make {wanted}", ["sh", "setup/install.sh", wanted]
        done |= {wanted, "run"}
        yield f"make {goal}", ["make", goal]


def run_apart(argv: Sequence[str], environment: Mapping[str, str], log: IO[str] | None = None) -> int:
    """Run a command in namespaces of its own and return its exit code; nothing of it is left when this returns."""
    argv = [*NAMESPACES, *argv]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment) as process:
        try:
            code: int = process.wait()
        except BaseException:
            kill_first_process(process.pid)
            process.wait()
            raise
    return code if code >= 0 else 128 - code


def kill_first_process(unshare: int) -> None:
    """End the namespace by its first process, so that `unshare`, which waits for it, ends after everything in it."""
    try:
        children = [int(pid) for pid in Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()]
    except OSError:
        children = []
    for pid in children or [unshare]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
