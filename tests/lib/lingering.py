# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptors that take long to close, sent along with messages to the service. As a program of an ordinary user:
lingering.py ADDRESS says "ready" when all is sent, or reports calls that should have been refused; lingering.py ADDRESS
SOCKET N says it when N descriptors wait at the socket. Both stay until their standard input ends."""

import os
import socket
import struct
import sys

import dbus

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
BUS, BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
PEER = "org.freedesktop.DBus.Peer"
LINGER_S = 600  # longer than any test waits


class Lingering:
    """A socket with data that no process reads: closing its last copy waits until one does."""

    def __init__(self, buffers=None):
        """Limits the bytes that wait at an end."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if buffers:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
            self.socket = socket.create_connection(listener.getsockname())
            self.other_end, _ = listener.accept()
        if buffers:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.send(b"x" * 65536)
        except BlockingIOError:
            pass
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))

    def leave_to_others(self):
        """Closes our copies of the descriptors that were sent."""
        os.close(self.socket.detach())

    def end(self):
        """Ends the wait of processes that close it."""
        self.other_end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.other_end.close()


def send_along(c, fds, interface, member, kind=dbus.CALL, path=PATH, destination=NAME):
    """A message with descriptors that its body does not name. A reply answers a call that was never made. Returns its
    serial."""
    serial = c.next_serial()
    answer_to = 1 if kind == dbus.RETURN else None
    fields = ("o", path), ("s", interface), ("s", member), ("u", answer_to), ("s", destination), ("u", len(fds))
    given = {n: v for n, v in zip((1, 2, 3, 5, 6, 9), fields) if v[1] is not None}
    c.send_raw(dbus.encode(kind, serial, given)[0], fds)
    return serial


def refusal(c, serial):
    try:
        c.reply(serial)
    except dbus.DBusError as e:
        return e.name
    return None


def crowd(path, n):
    """Sends descriptors at the service's own socket, one on each connection, and keeps no copy here."""
    all_of_them = [Lingering(buffers=4096) for _ in range(n)]
    for x in all_of_them:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(path)
            socket.send_fds(s, [b"\0AUTH"], [x.socket.fileno()])
        x.leave_to_others()
    print("ready", flush=True)
    sys.stdin.read()
    for x in all_of_them:
        x.end()


def main():
    """Keeps copies of these descriptors open: otherwise the bus would wait for their close."""
    c = dbus.Connection(sys.argv[1])
    owner = c.call(BUS, BUS_PATH, BUS, "GetNameOwner", "s", NAME)[0]
    denied, stranger = "org.freedesktop.DBus.Error.AccessDenied", Lingering()
    null, pidfd = os.open("/dev/null", os.O_RDWR), os.pidfd_open(os.getpid())
    fds = {"pidfd": pidfd, "null": null, "lingering": stranger.socket.fileno()}
    members = [(NAME, m) for m in ("Describe", "Explain", "CreateJob", "RegisterClient", "NoSuchMethod")]
    members.append((PEER, "Ping"))
    wrong = []
    for kind, fd in fds.items():
        for destination in (NAME, owner):
            for interface, member in members:
                error = refusal(c, send_along(c, [fd], interface, member, destination=destination))
                if error != denied:
                    wrong.append((kind, destination, member, error))
        # These messages have no answer, whether they are passed on or not.
        for destination in (NAME, owner, None):
            send_along(c, [fd], BUS, "NameOwnerChanged", dbus.SIGNAL, BUS_PATH, destination)
        send_along(c, [fd], None, None, dbus.RETURN, None, owner)
    c.call(NAME, PATH, NAME, "CreateJob", "sa{sv}utt", "x", {}, 0, 0, 0)
    print(f"wrong: {wrong}" if wrong else "ready", flush=True)
    sys.stdin.read()
    stranger.end()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        crowd(sys.argv[2], int(sys.argv[3]))
    else:
        main()
