"""Build the wheel and use it in a clean environment, away from the clone.

Third-party packages come from the environment that runs this, by one path file; nothing of the clone does. Maven, where it
is installed, fetches from its own repository what set-up had it fetch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from twin.fold_jar import source_digest  # noqa: E402

EXAMPLES = ROOT / "examples"
# Variables by which a developer has the clone's files used.
OF_THE_CLONE = {"PYTHONPATH", "IVSIM_JARS"}

# Editable installs are path files too, and a directory that is only on the path does not run them.
USE = """
import importlib, pathlib, sys
from ivsim.testbed.paths import compose_dir
from twin.fold_jar import built_from, fold_jar
names = sys.argv[1].split(",")
places = {name: pathlib.Path(importlib.import_module(name).__file__).parent for name in names}
outside = [str(place) for place in [*places.values(), compose_dir(), fold_jar()] if not place.is_relative_to(sys.prefix)]
if outside:
    sys.exit(f"not from the wheel: {outside}")
sys.exit(0 if built_from(fold_jar()) == sys.argv[2] else "the wheel's fold is not of the clone's sources")
"""


# What `ivsim doctor` names for what is missing, without its probes of links.
REMEDIES = "from ivsim.doctor import examine; print(*(f.remedy for f in examine() if f.found is None))"


# The example's format, from its own wheel, is one of the table's, and its payloads come back; a recorded drive is replayed in it.
USE_PLUGIN = """
import sys
import ivsim_cborjson
from ivsim.study.corpus import status_of
from schemas.formats import FORMATS
status = status_of("rigid", 1)
found = FORMATS["cborjson"]
if not isinstance(found, ivsim_cborjson.CborJson) or not ivsim_cborjson.__file__.startswith(sys.prefix):
    sys.exit("not the example's")
if found.decode(found.encode(status)) != status:
    sys.exit("the status did not come back")
from simulator.fleet import emissions
from simulator.scenario import Scenario
log, mapping = sys.argv[1:]
drives = Scenario(vehicles=2, duration_s=9.0, format="cborjson", vehicle_log=log, vehicle_mapping=mapping)
trips = {found.decode(one.payload).header.trip_id for one in emissions(drives, 1_700_000_000_000_000_000)}
sys.exit(0 if trips == {"north", "south"} else f"the drives of {trips} were replayed")
"""


def main() -> None:
    """Exit non-zero, with the failing command's output, when the wheel does not work on its own."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    with tempfile.TemporaryDirectory(prefix="ivsim-wheel-") as scratch:
        place = Path(scratch)
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)], ROOT)
        (wheel,) = place.glob("*.whl")
        python = clean_environment(place / "venv")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], place)
        run([str(python), "-I", "-c", USE, ",".join(packages["packages"]), source_digest()], place)
        run([str(python.with_name("ivsim")), "--help"], place)
        run([str(python.with_name("ivsim")), "run", "--help"], place)
        check_setup(place, python)
        check_example(place, python, pip)
        print(f"{wheel.name}: imports and answers in a clean environment")


def check_setup(place: Path, python: Path) -> None:
    """Without jars the wheel names its own command; they come by Maven, or in a bundle that a clone has made."""
    ivsim, bundle = str(python.with_name("ivsim")), place / "jars.zip"
    homes = {name: {"XDG_CACHE_HOME": str(place / name)} for name in ("bundled", "fetched")}
    # Nothing answers at this Kafka: were the jars there, nothing would be started either.
    for words, code in (
        ([ivsim, "run", "--kafka", "127.0.0.1:9"], 2),
        ([str(python), "-I", "-c", REMEDIES], 0),
    ):
        said = run(words, place, homes["bundled"], code)
        if "ivsim setup" not in said or "make setup" in said:
            sys.exit(f"{words[-1]}: a wheel without jars does not name `ivsim setup` alone:\n{said}")
    run([sys.executable, "-m", "ivsim.cli", "setup", "--bundle", str(bundle)], ROOT)
    run([ivsim, "setup", "--from", str(bundle)], place, homes["bundled"])
    if shutil.which("mvn"):
        run([ivsim, "setup"], place, homes["fetched"])
        bundled, fetched = (
            sorted(jar.relative_to(place / name) for jar in (place / name).rglob("*.jar")) for name in homes
        )
        if bundled != fetched:
            sys.exit(f"the bundle has {bundled}, Maven fetched {fetched}")
    if "The jars are there." not in run([ivsim, "setup"], place, homes["bundled"]):
        sys.exit("ivsim setup does not see the jars that it has put there")
    clone = run([sys.executable, "-m", "ivsim.cli", "--version"], ROOT)
    if (said := run([ivsim, "--version"], place)) != clone:
        sys.exit(f"the wheel says {said}, its clone {clone}")


def check_example(place: Path, python: Path, pip: list[str]) -> None:
    """A package with a plug-in, from its wheel beside ivsim's: listed, chosen, and it encodes and decodes."""
    built = place / "example"
    run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        EXAMPLES / "ivsim-cborjson",
    )
    (wheel,) = built.glob("*.whl")
    run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], place)
    drives = [str(EXAMPLES / "drives" / f"two-trucks.{end}") for end in ("csv", "toml")]
    run([str(python), "-I", "-c", USE_PLUGIN, *drives], place)
    ivsim = str(python.with_name("ivsim"))
    for words, shown in ((["plugins"], "usable"), (["run", "--help"], "cborjson")):
        if shown not in run([ivsim, *words], place):
            sys.exit(f"ivsim {' '.join(words)}: does not show {shown}")


def clean_environment(directory: Path) -> Path:
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "lib" / version / "site-packages"
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(
    argv: list[str], directory: Path, more: Mapping[str, str] = MappingProxyType({}), code: int = 0
) -> str:
    """Return what a command says, which finds no module and no jars of the clone; end when it ends otherwise than it should."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_THE_CLONE} | more
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
