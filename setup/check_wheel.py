"""Build the wheel and use it in a clean environment, away from the clone; downloads nothing.

Third-party packages come from the environment that runs this, by one path file; nothing of the clone does.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from twin.fold_jar import source_digest  # noqa: E402

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
        print(f"{wheel.name}: imports and answers in a clean environment")


def clean_environment(directory: Path) -> Path:
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "lib" / version / "site-packages"
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(argv: list[str], directory: Path) -> None:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
