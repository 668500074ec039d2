"""Writes `traces/`, bundled files and README, from the recipes (`python -m simulator.traces.make`)."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from simulator.traces.files import to_csv
from simulator.traces.recipes import BUNDLED, DEFAULT, bundled_folder

_INTRODUCTION = """\
# Bundled traces

Every file here is **generated**: drawn from profiles fitted to published drives, no measured line in it.
Anybody can make each again, byte for byte, with the command beside it (`--output NAME.csv` appended);
`python -m simulator.traces.make` makes them all and this page. The seeds were picked so that traces this
short look like their profiles; calibration is tested over many seeds, not over these.

- **Origin**: `simulator/traces/profiles.json`; what a profile was fitted to stands in each file's header.
- **Licence**: CC0-1.0, do with them what you like.
- **Unit of a line**: one line is one second of the drive, from `time_s` until the next line. Rates in kbit/s
  (1,000 bit/s; 0 is an outage), RTT in ms (of an idle link: the queue's share is to come from the emulated
  queue), loss as a ratio.
- **`rate_meaning`** says whether a rate is `capacity` or traffic `as_logged`; never compare the two.
- A run longer than a trace meets it again from its first second.

"""


def files() -> dict[str, bytes]:
    """File name to content of everything that belongs into `traces/`."""
    made = {f"{name}.csv": to_csv(recipe.make()).encode() for name, recipe in BUNDLED.items()}
    return {**made, "README.md": _readme(made).encode()}


def _readme(made: dict[str, bytes]) -> str:
    parts = [_INTRODUCTION]
    for name, recipe in BUNDLED.items():
        trace = recipe.make()
        default = " (the default of `ivsim run`)" if name == DEFAULT else ""
        parts.append(
            f"## {name}{default}\n\n"
            f"{recipe.about[0].upper()}{recipe.about[1:]}.\n\n"
            f"- columns: {', '.join(trace.columns())}; {recipe.duration_s} s; "
            f"rate_meaning: {trace.header.get('rate_meaning', 'no rate')}\n"
            f"- seed: {recipe.seed}\n"
            f"- command: `{trace.header['command']}`\n"
            f"- sha256: `{hashlib.sha256(made[f'{name}.csv']).hexdigest()}`\n\n"
        )
    return "".join(parts).rstrip("\n") + "\n"


def main() -> None:
    """Write all of them where the source tree keeps them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else bundled_folder()
    for name, content in files().items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
