"""The jars of an installed wheel: fetched by Maven, packed into a bundle, or taken from one; a clone has `make setup`.

They appear under their names all at once: what breaks off, or is no bundle of this version, leaves things as they were.
A bundle is a ZIP file: `bundle.json`, with the digest of the files that name the jars and each jar's sha256, and the jars
as `<kind>/<name>.jar`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ivsim.testbed.paths import (
    JARS,
    LEFT_OUT,
    compose_dir,
    in_clone,
    installed_jars,
    jars_digest,
    jars_root,
)
from ivsim.testbed.programs import program
from schemas.errors import Refusal

CONTENTS: Final = "bundle.json"
VERSION: Final = ".digest"
# What no jar of ours comes near: what is said to be longer is no bundle.
MOST_BYTES: Final = 500_000_000
_NAME: Final = r"/[A-Za-z0-9][\w.+-]*\.jar"
_ERROR: Final = "[ERROR] "


def fetched(kinds: Sequence[str] = JARS) -> bool:
    """Return whether the jars of these kinds are there."""
    for kind in kinds:
        directory = jars_root() / kind
        if not any(directory.glob("*.jar")):
            return False
        # Those of every run are in a folder of their version; of a part, a file says it.
        if kind in LEFT_OUT and _version_in(directory) != jars_digest((kind,)):
            return False
    return True


def _version_in(directory: Path) -> str | None:
    path = directory / VERSION
    return path.read_text().strip() if path.is_file() else None


def fetch(kinds: Sequence[str] = JARS) -> Path:
    """Fetch jars with Maven, by its own settings and mirrors; return where they are.

    Args:
        kinds: those of every run, or such as have a folder of their own in compose/.

    Raises:
        Refusal: these are a clone's, or there is no Maven, or it could not fetch them.
    """
    if kinds == JARS:
        not_in_a_clone()
    maven = program("mvn", "maven")

    def fill(directory: Path) -> None:
        if kinds == JARS:
            run(directory, compose_dir() / "jars", "-pl", ",".join(JARS))
        else:
            for kind in kinds:
                run(directory / kind, compose_dir() / kind)

    def run(directory: Path, folder: Path, *more: str) -> None:
        words = [maven, "-q", "-B", "-ntp", "-Dstyle.color=never", "-f", str(folder / "pom.xml"), *more]
        done = subprocess.run(
            [*words, f"-Djars.dir={directory.absolute()}", "validate"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Refusal(f"Maven could not fetch the jars: {_why(done.stdout + done.stderr)}")

    return _placed(fill, kinds)


def pack(bundle: Path, kinds: Sequence[str] = JARS) -> int:
    """Write the jars that are there into a bundle; return how many. Refusal when there are none, or it cannot be written."""
    found = {
        f"{kind}/{jar.name}": jar for kind in kinds for jar in sorted(installed_jars(kind).glob("*.jar"))
    }
    sums = {name: hashlib.sha256(jar.read_bytes()).hexdigest() for name, jar in found.items()}
    part = bundle.with_name(bundle.name + ".part")
    try:
        with zipfile.ZipFile(part, "w") as archive:  # jars are compressed already
            archive.writestr(CONTENTS, json.dumps({"jars": jars_digest(kinds), "sha256": sums}, indent=1))
            for name, jar in found.items():
                archive.write(jar, name)
        part.replace(bundle)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Refusal(f"{bundle}: {error.strerror}") from None
    return len(found)


def unpack(bundle: Path, kinds: Sequence[str] = JARS) -> Path:
    """Take the jars out of a bundle; return where they are.

    Raises:
        Refusal: these are a clone's, or the file is no bundle of this version, or has something else in it than it says.
    """
    if kinds == JARS:
        not_in_a_clone()
    try:
        with zipfile.ZipFile(bundle) as archive:
            sums = _contents(archive, bundle, kinds)
            return _placed(lambda directory: _extract(archive, bundle, sums, directory), kinds)
    except OSError as error:
        raise Refusal(f"{error.filename or bundle}: {error.strerror}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise Refusal(f"{bundle}: no bundle of `ivsim setup`: {error}") from None


def _contents(archive: zipfile.ZipFile, bundle: Path, kinds: Sequence[str]) -> dict[str, str]:
    """Return name -> sha256 of the jars of a bundle; Refusal where they are not those that this version takes."""
    names = archive.namelist()
    if CONTENTS not in names or archive.getinfo(CONTENTS).file_size > 1_000_000:
        raise Refusal(f"{bundle}: no bundle of `ivsim setup`: it has no {CONTENTS}")
    try:
        said: Any = json.loads(archive.read(CONTENTS))
        digest, sums = said["jars"], {str(name): str(value) for name, value in said["sha256"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refusal(
            f"{bundle}: no bundle of `ivsim setup`: {CONTENTS} does not say what it holds"
        ) from None
    if digest != (wanted := jars_digest(kinds)):
        raise Refusal(f"{bundle}: of another version: it has the jars {digest}, and this one takes {wanted}")
    jar = re.compile(rf"({'|'.join(kinds)}){_NAME}", re.ASCII)
    wrong = sorted({*names} ^ {CONTENTS, *sums}) or sorted(name for name in sums if not jar.fullmatch(name))
    if wrong or len(names) != len(sums) + 1:
        raise Refusal(
            f"{bundle}: no bundle of `ivsim setup`: {(wrong or names)[0]!r} is not what it says it holds"
        )
    if sum(archive.getinfo(name).file_size for name in names) > MOST_BYTES:
        raise Refusal(f"{bundle}: no bundle of `ivsim setup`: it holds more than {MOST_BYTES:,} bytes")
    return sums


def _extract(archive: zipfile.ZipFile, bundle: Path, sums: dict[str, str], directory: Path) -> None:
    for name, wanted in sums.items():
        data = archive.read(name)
        if hashlib.sha256(data).hexdigest() != wanted:
            raise Refusal(f"{bundle}: {name} is damaged: its sha256 is not the one that {CONTENTS} says")
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _placed(fill: Callable[[Path], None], kinds: Sequence[str]) -> Path:
    """Have a directory filled, and put the jars in it where they belong; return where that is."""
    root = jars_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as scratch:
            directory = Path(scratch)
            fill(directory)
            for kind in kinds:
                if not any((directory / kind).glob("*.jar")):
                    raise Refusal(f"no jars of {kind} came")
                if kind in LEFT_OUT:
                    (directory / kind / VERSION).write_text(jars_digest((kind,)) + "\n")
            for kind in kinds:
                shutil.rmtree(root / kind, ignore_errors=True)
                (directory / kind).rename(root / kind)
    except OSError as error:
        raise Refusal(f"{error.filename or root}: {error.strerror}") from None
    return root


def not_in_a_clone() -> None:
    """Refuse what `make setup` does in a clone."""
    if in_clone():
        raise Refusal("this is a clone, not an installed wheel: `make setup` fetches its jars")


def _why(said: str) -> str:
    """Return the first line in which Maven says what is wrong, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    return (errors or lines[-1:] or ["it said nothing"])[0]
