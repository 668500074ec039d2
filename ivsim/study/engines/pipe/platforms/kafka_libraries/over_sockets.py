"""The Java virtual machine in a process beside this one, by Py4J: one for a process, from its first use to its end."""

from __future__ import annotations

import atexit
import os
import subprocess
from functools import cache
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from gateways.sinks.java import OPTIONS
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import class_path, java_path

END_S = 10.0


class OverSockets:
    """Py4J's bridge.

    Attributes:
        failed: what an exception of Java is here.
    """

    failed: type[BaseException] = Py4JJavaError

    def __init__(self) -> None:
        port, token, self._process = launch_gateway(
            classpath=os.pathsep.join(class_path()),
            javaopts=list(OPTIONS),
            java_path=java_path(),
            die_on_exit=True,
            create_new_process_group=False,
            enable_auth=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))

    @cache  # noqa: B019 - there is one, and it lives as long as the process
    def type(self, name: str) -> Any:
        found: Any = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def array(self, value: bytes | None) -> Any:
        return value

    def integer(self, value: int | None) -> Any:
        return value

    def long(self, value: int) -> Any:
        return value

    def cause(self, error: Any) -> str:
        thrown = error.java_exception
        return str((thrown.getCause() or thrown).toString())

    def end(self) -> None:
        """End the process."""
        self._gateway.close(keep_callback_server=False, close_callback_server_connections=True)
        process: subprocess.Popen[bytes] = self._process
        assert process.stdin is not None
        process.stdin.close()  # it ends with its standard input
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@cache
def over_sockets() -> OverSockets:
    """Return the process's own, started when it is first asked for."""
    made = OverSockets()
    atexit.register(made.end)
    return made
