#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""impostor.py: a process that uses another process's connection to the bus, or that gets that process's pid later.

It reads commands from standard input:
    connect         starts a child that connects, and ends; prints its pid
    keep            starts a child that connects, and stays; prints its pid
    call MEMBER     calls RegisterClient, HoldPriority or Hint over that connection; prints the result
    become PID UID  starts a child that has this pid and this user; prints "become"
"""

import os
import signal
import socket
import sys

sys.path.insert(0, "/mnt/source/tests/lib")
import dbus  # noqa: E402  pylint: disable=wrong-import-position

SOCKET = "/run/dbus/system_bus_socket"
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
LAST_PID = "/run/impostor-proc/sys/kernel/ns_last_pid"
CALLS = {
    "RegisterClient": ("ta{sv}", 0, {}),
    "HoldPriority": ("sst", "default", "no reason", 0),
    "Hint": ("ta{sv}", 0, {"Priority": ("i", -1)}),
}


class Impostor:
    def __init__(self):
        self.bus, self.children, self.objects = None, [], []

    def child_connects(self, stays):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        done, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            s.connect(SOCKET)
            bus = dbus.Connection(s)
            bus.bus("GetId")  # reads the bus's first messages, so that the stream is between two messages
            os.write(writes, b"%d" % bus.serial)
            if stays:
                signal.pause()
            os._exit(0)
        os.close(writes)
        serial = int(os.read(done, 16))
        os.close(done)
        if stays:
            self.children.append(pid)
        else:
            os.waitpid(pid, 0)
        # Uses the child's connection from here on.
        self.bus = dbus.Connection.__new__(dbus.Connection)
        self.bus.socket, self.bus.buffer, self.bus.fds, self.bus.serial = s, b"", [], serial
        self.bus.signals, self.bus.replies, self.bus.parsed = dbus.collections.deque(), {}, []
        return pid

    def call(self, member):
        try:
            answer = self.bus.call(NAME, PATH, NAME, member, *CALLS[member])
        except dbus.DBusError as e:
            return e.name
        self.objects += self.bus.taken()
        return f"done {answer[0] if answer else ''}"

    def become(self, pid, uid):
        while True:
            with open(LAST_PID, "w", encoding="ascii") as f:
                f.write(str(pid - 1))
            child = os.fork()
            if child == 0:
                if os.getpid() == pid:
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                    print("become", flush=True)
                    signal.pause()
                os._exit(0)
            if child == pid:
                self.children.append(child)
                return
            os.waitpid(child, 0)

    def run(self):
        print("ready", flush=True)
        for line in sys.stdin:
            verb, *rest = line.split()
            if verb in ("connect", "keep"):
                print(self.child_connects(verb == "keep"), flush=True)
            elif verb == "call":
                print(self.call(rest[0]), flush=True)
            else:
                self.become(*map(int, rest))
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


Impostor().run()
