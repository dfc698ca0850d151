#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""driver.py QUEUES MEAN_USEC CALL_USEC: a client whose queues can be taken off the device, and always have a launch of
MEAN_USEC in flight.

It applies each verdict at once, and reports CALL_USEC as the cost of its driver. It prints "ready"; for each line
"state" it prints "run" or "hold", and the level, of its first queue."""

import sys
import threading

sys.path.insert(0, "/mnt/source/tests/lib")
import dbus  # noqa: E402  pylint: disable=wrong-import-position
import harness  # noqa: E402  pylint: disable=wrong-import-position


def obey(raw, slots, call_ns):
    """Applies verdicts, as a control thread does."""
    while raw.told():
        for s in slots:
            word = s.verdict
            if word & harness.HOLD:
                s.hold_wake_ns, s.hold_call_ns = 0, call_ns
            else:
                s.release_wake_ns, s.release_call_ns = 0, call_ns
            s.applied = word


class Client(harness.Raw):
    def told(self):
        return harness.socket.socket.recv(self.line, 1) != b""


def main():
    n, mean_us, call_us = map(int, sys.argv[1:])
    client = Client(dbus.Connection("unix:path=/run/dbus/system_bus_socket"))
    client.line = harness.socket.socket(fileno=client.lifeline)
    client.line.setblocking(True)
    slots = [client.queue(Backend=("s", "kfd"), DeviceName=("s", "gfx90a"), Level=("u", 3)) for _ in range(n)]
    threading.Thread(target=obey, args=(client, slots, call_us * 1000), daemon=True).start()
    for s in slots:
        s.mean_ns = mean_us * 1000
        s.edge(1)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "state":
            held, level = slots[0].held, slots[0].level
            print("hold" if held else "run", level, flush=True)


main()
