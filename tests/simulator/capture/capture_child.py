"""The capture process as its owner sees it, for tests."""

from __future__ import annotations

import json
import subprocess
import sys

from simulator.links import namespaces


class CaptureChild:
    def __init__(self, link, directory, **config):
        self.directory = directory
        config = {"device": link.vehicles_device, "run_dir": str(directory), **config}
        path = directory / "capture.json"
        path.write_text(json.dumps(config))
        argv = [sys.executable, "-m", "simulator.capture.process", str(path)]
        self.process = subprocess.Popen(
            namespaces.command_inside(link.vehicles_namespace, argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events = []

    def __enter__(self):
        assert self.wait("ready")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        for line in self.process.stdout:
            self.events.append(json.loads(line))
        self.process.wait(30)
        self.process.stdout.close()

    def wait(self, name):
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == name:
                return event
        raise AssertionError(f"no {name}: {self.events}")

    def command(self, **fields):
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.command(command="stop")
        return self.wait("done")
