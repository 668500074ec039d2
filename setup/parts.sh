#!/bin/sh
# Makes each of these parts of the suite, also behind one that failed, and says how long it took: `parts.sh unit marked`.
set -u
cd "$(dirname "$0")/.."
failed=
for part in "$@"; do
    began=$(date +%s)
    "${MAKE:-make}" --no-print-directory "$part" || failed="$failed $part"
    echo "make $part: $(($(date +%s) - began)) s"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
