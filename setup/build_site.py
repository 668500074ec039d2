"""Build the documentation as a site, offline: `make docs`, into .site. A link that leads nowhere ends the build.

Pages are docs/ itself, documents that lie elsewhere in the repository, and pages made from the code. Links between documents are
those of the repository, so that they lead somewhere in a clone, too; here they are turned to where the page stands in the site.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import ivsim  # noqa: E402
from ivsim.command_reference import page  # noqa: E402
from ivsim.commands import COMMANDS  # noqa: E402
from ivsim.study.reference import reference  # noqa: E402

LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)((?:#[^)\s]*)?\))")
COMMANDS_PAGE: Final = "reference/commands/index"
STUDIES_PAGE: Final = "gallery/studies"
# heading of the navigation -> pages below it, as paths in the site
NAVIGATION: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": ("tutorial", "set-up", "tour"),
    "How to": (
        "how-to/own-trace",
        "how-to/own-drives",
        "how-to/own-servers",
        "how-to/kafka-client",
        "how-to/platform",
        "how-to/profile",
        "deploy",
        "how-to/own-format",
        "how-to/plug-in",
        "how-to/papers-claim",
        "how-to/gate",
        "how-to/own-broker",
        "how-to/several-machines",
        "how-to/own-vehicles",
        "how-to/monitor",
        "studies",
        "load",
        "library",
    ),
    "Reference": (
        "options",
        COMMANDS_PAGE,
        "results",
        "reference/studies",
        "reference/library",
        "current-status",
        "bundled-traces",
        "glossary",
        "changelog",
    ),
    "Explanations": (
        "architecture",
        "link",
        "traces",
        "protocols",
        "wire-bytes",
        "scale",
        "limits",
        "batching",
        "twin",
        "twin-service",
        "audit",
        "statistics",
        "decisions/index",
        "contributing",
    ),
    "Gallery": ("gallery", STUDIES_PAGE),
}
# A line of docs/index.md, and what the site has for it.
ONLY_HERE: Final = (
    "In the site that `make docs` builds: every command, the library, and engines, axes and metrics of studies",
    f"[Every command]({COMMANDS_PAGE}.md), [the library](reference/library.md), [engines and metrics](reference/studies.md)",
)
# in the site -> in the repository
OUTSIDE: Final[Mapping[str, str]] = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "bundled-traces.md": "traces/README.md",
}


def reports() -> list[Path]:
    """Return the reports of studies that are kept."""
    return sorted((ROOT / "studies").glob("*/report.md"))


def documents() -> dict[str, str]:
    """Return where every file stands that is taken as it is: in the site -> in the repository."""
    found = {
        str(path.relative_to(ROOT / "docs")): str(path.relative_to(ROOT))
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.is_file()
    }
    found |= OUTSIDE
    for report in reports():
        study = report.parent
        for file in (report, *sorted(study.glob("*.svg")), study / "study.toml"):
            found[f"gallery/{study.name}/{file.name}"] = str(file.relative_to(ROOT))
    return found


def made() -> dict[str, str]:
    """Return the pages made from the code, by their paths in the site."""
    pages = {f"reference/commands/{name}.md": page(name) for name in COMMANDS}
    listed = "\n".join(f"- [`ivsim {name}`]({name}.md): {row.help}" for name, row in COMMANDS.items())
    pages[f"{COMMANDS_PAGE}.md"] = (
        f"# Commands\n\nWhat `--help` of each says.\n\n{listed}\n\n{_toctree(COMMANDS)}"
    )
    pages["reference/studies.md"] = reference()
    pages["reference/library.md"] = library()
    pages[f"{STUDIES_PAGE}.md"] = gallery()
    decided = sorted(path.stem for path in (ROOT / "docs/decisions").glob("*.md"))
    pages["decisions/index.md"] = (
        f"# Decisions\n\nWhat was decided where more than one way was open, and why.\n\n{_toctree(decided, shown=True)}"
    )
    return pages


def library() -> str:
    """Return the page of every public name, for autodoc to fill in."""
    parts = [
        "# Library\n\nEvery public name of `ivsim`, from its docstrings. [How it is used](../library.md) has examples.\n"
    ]
    for name in ivsim.__all__:
        kind, members = _kind(getattr(ivsim, name)), ""
        # The fields of the options have a page of their own, with units and what is allowed.
        if kind != "autofunction" and name != "RunOptions":
            members = "\n   :members:"
        parts.append(f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: ivsim.{name}{members}\n```\n")
    parts.append("The fields of `RunOptions` are [the options of a run](../options.md).\n")
    return "\n".join(parts)


def _kind(named: object) -> str:
    if not inspect.isclass(named):
        return "autofunction"
    return "autoexception" if issubclass(named, Exception) else "autoclass"


def gallery() -> str:
    """Return the page of the studies' reports: of each its question, its first chart and its answer."""
    parts = [
        "# Reports of studies",
        "Each is the report of a full run. `ivsim study run NAME` measures it again, with `--quick` in small samples.",
    ]
    for report in reports():
        name, text = report.parent.name, report.read_text(encoding="utf-8")
        study = tomllib.loads(report.with_name("study.toml").read_text(encoding="utf-8"))
        chart = re.search(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", text)
        answer = re.search(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
        parts += [f"## [{study['title']}]({name}/report.md)", study["question"]]
        if chart:
            parts.append(f"[![{chart[1]}]({name}/{chart[2]})]({name}/report.md)")
        if answer:
            parts.append(answer[1])
    return "\n\n".join([*parts, _toctree(f"{report.parent.name}/report" for report in reports())])


def _toctree(pages: Iterable[str], caption: str = "", *, shown: bool = False) -> str:
    options = [f":caption: {caption}"] if caption else []
    options += [":maxdepth: 1"] if shown else [":hidden:"]
    return "\n".join(["```{toctree}", *options, "", *pages, "```\n"])


def turned(text: str, uri: str, there: Mapping[str, str]) -> str:
    """Return a document with its links turned to where their targets stand in the site.

    Args:
        text: Markdown.
        uri: where the document stands in the site.
        there: what `documents` returns. A link to a file that is not in the site stays, and Sphinx refuses it.
    """
    back = {path: place for place, path in there.items()}

    def turn(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(there[uri]), match[1]))
        if target not in back:
            return match[0]
        return posixpath.relpath(back[target], posixpath.dirname(uri) or ".") + match[2]

    return LINK.sub(turn, text)


def put_together(target: Path) -> None:
    """Write all that Sphinx reads into a directory that is there."""
    there = documents()
    for uri, path in there.items():
        file = target / uri
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            if uri == "index.md":
                text = text.replace(*ONLY_HERE)
                text += "".join(f"\n{_toctree(pages, caption)}" for caption, pages in NAVIGATION.items())
            file.write_text(turned(text, uri, there), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, file)
    for uri, text in made().items():
        file = target / uri
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def build(source: Path, site: Path) -> int:
    """Have Sphinx build the pages in `source`, and return its exit code; every warning is an error."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-c",
        str(ROOT / "setup/site"),
    ]
    with tempfile.TemporaryDirectory(prefix="ivsim-docs-") as scratch:
        return subprocess.run([*command, "-d", scratch, str(source), str(site)], check=False).returncode


def main() -> int:
    """Build into the directory that is named, or into .site, which is emptied first."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".site"
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="ivsim-docs-") as scratch:
        source = Path(scratch)
        put_together(source)
        code = build(source, site)
    if code == 0:
        print(f"{site / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
