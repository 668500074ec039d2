"""Run every `bench_*.py` here, each in a process of its own, under a header that names the machine.

python -m bench            all of them
python -m bench bridge     those whose name contains a word
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
TIMEOUT_S = 600.0


def main(words: list[str]) -> int:
    """Return 0 when every chosen benchmark ran to its end."""
    names = [path.stem for path in sorted(HERE.glob("bench_*.py"))]
    chosen = [name for name in names if not words or any(word in name for word in words)]
    if not chosen:
        print(f"no benchmark named {' '.join(words)}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    print("\n".join(header()), flush=True)
    failed = [name for name in chosen if not runs(name)]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def header() -> list[str]:
    """Return what a figure depends on: the machine and the versions, one line each."""
    packages = " ".join(f"{name} {version}" for name, version in sorted(pinned_packages()))
    return [
        f"date      {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
        f"CPU       {cpu_model()}, {len(os.sched_getaffinity(0))} cores",
        f"memory    {memory_gib():.1f} GiB",
        f"kernel    {platform.system()} {platform.release()} {platform.machine()}",
        f"system    {platform.freedesktop_os_release().get('PRETTY_NAME', '?')}",
        f"load      {' '.join(f'{load:.2f}' for load in os.getloadavg())} (1, 5, 15 minutes before)",
        f"Python    {platform.python_version()}",
        f"Java      {first_line('java', '-version')}",
        f"mosquitto {first_line('mosquitto', '-h')}",
        f"packages  {packages}",
    ]


def cpu_model() -> str:
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.processor() or "?"


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def first_line(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        return "not installed"
    return (done.stderr + done.stdout).strip().partition("\n")[0]


def pinned_packages() -> list[tuple[str, str]]:
    pins = [requirement for requirement in metadata.requires("ivsim") or [] if ";" not in requirement]
    names = [pin.partition("==")[0] for pin in pins]
    return [(name, metadata.version(name)) for name in names]


def runs(name: str) -> bool:
    """Run one benchmark; its output is printed as it comes."""
    print(f"\n== {name}", flush=True)
    began_s = time.monotonic()
    try:
        code = subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], check=False, timeout=TIMEOUT_S
        ).returncode
    except subprocess.TimeoutExpired:
        code = -1
        print(f"{name}: not done after {TIMEOUT_S:g} s", file=sys.stderr)
    print(f"({name}: {time.monotonic() - began_s:.1f} s)", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
