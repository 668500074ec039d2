"""The Spark process of a testbed: started once, it serves one run after the other; it reads no result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ivsim.runs.interrupt import Interrupted
from ivsim.testbed.child import Child, Event, write_config
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord

NAME: Final = "twin"
READY_S: Final = 180.0  # two busy cores have taken 100 s for what takes 12
LEAVE_S: Final = 30.0
# A run that wants another value of these needs a session of its own.
OF_SESSION: Final = (
    "spark_master", "spark_conf", "shuffle_partitions", "jit", "jars_dir", "s3_jars_dir", "s3_endpoint", "driver_host",
)  # fmt: skip


def _of_session(config: dict[str, Any]) -> tuple[str, ...]:
    """Return which of a run's settings are its session's: executors on a cluster have Kafka's account from their start on."""
    local = str(config.get("spark_master", "local")).startswith("local")
    return OF_SESSION if local else (*OF_SESSION, "kafka_login")


class TwinSession:
    """One process `python -m twin` at a time.

    A process that has died, hangs, or was started for other settings gives way to a new one at the next `open`.

    Args:
        record: notes the process; its directory holds the log.
        scratch: where Spark keeps its own files between runs; None keeps them beside the one run that there will be.
    """

    def __init__(self, record: RunRecord, scratch: Path | None) -> None:
        self._record, self._scratch = record, scratch
        self._child: Child | None = None
        self._config: dict[str, Any] = {}
        self._readies = 0
        self._reopened: list[str] = []

    @property
    def process(self) -> Child:
        """The running process; for liveness checks and for faults on purpose."""
        assert self._child is not None, "no run has opened the session"
        return self._child

    def running(self) -> bool:
        return self._child is not None and self._child.running()

    def warm(self, config: dict[str, Any]) -> None:
        """Start the session alone, with the settings of `config`; a later `open` finds it."""
        assert self._scratch is not None
        path = self._scratch / "session.json"
        self._scratch.mkdir(parents=True, exist_ok=True)
        alone: dict[str, Any] = {name: config[name] for name in _of_session(config) if name in config}
        write_config(path, {**alone, "run_dir": str(self._scratch), "topology": "echo"})
        self._start(path, alone)

    def open(self, config: dict[str, Any], path: Path) -> None:
        """Begin to serve a run; `wait_ready` returns once it is.

        Args:
            config: what the twin is told.
            path: where that is written for it.
        """
        write_config(path, config)
        if self._scratch is None:
            self._start(path, config)
            return
        if not self._fits(config):
            self.stop()
            self.warm(config)
        self._config = config
        self._reopened = []
        self.process.forget_error()
        self.process.send("open", config=str(path))
        self._readies += 1

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Return once the run's queries have taken their warm-up records; ProcessDied with the reason they cannot."""
        while self._readies:
            self.process.wait_for("ready", timeout_s)
            self._readies -= 1

    def ready(self) -> dict[str, Any]:
        """Return what the process said of itself when it was ready."""
        said = self.process.latest.get("ready", {})
        return {name: value for name, value in said.items() if name != "event"}

    def reopened(self) -> list[str]:
        """Return a line for each time that a query of the run has died and was opened again."""
        return list(self._reopened)

    def _heard(self, event: Event) -> None:
        if event["event"] == "reopened":
            line = f"Spark's query died and was opened again in {event['opened_s']:g} s: {event['cause']}"
            self._reopened.append(line)

    def finish(self, rejected: int, limit_s: float) -> list[str]:
        """Let the run's queries write what is still theirs, and stop them; return what they could not.

        ProcessDied or NotReady when the process does not answer in time, and it is gone.

        Args:
            rejected: records that may not enter a twin, each of which has a dead letter.
            limit_s: for all of it.
        """
        # It reports a query that died; the session itself lives, and the others of its queries do.
        self.process.forget_error()
        try:
            self.process.send("finish", rejected=rejected)
            problems: list[str] = self.process.wait_for("finished", limit_s)["problems"]
        except Interrupted:
            self.abandon()  # a history takes as long as it has messages
            raise
        except (ProcessDied, NotReady):
            self.stop()  # its answer may still come, and the next run would take it for its own
            raise
        return problems

    def leave(self) -> None:
        """Stop the run's queries; a process that does not answer is stopped as a whole."""
        if self._scratch is None or not self.running():
            return
        if self._readies:  # it is still opening the run: it cannot be told meanwhile
            self.stop()
            return
        try:
            self.process.forget_error()
            self.process.send("leave")
            self.process.wait_for("left", LEAVE_S)
        except (NotReady, ProcessDied):
            self.stop()

    def restart(self) -> None:
        """Start again after a kill and serve the same run; return once it is ready."""
        self.relaunch()
        self.wait_ready()

    def relaunch(self) -> None:
        """Begin to start again after a kill and to serve the same run; `wait_ready` returns once it is ready."""
        config, path = self._config, Path(self._config["run_dir"]) / "work" / f"{NAME}.json"
        self.stop()
        self.open(config, path)

    def abandon(self) -> None:
        """End the process at once, as a fault would: what it waits for does not come back."""
        if self._child is not None:
            self._child.kill()
        self.stop()

    def stop(self) -> None:
        """End the process; idempotent."""
        if self._child is not None:
            self._child.stop()
        self._readies = 0

    def _fits(self, config: dict[str, Any]) -> bool:
        same = all(config.get(name) == self._config.get(name) for name in _of_session(config))
        return same and self.running()

    def _start(self, path: Path, config: dict[str, Any]) -> None:
        self._child = Child(NAME, ["twin", str(path)], self._record, on_event=self._heard)
        self._config, self._readies = config, 1
