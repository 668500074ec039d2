"""`ivsim up`: keep a testbed open, so that runs begin within seconds; closes everything when it is stopped."""

from __future__ import annotations

import sys

import typer


def command() -> None:
    """Start Kafka and Spark once, and keep them, the link and the brokers for every `ivsim run --testbed`.

    It stays until Ctrl-C or SIGTERM, and then closes all that it has opened.
    """
    from ivsim.runs.interrupt import Interrupted, interruptible  # noqa: PLC0415 - --help need not wait for them
    from ivsim.runs.served import listening, serve  # noqa: PLC0415
    from ivsim.runs.testbed import Testbed  # noqa: PLC0415

    try:
        with interruptible(), listening() as server, Testbed() as testbed:
            print("ivsim: starting Kafka and Spark", file=sys.stderr)
            testbed.warm()
            print("The testbed is up. From another terminal, as often as you like:")
            print("    ivsim run --testbed --loss 0.05")
            print("Ctrl-C here closes it.", flush=True)
            serve(testbed, server)
    except Interrupted:
        print("ivsim: the testbed is closed", file=sys.stderr)
        raise typer.Exit(0) from None
