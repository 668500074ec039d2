"""Builds the C++ driver from the schema and its sources, with the compilers of this machine; measures nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import schemas
from schemas.errors import Refusal
from schemas.layout import LAYOUT, ROOT, Field

SCHEMAS: Final = Path(schemas.__file__).parent
DRIVER: Final = Path(__file__).with_name("driver.cc")
# program or header -> the Debian package that has it
NEEDED: Final = {
    "g++": "g++",
    "protoc": "protobuf-compiler",
    "flatc": "flatbuffers-compiler",
    "google/protobuf/message.h": "libprotobuf-dev",
    "flatbuffers/flatbuffers.h": "libflatbuffers-dev",
}
INSTALL: Final = "make cpp"
FORMATS: Final = ("protobuf", "flatbuffers")
_FLAGS: Final = ("-std=c++17", "-O2", "-DNDEBUG")
_BUILD_S: Final = 600


class Programs(NamedTuple):
    """The driver with both libraries, and with each alone."""

    both: Path
    protobuf: Path
    flatbuffers: Path

    def alone(self, name: str) -> Path:
        """Return the program that has one library alone."""
        found: Path = getattr(self, name)
        return found


def missing() -> list[str]:
    """Return the Debian packages that this machine lacks, none where the driver can be built."""
    return [package for what, package in NEEDED.items() if not _there(what)]


def _there(what: str) -> bool:
    if "/" not in what:
        return shutil.which(what) is not None
    if shutil.which("g++") is None:
        return False
    # The compiler knows where it looks; a preprocessor alone takes milliseconds.
    asked = subprocess.run(
        ["g++", "-E", "-x", "c++", "-"],
        input=f"#include <{what}>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.returncode == 0


def versions() -> dict[str, str]:
    """Return what compiler and libraries say of themselves."""
    return {name: _said([name, "--version"]) for name in ("g++", "protoc", "flatc")}


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.partition("\n")[0]


def build(folder: Path) -> Programs:
    """Build the driver in an empty or new folder; Refusal names what is missing, or the compiler's first complaint."""
    if lacking := missing():
        raise Refusal(
            f"no C++ driver can be built here: {', '.join(lacking)} missing; `{INSTALL}` installs them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    flat = (SCHEMAS / "current_status.fbs").read_text()
    # Both libraries' types are in one program: they cannot share a namespace.
    (folder / "flat.fbs").write_text(flat.replace("namespace ivsim;", "namespace ivsim_flat;"))
    (folder / "copy.h").write_text(copy_code())
    _run(folder, ["protoc", f"-I{SCHEMAS}", "--cpp_out=.", "current_status.proto"])
    _run(folder, ["flatc", "--cpp", "--gen-object-api", "--scoped-enums", "flat.fbs"])
    _run(folder, ["g++", *_FLAGS, "-c", "current_status.pb.cc", "-o", "messages.o"])
    proto, flats = "-DWITH_PROTOBUF", "-DWITH_FLATBUFFERS"
    _compile(folder, "both", [proto, flats], ["messages.o", "-lprotobuf"])
    _compile(folder, "protobuf", [proto], ["messages.o", "-lprotobuf"])
    _compile(folder, "flatbuffers", [flats], [])
    return Programs(*(folder / name for name in Programs._fields))


def _compile(folder: Path, name: str, defined: list[str], linked: list[str]) -> None:
    _run(folder, ["g++", *_FLAGS, *defined, "-I.", str(DRIVER), "-o", name, *linked])


def _run(folder: Path, command: list[str]) -> None:
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=_BUILD_S)
    except subprocess.CalledProcessError as error:
        complaint = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr[:200])
        raise Refusal(f"{command[0]} could not build the C++ driver: {complaint}") from None


def copy_code() -> str:
    """Return C++ functions that copy a plain record into Protobuf's message, field by field."""
    functions = [_function(name, fields) for name, fields in LAYOUT.messages.items()]
    parts = ["#pragma once", '#include "current_status.pb.h"', '#include "flat_generated.h"', *functions]
    return "\n\n".join(parts) + "\n"


def _function(name: str, fields: tuple[Field, ...]) -> str:
    head = f"inline void copy(const ivsim_flat::{name}T& from, ivsim::{name}* to) {{"
    return "\n".join([head, *(f"  {line}" for line in _lines(name, fields)), "}"])


def _lines(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    for field in fields:
        own = field.name
        if field.kind == "message" and field.repeated:
            yield f"for (const auto& one : from.{own}) copy(*one, to->add_{own}());"
        elif field.kind == "message":
            yield f"if (from.{own}) copy(*from.{own}, to->mutable_{own}());"
        elif field.repeated:
            raise ValueError(f"{ROOT}: {name}.{own}: the driver copies no repeated scalars")
        elif field.kind == "enum":
            yield f"to->set_{own}(static_cast<ivsim::{field.type_name}>(from.{own}));"
        else:
            yield f"to->set_{own}(from.{own});"
