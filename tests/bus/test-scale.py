#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many clients and queues, many times: all are found, and nothing is left behind."""

import os
import resource
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

CLIENTS, QUEUES = fewer(1000), 5


class Scale(Case):
    config = "[Scheduler]\nStarveAfter=1h\n[Limits]\nMaxClientsPerUser=5000\nMaxQueuesPerUser=50000\n"

    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard < 6 * CLIENTS:
            self.skipTest(f"RLIMIT_NOFILE is {hard}")
        super().setUp()

    def test_a_thousand_clients(self):
        fds = count_fds(self.service.pid)
        token = self.job("crowd", Priority=-10)[0]
        connections = [self.connect() for _ in range(20)]
        programs = [self.program(queues=2) for _ in range(3)]
        _, high = self.tenant("high", Priority=10)

        crowd, slots = [], []
        for i in range(CLIENTS):
            c = self.raw(connections[i % len(connections)], Job=("s", token))
            crowd.append(c)
            slots += c.queues(QUEUES)
        self.assertEqual((self.get("NClients"), self.get("NQueues")), (CLIENTS + 4, CLIENTS * QUEUES + 7))
        self.assertEqual(len(self.call("ListClients")), CLIENTS + 4)
        self.assertEqual(len({q[0] for q in self.call("ListQueues")}), CLIENTS * QUEUES + 7)
        self.assertEqual(sum(c[4].startswith("job:") for c in self.call("ListClients")), CLIENTS + 1)

        # One entity has five thousand slots, and each slot gets the verdict.
        slots[0].edge(1)
        slots[-1].edge(1)
        for _ in range(3):
            high.edge(1)
            until(lambda: all(s.held for s in slots), "all are held")
            self.assertGreater(min(c.lease_until for c in crowd), now_ns())
            high.edge(0)
            until(lambda: not any(s.held for s in slots), "all are let go")
        for p in programs:
            p.ask("run 100")
            self.assertEqual(p.counters()["launches"], 200)

        for c in crowd:
            c.hang_up()
        until(lambda: self.get("NClients") == 4)
        high.raw.unregister()
        for p in programs:
            p.process.kill()
        until(lambda: self.get("NClients") == 1)
        # Descriptors that are left: the last client's five, a pidfd for each of the two jobs, and the watches of
        # cgroups, of their attributes, and of their freezers.
        until(lambda: count_fds(self.service.pid) <= fds + 5 + 2 + 3)

    def test_nothing_is_left_behind(self):
        _, other = self.tenant("other")
        other.edge(1)

        def cycle(n):
            for i in range(n):
                r = Raw(self.c, {"Priority": ("i", -(i % 100))})
                slots = [r.queue(f"pci:0000:0{d}:00.0") for d in (1, 2)]
                slots[0].edge(1)
                if i % 2:
                    r.unregister()
                if i % 10 == 0:
                    self.c.call(NAME, r.path, CLIENT, "Set", "ta{sv}", 0, {"Weight": ("u", 7)})
                    self.c.call(NAME, r.path, CLIENT, "Suspend")
                    self.job(f"j{i}")
                r.close()
            until(lambda: self.get("NClients") == 1 and self.get("NQueues") == 1, "all are gone")

        cycle(300)  # caches and pools have their size now
        fds, rss = count_fds(self.service.pid), rss_kb(self.service.pid)
        n = fewer(1500)
        cycle(n)
        # The jobs stay as long as their process, which is this one: one pidfd each.
        jobs = n // 10
        until(lambda: count_fds(self.service.pid) <= fds + jobs)
        self.assert_not_grown(rss, 1024)

    def test_connections_come_and_go(self):
        def cycle(n):
            for _ in range(n):
                with self.bus.connect() as c:
                    c.match(f"type='signal',sender='{NAME}'")
                    r = Raw(c)
                    r.queue()
                    c.call(NAME, PATH, MANAGER, "Hint", "ta{sv}", 0, {"Priority": ("i", -1)})
                    c.call(NAME, PATH, MANAGER, "Describe")
                    r.close()
            self.assert_gone()

        cycle(50)
        fds, rss = count_fds(self.service.pid), rss_kb(self.service.pid)
        cycle(fewer(400))
        until(lambda: count_fds(self.service.pid) <= fds)
        self.assert_not_grown(rss, 1024)


if __name__ == "__main__":
    main()
