#!/bin/sh
# Debian packages the project needs: `packages.sh missing run|test` prints those that are missing, `packages.sh install
# NAMES` installs them (as root). It starts no service, and leaves every service alone that was there before.
set -eu
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

have() { command -v "$1" >/dev/null 2>&1; }

known() { apt-cache show "$1" >/dev/null 2>&1; }

java_is_new_enough() {
    have java || return 1
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

python_can_make_venv() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

has_fonts() { find /usr/share/fonts /usr/local/share/fonts -name '*.ttf' 2>/dev/null | grep -q .; }

# What is needed only where it can be had: Ubuntu has no chromium package, some releases have no user-mode-linux.
optional() { have "$1" || ! known "$2" || echo "$2"; }

missing() {
    python_can_make_venv || echo python3-venv
    java_is_new_enough || echo openjdk-17-jre-headless
    have mvn || [ -e "$(dirname "$0")/../.jars/stamp" ] || echo maven
    have mosquitto || echo mosquitto
    have ip || echo iproute2
    have nsenter && have setpriv || echo util-linux
    have busybox || echo busybox-static
    optional linux.uml user-mode-linux
    [ "$1" = run ] && return
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
    have tshark || echo tshark
    have chromium || have chromium-browser || have google-chrome || optional chromium chromium
    has_fonts || echo fonts-dejavu-core
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
    [ -d /run/systemd/system ] || return 0
    systemctl disable --now "$@" >/dev/null 2>&1 || true
}

install() {
    new_services=""
    for name in "$@"; do
        case $name in
        mosquitto) new_services="$new_services mosquitto.service" ;;
        rabbitmq-server) new_services="$new_services rabbitmq-server.service" && have epmd ||
            new_services="$new_services epmd.service epmd.socket" ;;
        esac
    done
    forbid_starts
    export DEBIAN_FRONTEND=noninteractive
    # Captures are made as root or not at all: dumpcap needs no set-uid bit.
    echo 'wireshark-common wireshark-common/install-setuid boolean false' | debconf-set-selections 2>/dev/null || true
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
    # shellcheck disable=SC2086
    [ -z "$new_services" ] || keep_off $new_services
}

case ${1:-} in
missing) missing "${2:-test}" ;;
install) shift && install "$@" ;;
*) echo "usage: packages.sh missing run|test | install NAMES" >&2 && exit 2 ;;
esac
