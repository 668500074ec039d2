#!/bin/sh
# Installs what is missing and nothing else: `install.sh run` for the main job, `install.sh test` for everything that the
# tests need, `install.sh cpp` for C++ compiler and libraries, which one study measures, `install.sh docs` for the
# documentation's site.
# A second call finds all in place, in well under a second and without network.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
want=${1:-test}

say() { echo "setup: $*" >&2; }

die() { say "$*" && exit 2; }

digest() { cat "$@" | sha256sum | cut -c1-16; }

# --- system packages -------------------------------------------------------------------------------------------------
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        say "sudo is needed for the system packages only"
        sudo "$@"
    else
        die "no right to install packages here; run by hand, then again: sudo $*"
    fi
}

system_packages() {
    missing=$(sh setup/packages.sh missing "$want" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || die "missing, and no apt-get to install them: $missing"
    say "installing system packages: $missing"
    # shellcheck disable=SC2086
    as_root sh setup/packages.sh install $missing || die "could not install: $missing"
}

# --- Python ----------------------------------------------------------------------------------------------------------
find_python() {
    for name in python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name" && return
        fi
    done
    die "no Python 3.11 or newer on PATH"
}

python_packages() {
    .venv/bin/python -c '' 2>/dev/null || { say "making .venv" && "$(find_python)" -m venv --clear .venv; }
    # What the tests need contains what a run and the site need: those take nothing away again.
    extra=
    { [ "$want" != docs ] && [ ! -e .venv/has-docs ]; } || extra=docs
    { [ "$want" != test ] && [ ! -e .venv/has-dev ]; } || extra="clients dev docs models"
    # shellcheck disable=SC2086
    .venv/bin/python setup/requirements.py $extra >.venv/requirements.txt
    wanted=$(digest .venv/requirements.txt constraints.txt)
    [ "$(cat .venv/stamp 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/ivsim ] && return
    say "installing Python packages into .venv:" "$(grep -v '^#' .venv/requirements.txt | tr '\n' ' ')"
    pip="python -m pip install -q --disable-pip-version-check"
    .venv/bin/$pip --use-pep517 -c constraints.txt -r .venv/requirements.txt || die "pip could not install the packages above"
    .venv/bin/$pip --no-deps --no-build-isolation -e . || die "pip could not install ivsim itself"
    case $extra in docs) touch .venv/has-docs ;; *dev*) touch .venv/has-dev ;; esac
    echo "$wanted" >.venv/stamp
}

# --- jars ------------------------------------------------------------------------------------------------------------
jars() {
    wanted=$(digest compose/jars/pom.xml compose/jars/*/pom.xml)
    [ "$(cat .setup/jars 2>/dev/null)" = "$wanted" ] && [ -d .jars/kafka ] && [ -d .jars/spark ] && [ -d .jars/java ] && return
    say "fetching the jars of Kafka, of Spark's connector and of the Java build into .jars (one Maven run)"
    rm -rf .jars.new
    if ! said=$(mvn -q -B -ntp -Dstyle.color=never -f compose/jars/pom.xml -Djars.dir="$PWD/.jars.new" validate); then
        echo "$said" >&2
        die "Maven could not fetch the jars"
    fi
    # What somebody has fetched beside it stays.
    for part in pulsar s3; do
        [ ! -d .jars/$part ] || mv .jars/$part .jars.new/$part
    done
    rm -rf .jars && mv .jars.new .jars
    mkdir -p .setup && echo "$wanted" >.setup/jars
}

# An object store is for those who have one, and for the tests.
s3_jars() {
    [ "$(cat .jars/s3/.digest 2>/dev/null)" = "$(digest compose/s3/pom.xml | cut -c1-8)" ] && return
    say "fetching the jars of S3A into .jars/s3"
    env -u IVSIM_JARS .venv/bin/ivsim setup s3 >&2 || exit 2
}

case $want in run | test | cpp | docs) ;; *) die "usage: install.sh run|test|cpp|docs" ;; esac
system_packages
[ "$want" != cpp ] || exit 0
python_packages
[ "$want" != docs ] || exit 0
jars
[ "$want" != test ] || s3_jars
.venv/bin/python setup/build_fold.py || die "could not build the twin's fold"
.venv/bin/python setup/build_class_archives.py || die "could not load the classes ahead"
