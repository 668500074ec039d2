"""An XML log, element by element with its line; refuses what is no XML, and document types, which logs have no use for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from xml.parsers import expat

from simulator.logs.base import Drives

Begin = Callable[[int, str, Mapping[str, str]], None]
End = Callable[[int, str, str], None]


def read_elements(path: Path, drives: Drives, begin: Begin, end: End) -> None:
    """Call `begin(line, name, attributes)` and `end(line, name, text)` for each element; names are without their prefix.

    Raises:
        Refusal: no well-formed XML; or what the callbacks raise.
    """
    parser = expat.ParserCreate()
    texts: list[list[str]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        texts.append([])
        begin(parser.CurrentLineNumber, name.rpartition(":")[2], attributes)

    def close(name: str) -> None:
        end(parser.CurrentLineNumber, name.rpartition(":")[2], "".join(texts.pop()).strip())

    def doctype(*_: object) -> None:
        raise drives.refusal(parser.CurrentLineNumber, "a document type, which no log has")

    parser.StartElementHandler, parser.EndElementHandler = start, close
    parser.CharacterDataHandler = lambda text: texts[-1].append(text) if texts else None
    parser.StartDoctypeDeclHandler = doctype
    with path.open("rb") as opened:
        try:
            parser.ParseFile(opened)
        except expat.ExpatError as error:
            raise drives.refusal(error.lineno, f"no XML: {expat.errors.messages[error.code]}") from None
