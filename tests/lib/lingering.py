# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptors that take long to close, sent along with messages to the service. As a program: lingering.py ADDRESS, as
whoever may not do more than anybody; says "ready" when all is sent, or what went through that should not have, and
stays until its standard input ends."""

import os
import socket
import struct
import sys

import dbus

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
PEER = "org.freedesktop.DBus.Peer"
LINGER_S = 600  # longer than any test waits


class Lingering:
    """A socket with data that nobody takes: whoever closes its last copy waits until somebody does."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.socket = socket.create_connection(listener.getsockname())
            self.other_end, _ = listener.accept()
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.send(b"x" * 65536)
        except BlockingIOError:
            pass
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))

    def leave_to_others(self):
        """What is with others is not ours any more."""
        os.close(self.socket.detach())

    def end(self):
        """Whoever waits need not any longer."""
        self.other_end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.other_end.close()


def send_along(c, fds, interface, member, kind=dbus.CALL, path=PATH):
    """A message with descriptors, of which there is nothing in its body. Returns its serial."""
    serial = c.next_serial()
    fields = {1: ("o", path), 2: ("s", interface), 3: ("s", member), 6: ("s", NAME), 9: ("u", len(fds))}
    c.send_raw(dbus.encode(kind, serial, fields)[0], fds)
    return serial


def refusal(c, serial):
    try:
        c.reply(serial)
    except dbus.DBusError as e:
        return e.name
    return None


def main():
    c = dbus.Connection(sys.argv[1])
    denied, invalid = (f"org.freedesktop.DBus.Error.{e}" for e in ("AccessDenied", "InvalidArgs"))
    null, pidfd = os.open("/dev/null", os.O_RDWR), os.pidfd_open(os.getpid())

    # The bus does not pass on what no member takes.
    said = {
        "Ping": refusal(c, send_along(c, [pidfd], PEER, "Ping")),
        "Describe": refusal(c, send_along(c, [pidfd], NAME, "Describe")),
        "two": refusal(c, send_along(c, [pidfd, pidfd], NAME, "Explain")),
        "many": refusal(c, send_along(c, [null] * 16, PEER, "Ping")),
    }
    wrong = {k: v for k, v in said.items() if v != denied}
    # What a member takes is passed on, whatever it is: the service looks at it.
    lingering = [Lingering() for _ in range(4)]
    members = ("Explain", "h"), ("GetClientByPIDFD", "h"), ("CreateJob", "sa{sv}ht"), ("Explain", "h")
    for x, (member, signature) in zip(lingering, members):
        args = ("x", {}, x.socket.fileno(), 0) if len(signature) > 1 else (x.socket.fileno(),)
        serial = c.send(NAME, PATH, NAME, member, signature, *args)
        x.leave_to_others()
        wrong.update({member: e for e in [refusal(c, serial)] if e != invalid})
    c.call(NAME, PATH, NAME, "CreateJob", "sa{sv}ht", "x", {}, pidfd, 0)
    print(f"wrong: {wrong}" if wrong else "ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
