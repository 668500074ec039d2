#!/bin/sh
# Both README commands where nothing is installed: `bare.sh --help` (setup/bare.py does it, once its needs are there).
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }

[ "$(id -u)" -eq 0 ] || { say "a bare chroot needs root; by hand, with the environment kept: sudo -E make bare"; exit 2; }
missing=$(sh setup/packages.sh missing bare | tr '\n' ' ')
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || { say "missing, and no apt-get to install them: $missing"; exit 2; }
    say "installing what makes the chroot: $missing"
    # shellcheck disable=SC2086
    sh setup/packages.sh install $missing >/dev/null || { say "could not install: $missing"; exit 2; }
fi
exec python3 -B setup/bare.py "$@"
