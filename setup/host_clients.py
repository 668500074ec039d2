"""What a machine's package clients were told, to be told to those in a bare chroot too: proxies, mirrors, certificates.

Nothing here knows a machine: it reads the configuration of apt, pip, Maven and OpenSSL where they look for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# OpenBLAS may have to be told the processor, where a virtual one says what it cannot do. A cache is no configuration.
# CI asks for the record of what failed (tests/machine_watch.py).
VARIABLE = re.compile(
    r"PIP_(?!CACHE_DIR)\w+|MAVEN_(ARGS|OPTS)|JAVA_TOOL_OPTIONS|OPENBLAS_\w+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|(https?|ftp|all|no)_proxy|(HTTPS?|FTP|ALL|NO)_PROXY|CI|IVSIM_FIRST_TRIES"
)
APT_OPTION = re.compile(r"Acquire::(https?|ftp|Retries|Check-|ForceIPv)")
# Below / and below the home directory of whoever calls: the chroot's user is root.
SYSTEM_FILES = ("etc/pip.conf", "etc/xdg/pip/pip.conf", "etc/apt/auth.conf")
HOME_FILES = (
    *(".pip/pip.conf", ".config/pip/pip.conf", ".netrc", ".mavenrc"),
    *(".m2/settings.xml", ".m2/settings-security.xml"),
)
FOLDERS = ("usr/local/share/ca-certificates", "etc/apt/auth.conf.d")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def environment(host: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of commands in the chroot: a login's, and what steers the package clients."""
    return {"HOME": "/root", "PATH": PATH} | _steering(host)


def _steering(host: Mapping[str, str]) -> dict[str, str]:
    return {name: host[name] for name in host if VARIABLE.fullmatch(name)}


def apt_options(dump: str) -> str:
    """Return those lines of `apt-config dump` that say how the archive is reached."""
    return "".join(line + "\n" for line in dump.splitlines() if APT_OPTION.match(line))


def apt_sources(index_targets: str, codename: str, suite: str) -> list[str]:
    """Return source lines for `suite` from where this machine takes its Debian, and from nobody else.

    Args:
        index_targets: lines `origin|address|codename|component`, as apt names its sources.
        codename: this machine's release.
        suite: the release that is wanted from them instead.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for line in index_targets.splitlines():
        origin, address, release, component = line.split("|")
        base, _, pocket = release.partition("-")
        if origin == "Debian" and base == codename and pocket in {"", "updates", "security"}:
            components = found.setdefault((address, "-".join(filter(None, (suite, pocket)))), [])
            components += [component] if component not in components else []
    return [
        f"deb [signed-by={KEYRING}] {address} {release} {' '.join(components)}"
        for (address, release), components in found.items()
    ]


def host_sources(suite: str, os_release: Path = Path("/etc/os-release")) -> list[str]:
    """Return `apt_sources` of this machine; none where it is no Debian."""
    about = dict(line.split("=", 1) for line in os_release.read_text().splitlines() if "=" in line)
    if about["ID"] != "debian" or "VERSION_CODENAME" not in about:
        return []
    names = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)"
    argv = ("apt-get", "indextargets", "--format", names, "Created-By: Packages")
    if not (found := apt_sources(_said(*argv), about["VERSION_CODENAME"], suite)):
        _said(
            "apt-get", "update", "-qq"
        )  # an origin is known from the lists, which an image may have left out
        found = apt_sources(_said(*argv), about["VERSION_CODENAME"], suite)
    return found


def host_apt_options() -> str:
    """Return `apt_options` of this machine."""
    return apt_options(_said("apt-config", "dump", "--no-empty"))


def _said(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def named_paths(texts: Iterable[str]) -> set[Path]:
    """Return the absolute paths in these texts that are there: certificates, folders of wheels."""
    words = {word for text in texts for word in re.findall(r"(?<![\w:/.])/[^\s'\":;,<>]+", text)}
    return {path for path in map(Path, words) if path.exists()}


def carry(root: Path, environ: Mapping[str, str], system: Path = Path("/")) -> list[str]:
    """Copy the clients' files below `root`, where it has none; return `SOURCE=TARGET` of folders to be shown there."""
    home = Path(environ.get("HOME", "/root"))
    pairs = [(system / name, root / name) for name in SYSTEM_FILES]
    pairs += [(home / name, root / "root" / name) for name in HOME_FILES]
    for folder in FOLDERS:
        pairs += [(path, root / folder / path.name) for path in sorted((system / folder).glob("*"))]
    texts = [source.read_text() for source, _ in pairs if source.name == "pip.conf" and source.is_file()]
    folders = []
    for path in sorted(named_paths([*texts, host_apt_options(), *_steering(environ).values()])):
        if path.is_dir():
            folders += [] if any((root / path.relative_to("/")).glob("*")) else [f"{path}={path}"]
        else:
            pairs.append((path, root / path.relative_to("/")))
    for source, target in pairs:
        if source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return folders
