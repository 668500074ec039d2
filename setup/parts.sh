#!/bin/sh
# Makes each of these parts of the suite, also behind one that failed, and says how long it took: `parts.sh unit marked`;
# parts with a comma between them at the same time.
# Where IVSIM_FIRST_TRIES names a file, failures of real parts are recorded there, and those that a machine which stood still
# explains are run once more behind everything else.
set -u
cd "$(dirname "$0")/.."
record=${IVSIM_FIRST_TRIES:-}
[ -z "$record" ] || rm -f "$record"
failed= unexcused= tries=
for part in "$@"; do
    began=$(date +%s) code=0
    case $part in timing | marked) IVSIM_FIRST_TRIES=$record ;; *) IVSIM_FIRST_TRIES= ;; esac
    export IVSIM_FIRST_TRIES
    case $part in *,*) together="-j2 -O" ;; *) together= ;; esac
    # shellcheck disable=SC2086,SC2046
    "${MAKE:-make}" --no-print-directory $together $(echo "$part" | tr , ' ') || code=1
    case $part in timing | marked) tries="$tries $code" ;; *) [ $code -eq 0 ] || unexcused=1 ;; esac
    [ $code -eq 0 ] || failed="$failed $part"
    echo "make $part: $(($(date +%s) - began)) s"
done
# shellcheck disable=SC2086
if [ -n "$failed" ] && [ -z "$unexcused" ] && [ -n "$record" ]; then
    sh setup/with_rights.sh .venv/bin/python -m tests.second_try "$record" $tries && failed=
fi
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
