#!/bin/sh
# Runs a command with the right to make network namespaces: as it is for root, through sudo for others.
set -eu
[ "$(id -u)" -ne 0 ] || exec "$@"
if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    echo "setup: network namespaces need root: sudo $*" >&2
    code=0
    sudo env PATH="$PATH" "$@" || code=$?
    # What root has written here belongs to whoever owns the clone.
    sudo chown -R "$(id -u):$(id -g)" . 2>/dev/null || true
    exit "$code"
fi
echo "setup: network namespaces need root, and sudo is not to be had; run by hand: sudo $*" >&2
exit 2
