#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restart with a file-descriptor store: clients are taken over, nothing registers again, nothing is lost."""

import os
import signal
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from deaths import *
from harness import *


class Adopted(Deaths):
    keep = True

    def check_same(self, restart):
        p, high = self.held()
        quiet = self.program(queues=2)
        quiet.ask("run 3")
        clients, queues = sorted(self.call("ListClients")), sorted(self.call("ListQueues"))
        for _ in range(3):
            restart()
            self.assertEqual(sorted(self.call("ListClients")), clients)
            self.assertEqual(sorted(self.call("ListQueues")), queues)
            self.assertFalse(high.raw.hung_up())
            # The verdicts are made again from the pages' words. A waiting launch may pass in between, once.
            if p.line(0) is None:
                until(lambda: self.state(p) == "held" or p.buffer)
                high.edge(0)
                p.expect("tracked")
            else:
                high.edge(0)
            p.ask("complete 0")
            quiet.ask("run 3")
            self.assertEqual(quiet.counters()["queues"], 2)
            high.edge(1)
            p.tell("begin 0")
            until(lambda: self.state(p) == "held")
        new = self.program()
        self.assertNotIn(self.call("GetClientByPID", "u", new.pid), [c[5] for c in clients])
        quiet.process.kill()
        until(lambda: self.get("NClients") == 3)
        names = {n.split("-")[0] for n in self.service.store.names()}
        until(
            lambda: len({n for n in (n.split("-")[0] for n in self.service.store.names()) if n.startswith("c")}) == 3,
            names,
        )

    def test_after_kill(self):
        def restart():
            self.all_kept()
            self.service.kill()
            self.service.start()

        self.check_same(restart)

    def test_after_stop(self):
        def restart():
            self.service.stop()
            self.service.start()

        self.check_same(restart)

    def test_after_stop_with_a_manager_that_is_behind(self):
        """More descriptors have to be kept than fit into the manager's socket: the rest is sent before the service
        ends."""
        with self.service.store.lock:
            programs = [self.program() for _ in range(5)]
            clients = sorted(self.call("ListClients"))
            self.assertFalse(self.service.store.has(clients[-1][5]))
            self.service.process.kill(signal.SIGTERM)
            until(lambda: NAME not in self.c.bus("ListNames"), "its loop to end")
        self.service.stop()
        self.service.start()
        self.assertEqual(sorted(self.call("ListClients")), clients)
        for p in programs:
            self.assertEqual(p.ask("run 3"), "ran")
            self.assertEqual(p.counters()["state"], 2)

    def test_no_number_is_given_twice(self):
        """Ids of clients and queues that ended before the service did are never given again, however the service
        ended."""
        given = set()
        for end in (self.service.kill, self.service.stop, self.service.kill):
            for n in (1, 300, 1):
                client = self.raw()
                for _ in range(n):
                    client.queue()
                numbers = {client.path, *client.ids}
                self.assertFalse(numbers & given)
                given |= numbers
                client.close()
                self.assert_gone()
            self.all_kept()
            end()
            self.service.start()
        numbers = lambda r: (int(r.path.rpartition("/")[2]), r.queue() and r.ids[0])
        last = numbers(self.raw())
        self.service.stop()
        self.service.start()
        self.assertEqual(numbers(self.raw()), (last[0] + 1, last[1] + 1))  # no id is skipped

    def journal(self, client):
        """The client's begin and end in the kept state: the begin changes when the client is written anew."""
        name = f"c{client.path.rpartition('/')[2]}-meta"
        fd = next(fd for n, fd in self.service.store.kept if n == name)
        return struct.unpack("QQ", os.pread(fd, 16, 0))

    def nearly_full(self, client, slack=64 << 10, record=1000):
        """Adds or removes queues until the client is written anew."""
        begin, end = self.journal(client)
        while end - begin < slack - record:
            client.queue()
            client.unregister(-1)
            begin, end = self.journal(client)
        return begin

    def test_what_has_gone_does_not_come_back(self):
        """Also where the client's end makes the service write everything anew."""
        client = self.raw()
        self.all_kept()
        for _ in range(100):
            client.queue()
        begin = self.nearly_full(client)
        while self.journal(client)[0] == begin:
            client.unregister()
        self.service.kill()
        self.service.start()
        self.assertEqual(sorted(int(q[4].rpartition("/")[2]) for q in self.call("ListQueues")), sorted(client.ids))

    def test_settings_survive(self):
        client, slot = self.tenant("job", Priority=7, Weight=50)
        client.queue(KfdGpuId=("u", 4711), KfdQueueId=("u", 3))
        self.c.call(NAME, client.path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", 9)})
        group = client.get("Group")
        self.all_kept()
        self.service.kill()
        self.service.start()
        self.assertEqual((client.get("Priority"), client.get("Weight"), client.get("Group")), (9, 50, group))
        path = self.call("GetGroup", "s", group)
        self.assertEqual((self.get("Kind", path, GROUP), self.get("Priority", path, GROUP)), ("job", 7))
        queue, kfd = (q[4] for q in sorted(self.call("ListQueues")))
        self.assertEqual(self.get("Slot", queue, QUEUE), slot.number)
        self.assertEqual([self.get(p, kfd, QUEUE) for p in ("KfdGpuId", "KfdQueueId")], [4711, 3])

    def test_another_bus_gives_the_names_anew(self):
        """A caller on a restarted bus is not taken for the former owner of its name."""
        client = self.raw()
        client.queue()
        self.all_kept()
        self.service.kill()
        self.bus.restart()
        self.service.start()
        pid = os.fork()
        if pid == 0:
            refused = 0
            try:
                for _ in range(40):
                    try:
                        self.bus.connect().call(NAME, PATH, MANAGER, "UnregisterQueue", "t", client.ids[0])
                    except dbus.DBusError as e:
                        refused += e.name == ERROR + "NotOwner"
            finally:
                os._exit(refused != 40)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        c = self.connect()
        self.assertEqual(c.get(NAME, PATH, MANAGER, "NQueues"), 1)
        c.call(NAME, PATH, MANAGER, "UnregisterQueue", "t", client.ids[0])  # by its own process, over any connection

    def test_those_who_died_meanwhile_are_not_adopted(self):
        p, alive = self.program(), self.program()
        self.all_kept()
        self.service.kill()
        p.process.kill()
        p.process.wait()
        self.service.start()
        until(lambda: [c[1] for c in self.call("ListClients")] == [alive.pid])
        until(
            lambda: len(self.service.store.names()) >= 5
            and len({n.split("-")[0] for n in self.service.store.names() if n.startswith("c")}) == 1
        )

    def test_a_store_full_of_rubbish(self):
        p = self.program()
        self.all_kept()
        self.service.kill()
        r, w = os.pipe()
        self.service.store.kept += [
            ("c1-page", r),
            ("nonsense", w),
            ("c77-page", os.memfd_create("x")),
            ("c-1-wake", os.dup(r)),
        ]
        self.service.start()
        self.registered(1, 1)
        p.ask("run 1")

    def test_an_entry_is_missing(self):
        p = self.program()
        self.all_kept()
        self.service.kill()
        kept = self.service.store.kept
        lifeline = next(x for x in kept if x[0].endswith("-lifeline"))
        kept.remove(lifeline)
        os.close(lifeline[1])
        self.service.start()
        self.registered(1, 1)  # the client saw the hang-up, and registered again by itself
        p.ask("run 1")


if __name__ == "__main__":
    main()
