#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Death of the service and of clients in every state of the protocol, with and without a file-descriptor store."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from deaths import *
from harness import *


class ServiceDies(Deaths):
    def restart(self):
        self.service.kill()
        self.service.start()

    def test_before_anybody_registers(self):
        self.service.kill()
        p = self.program(wait=False)
        self.assertIsNone(p.line(0.2))
        self.service.start()
        p.expect("ready")
        self.registered(1, 1)

    def test_while_a_registration_is_under_way(self):
        self.service.freeze()
        p = self.program(wait=False)
        until(lambda: len(self.c.bus("ListNames")) >= 4, "it connects")  # the bus, the service, we, it
        self.restart()
        p.expect("ready")
        self.registered(1, 1)

    def test_while_all_is_quiet(self):
        p = self.program(queues=3)
        p.ask("run 10")
        self.restart()
        self.registered(1, 3)
        p.ask("run 10")
        self.assertEqual(p.counters()["launches"], 60)

    def test_while_a_launch_is_with_the_device(self):
        p = self.program()
        _, other = self.tenant("other")
        other.edge(1)
        other.edge(0)
        self.assertEqual(p.ask("begin 0"), "tracked")
        self.restart()
        self.registered(1, 1)
        p.ask("complete 0")
        queue = self.call("ListQueues")[0][4]
        # A launch belongs to the page that counted it: no count of the new page goes below zero.
        self.assertEqual(self.get("Backlog", queue, QUEUE), 0)
        _, low = self.tenant("low", Priority=-10)
        low.edge(1)
        until(lambda: not low.held)
        self.assertEqual(p.ask("begin 0"), "tracked")
        until(lambda: low.held)
        p.ask("complete 0")
        until(lambda: not low.held)

    def test_while_a_launch_waits_at_the_gate(self):
        p, _ = self.held()
        self.service.kill()
        p.expect("tracked|untracked")
        p.ask("complete 0")
        self.service.start()
        self.registered(1, 1)
        self.assertIn(p.ask("begin 0"), ("tracked", "untracked"))

    def test_on_request(self):
        p, _ = self.held()
        self.service.stop()
        p.expect("tracked|untracked")
        self.service.start()
        self.registered(1, 1)

    def test_again_and_again(self):
        programs = [self.program(queues=2) for _ in range(4)]
        for n in range(5):
            for p in programs:
                p.tell("run 2000")
            self.restart()
            for p in programs:
                p.expect("ran")
            if n < 4:  # each time they wait twice as long before they come back
                self.registered(4, 8)
        self.assertTrue(all(p.counters()["launches"] == 20000 for p in programs))


class ClientDies(Deaths):
    def test_while_its_registration_is_under_way(self):
        for _ in range(5):
            self.service.freeze()
            p = self.program(wait=False)
            until(lambda: len(self.c.bus("ListNames")) >= 4)
            p.process.kill()
            p.process.wait()
            self.service.thaw()
            self.assert_gone()
            until(lambda: len(self.c.bus("ListNames")) <= 4)

    def test_registered(self):
        for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
            p = self.program(queues=5)
            p.process.kill(sig)
            self.assertEqual(p.process.wait(), -sig)
            self.assert_gone()

    def test_while_others_are_held_for_it(self):
        _, low = self.tenant("low", Priority=-10)
        low.edge(1)
        for stopped in (False, True):
            p = self.program()
            until(lambda: not low.held)
            p.ask("begin 0")
            until(lambda: low.held)
            if stopped:
                p.process.kill(signal.SIGSTOP)
            p.process.kill()
            until(lambda: not low.held)
            until(lambda: self.get("NClients") == 1)

    def test_at_the_gate(self):
        p, high = self.held()
        p.process.kill()
        until(lambda: self.get("NClients") == 1)
        _, low = self.tenant("next", Priority=-10)
        low.edge(1)
        until(lambda: low.held)
        high.edge(0)
        until(lambda: not low.held)

    def test_a_job_ends_with_its_last(self):
        pid = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, os.pipe()[0], 0)])
        token, group = self.call("CreateJob", "sa{sv}utt", "short", {}, *process_id(pid), 0)
        r = self.raw(Job=("s", token))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.assertEqual(self.get("NClients", group, GROUP), 1)
        self.raw(Job=("s", token))
        r.hang_up()
        until(lambda: self.get("NClients", group, GROUP) == 1)


if __name__ == "__main__":
    main()
