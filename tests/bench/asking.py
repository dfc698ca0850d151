# SPDX-License-Identifier: LGPL-2.1-or-later
"""A service that asks the real polkitd; both take a private bus for the system's. The honest users are unprivileged,
because the service does not ask polkit about root."""

import json
import os
import pwd
import shutil

from harness import Process, Service, until

POLKITD = ("/usr/lib/polkit-1/polkitd", "/usr/libexec/polkitd")
ACTIONS = "/usr/share/polkit-1/actions"
HERE = os.path.dirname(os.path.realpath(__file__))
HONEST = "daemon"


def polkitd():
    """Returns the path of polkitd, or None if it cannot be run here."""
    return next((p for p in POLKITD if os.path.exists(p)), None) if os.getuid() == 0 else None


def start_polkit(bus, directory):
    """Starts polkitd with the actions of this tree, whether they are installed or not."""
    actions = os.path.join(directory, "actions")
    shutil.copytree(ACTIONS, actions)
    shutil.copy(os.path.join(HERE, "../../dbus/org.xsched.policy"), actions)
    mounted = 'mount --bind "$1" "$2" && exec "$3" --no-debug'
    p = Process(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounted, "sh", actions, ACTIONS, polkitd()],
        env={"DBUS_SYSTEM_BUS_ADDRESS": bus.address},
    )
    with bus.connect() as c:
        until(lambda: c.bus("NameHasOwner", "s", "org.freedesktop.PolicyKit1"), "polkitd")
    return p


class AskingService(Service):
    """A service that gets no bus address, and so uses what it takes for the system's bus."""

    def __init__(self, bus, *args, **kwargs):
        without_address = 'p=$1; shift 2; exec "$p" "$@"'
        command = ["env", f"DBUS_SYSTEM_BUS_ADDRESS={bus.address}", "sh", "-c", without_address, "sh"]
        super().__init__(bus, *args, command=command, **kwargs)


def as_honest(function):
    """Runs function() in a process of the honest user, and returns its result."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(r)
            user = pwd.getpwnam(HONEST)
            os.setgroups([])
            os.setresgid(*[user.pw_gid] * 3)
            os.setresuid(*[user.pw_uid] * 3)
            with open(w, "w", encoding="utf-8") as f:
                json.dump(function(), f)
            status = 0
        finally:
            os._exit(status)
    os.close(w)
    with open(r, encoding="utf-8") as f:
        text = f.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise AssertionError("the honest user has failed")
    return json.loads(text)
