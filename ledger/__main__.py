"""`python -m ledger CONFIG.json` builds a run's ledger; 2 for bad input, 1 for a ledger that fails."""

from __future__ import annotations

import json
import sys
import time

import duckdb

from ledger.build import build
from ledger.config import LedgerConfig
from ledger.metrics import FATES
from schemas.config import read_config
from schemas.control import emit
from schemas.errors import Refusal


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status; the last line on standard output says what the messages came to."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 1:
        print("usage: python -m ledger CONFIG.json", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        config = read_config(words[0], LedgerConfig)
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
