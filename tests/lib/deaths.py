# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared by the tests of death and restart: programs at the gate of a device that another program keeps."""

from harness import CLIENT, Case, until

LOW = {"XSCHED_PRIORITY": "-10"}


class Deaths(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def registered(self, clients, queues):
        until(lambda: self.get("NClients") == clients and self.get("NQueues") == queues, "they register")

    def state(self, p):
        return self.get("State", self.call("GetClientByPID", "u", p.pid), CLIENT)

    def held(self):
        """A program at the gate, and the slot of the client for which it is held."""
        _, high = self.tenant("high")
        p = self.program(env=LOW)
        high.edge(1)
        p.tell("begin 0")
        until(lambda: self.state(p) == "held")
        self.assertIsNone(p.line(0))
        return p, high
