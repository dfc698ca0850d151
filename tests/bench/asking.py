# SPDX-License-Identifier: LGPL-2.1-or-later
"""A service that asks the real polkitd, on a bus that is the system's to both of them; and honest users who are nobody
in particular, because root is not asked about."""

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
    """Its program; None where it cannot be run."""
    return next((p for p in POLKITD if os.path.exists(p)), None) if os.getuid() == 0 else None


def start_polkit(bus, directory):
    """With this service's actions, whether they are installed or not."""
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
    """On the bus that it takes for the system's, and not on one that it is told."""

    def __init__(self, bus, *args, **kwargs):
        without_address = 'p=$1; shift 2; exec "$p" "$@"'
        command = ["env", f"DBUS_SYSTEM_BUS_ADDRESS={bus.address}", "sh", "-c", without_address, "sh"]
        super().__init__(bus, *args, command=command, **kwargs)


def as_honest(function):
    """What function() returns, in a process of the honest user."""
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
