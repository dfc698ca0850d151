# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that one may not make, of which each is a question to polkit: beyond.py ADDRESS, as an ordinary user. Says
"ready" and its name on the bus, and goes on until its standard input ends. With the word "register" it only registers,
each time on request, and then says "registered"."""

import os
import sys
import threading

import dbus

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
CLIENT = f"{NAME}.Client"
WAIT = 60  # somewhat fewer calls than a user may have waiting


def register(c):
    """Registers a client. Returns its path."""
    return c.call(NAME, PATH, NAME, "RegisterClient", "ta{sv}", 0, {})[0]


def calls(path):
    """An endless series of arguments for send()."""
    while True:
        yield NAME, PATH, NAME, "SuspendGroup", "st", "/", 0
        yield NAME, path, "org.freedesktop.DBus.Properties", "Set", "ssv", CLIENT, "Priority", ("i", 200)


def pipeline(c, arguments, wait=WAIT):
    pending = []
    for a in arguments:
        pending.append(c.send(*a))
        if len(pending) < wait:
            continue
        try:
            c.reply(pending.pop(0), 1000)
        except dbus.DBusError:
            pass


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    c = dbus.Connection(sys.argv[1])
    if "register" in sys.argv:
        print(f"ready\n{c.name}", flush=True)
        for _ in sys.stdin:
            register(c)
            for fd in c.taken():
                os.close(fd)
            print("registered", flush=True)
        return
    path = register(c)
    threading.Thread(target=end_with_input, daemon=True).start()
    print(f"ready\n{c.name}", flush=True)
    pipeline(c, calls(path))


if __name__ == "__main__":
    main()
