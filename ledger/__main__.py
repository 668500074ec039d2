"""`python -m ledger [--when-told] CONFIG.json` builds a run's ledger; 2 for bad input, 1 for a ledger that fails.

With `--when-told` it loads all that it needs, then waits for the command `build`; if standard input ends before, it builds
nothing.
"""

from __future__ import annotations

import json
import sys
import time

import duckdb

from ledger.build import build
from ledger.config import BUILD, WHEN_TOLD, LedgerConfig
from ledger.metrics import FATES
from schemas.config import read_config
from schemas.control import commands, emit
from schemas.errors import Refusal
from schemas.without_pandas import without_pandas


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status; the last line on standard output says what the messages came to."""
    *flags, path = (sys.argv[1:] if arguments is None else arguments) or [""]
    if not path or flags not in ([], [WHEN_TOLD]):
        print(f"usage: python -m ledger [{WHEN_TOLD}] CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = read_config(path, LedgerConfig)
        if flags and (next(commands(BUILD, "stop"), None) or {}).get("command") != BUILD:
            return 0
        started = time.monotonic()
        with without_pandas():
            metrics = build(config, lambda step: emit("step", words=step))
    except Refusal as error:
        print(error, file=sys.stderr)
        return 2
    except (ArithmeticError, duckdb.Error, OSError) as error:
        print(next(iter(str(error).splitlines()), repr(error)), file=sys.stderr)
        return 1
    summary = {name: metrics[name] for name in ("due", *FATES, "partial")}
    print(json.dumps(summary | {"seconds": round(time.monotonic() - started, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
