#!/bin/sh
# Debian packages the project needs: `packages.sh missing run|test|cpp|docs|bare` prints those that are missing, `packages.sh install
# NAMES` installs them (as root). It starts no service, and leaves every service alone that was there before.
set -eu
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
stamps=${0%/*}/../.setup
unavailable=$stamps/unavailable

have() { command -v "$1" >/dev/null 2>&1; }

known() { apt-cache show "$1" 2>/dev/null | grep -q .; }

java_is_new_enough() {
    have java || return 1
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

python_can_make_venv() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Playwright brings a Node.js of its own, which is linked against it.
has_libatomic() { ldconfig -p | grep -q 'libatomic\.so\.1'; }

has_fonts() { find /usr/share/fonts /usr/local/share/fonts -name '*.ttf' 2>/dev/null | grep -q .; }

# What only some releases have (Ubuntu ships no chromium as a package): tried once, then remembered as not to be had.
optional() { have "$1" || grep -qx "$2" "$unavailable" 2>/dev/null || echo "$2"; }

# What makes a bare chroot (setup/bare.sh); nothing else needs it.
missing_for_bare() {
    have mmdebstrap || echo mmdebstrap
    have unshare && have pivot_root && have mount || echo mount util-linux
    have git || echo git
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
}

# What builds the C++ driver of the study `serialisation-cpp`: a few hundred MB, and nothing else needs it.
missing_for_cpp() {
    have g++ || echo g++
    have protoc || echo protobuf-compiler
    have flatc || echo flatbuffers-compiler
    [ -e /usr/include/google/protobuf/message.h ] || echo libprotobuf-dev
    [ -e /usr/include/flatbuffers/flatbuffers.h ] || echo libflatbuffers-dev
}

missing() {
    [ "$1" != bare ] || { missing_for_bare && return; }
    [ "$1" != cpp ] || { missing_for_cpp && return; }
    python_can_make_venv || echo python3-venv
    [ "$1" != docs ] || return 0
    java_is_new_enough || echo java
    have mvn || { [ -e "$stamps/jars" ] && { [ "$1" != test ] || [ -e .jars/s3/.digest ]; }; } || echo maven
    have mosquitto || echo mosquitto
    have ip || echo iproute2
    have nsenter && have setpriv || echo util-linux
    optional linux.uml user-mode-linux
    [ "$1" = run ] && return
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
    have redis-server || echo redis-server
    have mkfs.ext4 || echo e2fsprogs
    have tshark || echo tshark
    have mosquitto_pub || echo mosquitto-clients
    have coap-client-notls || echo libcoap3-bin
    have busybox || echo busybox
    have mount && have umount || echo mount
    optional flatc flatbuffers-compiler
    have chromium || have chromium-browser || have google-chrome || optional chromium chromium
    has_fonts || echo fonts-dejavu-core
    has_libatomic || echo libatomic1
}

# Debian starts a server as soon as it is installed. Ours are started by the runs that own them.
forbid_starts() {
    [ -e /usr/sbin/policy-rc.d ] && return
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
}

# Only for a service that this installation has brought: never one that the machine already ran.
keep_off() {
    have systemctl || return 0
    for unit in "$@"; do
        systemctl disable "$unit" >/dev/null 2>&1 || true # works on the files alone too, in a container
        [ ! -d /run/systemd/system ] || systemctl stop "$unit" >/dev/null 2>&1 || true
    done
}

newest_fit_java() {
    for name in default-jre-headless openjdk-21-jre-headless openjdk-17-jre-headless; do
        major=$(apt-cache show "$name" 2>/dev/null | sed -n 's/^Version: [0-9]*:\{0,1\}[0-9]*\.\{0,1\}\([0-9]*\).*/\1/p' | head -n 1)
        case $name in default*) [ "${major:-0}" -ge 17 ] || continue ;; esac
        known "$name" && echo "$name" && return
    done
    echo openjdk-17-jre-headless
}

install() {
    apt-get update -qq || echo "setup: package lists could not be renewed, going on with those at hand" >&2
    new_services=""
    chosen=""
    for name in "$@"; do
        case $name in
        java) name=$(newest_fit_java) ;;
        user-mode-linux | chromium)
            known "$name" || { mkdir -p "$stamps" && echo "$name" >>"$unavailable" && continue; } ;;
        mosquitto) new_services="$new_services mosquitto.service" ;;
        redis-server) new_services="$new_services redis-server.service" ;;
        rabbitmq-server) new_services="$new_services rabbitmq-server.service" && have epmd ||
            new_services="$new_services epmd.service epmd.socket" ;;
        esac
        chosen="$chosen $name"
    done
    [ -n "$chosen" ] || return 0
    forbid_starts
    export DEBIAN_FRONTEND=noninteractive
    # Captures are made as root or not at all: dumpcap needs no set-uid bit.
    echo 'wireshark-common wireshark-common/install-setuid boolean false' | debconf-set-selections 2>/dev/null || true
    # A thousand lines, of use only when it fails.
    # shellcheck disable=SC2086
    said=$(apt-get install -q -y --no-install-recommends $chosen 2>&1) || { echo "$said" >&2 && return 1; }
    # shellcheck disable=SC2086
    [ -z "$new_services" ] || keep_off $new_services
}

case ${1:-} in
missing) missing "${2:-test}" ;;
install) shift && install "$@" ;;
*) echo "usage: packages.sh missing run|test|cpp|docs|bare | install NAMES" >&2 && exit 2 ;;
esac
