"""docs/options.md, made from the options: `python -m ivsim.option_reference > docs/options.md`."""

from __future__ import annotations

from collections.abc import Mapping

from gateways.protocols import PROTOCOLS
from ivsim.markdown_table import table
from ivsim.option import Declared
from ivsim.option_signature import mode_words
from ivsim.options import OPTIONS, PANELS, PROTOCOL

HEAD = """# Options of a run

Made from the options themselves by `python -m ivsim.option_reference`; a test holds it true. `ivsim run --help` says
the same in the terminal. In a study's file an option has the name in the second column, as a key of `[scenario]`; an
axis has the name in the last column; its cells have no `name` and `tags` of their own. An option that is given and has
no effect is refused.
"""
HEADINGS = ("Command line", "Study", "Meaning", "Default", "Allowed", "Axis")


def reference(known: Mapping[str, Declared] = OPTIONS) -> str:
    """Return the document."""
    parts = [HEAD]
    for panel in PANELS:
        shown = [one for one in known.values() if one.option.panel == panel and not one.option.hidden]
        rows = [_row(one) for one in shown]
        if panel == PROTOCOL:
            rows[1:1] = [
                (f"`{word.typed}`", "", "; ".join(word.sentences), word.default, ", ".join(word.values), "")
                for word in mode_words(PROTOCOLS.values())
            ]
        parts.append(f"## {panel}\n\n" + table(HEADINGS, rows))
    return "\n".join(parts)


def _row(one: Declared) -> tuple[str, ...]:
    negative = f"`, `--{one.option.negative}" if one.option.negative else ""
    return (
        f"`{one.word}{negative}`" if one.option.cli else "studies only",
        f"`{one.field}`",
        one.option.help,
        one.default_text() or "off",
        one.allowed_text() or "",
        f"`{one.option.axis}`" if one.option.axis else "",
    )


if __name__ == "__main__":
    print(reference(), end="")
