#!/bin/sh
# Runs a command with ROOT as the whole file system, in DIRECTORY of it: bare_root.sh ROOT DIRECTORY [SOURCE=TARGET]... -- COMMAND...
# Called as the first process of new mount and PID namespaces (setup/bare.py): all that is mounted here ends with them.
# Each SOURCE appears read-only at TARGET. The old root is left by pivot_root, since a kernel makes no user namespace in a chroot.
set -eu
root=$1 directory=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755,nosuid run "$root/run"

# A /dev of its own, with what a container gets; the tests' router needs no more.
mount -t tmpfs -o mode=755,nosuid dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net" "$root/run/lock"
for node in null zero full random urandom tty net/tun; do
    [ -e "/dev/$node" ] || continue
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"; done

while [ "$1" != -- ]; do
    target=$root${1#*=}
    mkdir -p "$target"
    mount -o bind,ro "${1%%=*}" "$target"
    shift
done
shift
cd "$root"
mkdir -p old
pivot_root . old
cd /
# This shell stays the first process: it takes in orphans, as init does.
exec chroot . /bin/sh -c 'umount -l /old && rmdir /old; cd "$1"; shift; "$@"; exit $?' sh "$directory" "$@"
