#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# install.sh [PACKAGES [INSTALL [CLASSES]]]: installs xsched on the host, whose first process has to be PID 1 here
#
# PACKAGES (/packages) contains Debian packages; if it is empty, the installed ones stay. INSTALL (/install) contains
# containers.conf. CLASSES (/classes) contains the cluster's classes; those of an earlier run that are no longer in it
# are removed from the host. Needs root, and may be run again.
set -eu

packages=${1:-/packages} install=${2:-/install} classes=${3:-/classes}
host=/proc/1/root
staged=/var/lib/xsched-install
mark=kubernetes- # our classes on the host

on_host() {
        nsenter --target 1 --mount --uts --ipc --net --pid -- "$@"
}

[ -d "$host/run/systemd/system" ] || { echo "install.sh: the host is not run by systemd" >&2; exit 1; }

set -- "$packages"/*.deb
if [ -e "$1" ]; then
        on_host sh -c 'command -v apt-get >/dev/null' || { echo "install.sh: the host has no apt-get" >&2; exit 1; }
        rm -rf "$host$staged"
        mkdir -p "$host$staged"
        cp "$@" "$host$staged/"
        # Nobody can answer dpkg's question about a changed file below /etc, so the host's version stays. The image may
        # be older than what is installed, after an upgrade was rolled back.
        on_host sh -c "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --allow-downgrades \
                -o Dpkg::Options::=--force-confold $staged/*.deb"
fi

mkdir -p "$host/etc/xsched/classes.d"
rm -f "$host/etc/xsched/classes.d/$mark"*.class
for class in "$classes"/*.class; do
        [ -e "$class" ] || continue
        # Of several classes that match, the first by name applies. The common prefix keeps the cluster's own order.
        name=${class##*/}
        cp "$class" "$host/etc/xsched/classes.d/$mark$name"
done
cp "$install/containers.conf" "$host/etc/xsched/containers.conf"

on_host systemctl enable --quiet xsched.service
on_host systemctl reload-or-restart xsched.service
if on_host test -e /lib/systemd/system/xsched-exporter.socket; then
        on_host systemctl enable --quiet --now xsched-exporter.socket
fi
on_host xschedctl cdi generate
