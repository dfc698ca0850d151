#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other users' attacks on the service's time. What the service has to do for an attack is counted, as a share of what the attacker had to do
for it, so that a busy machine changes nothing; where time is measured, the yardstick is the same load beside a service that is left alone."""

import os
import pwd
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

CROWD = 100000  # each walk past as many is milliseconds
USERS = [u.pw_uid for u in pwd.getpwall() if u.pw_uid not in (0, os.getuid())]  # the bus knows these


def cpu(path):
    """Seconds of CPU that a process, or a thread, has used."""
    with open(f"/proc/{path}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Attacker:
    """tests/lib/attacker.c, as another user."""

    def __init__(self, case, *args, uid=None):
        self.case = case
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", os.environ["ATTACKER"], *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            user=uid or USERS[0], group=uid or USERS[0], extra_groups=[], env={**os.environ, "XSCHED_BUS_ADDRESS": case.bus.address},
        )
        case.addCleanup(self.kill)
        line = self.process.stdout.readline()
        self.refused = line != "ready\n"
        if self.refused:
            self.error = self.process.stderr.read()

    @property
    def cpu(self):
        return cpu(self.process.pid)

    def end(self):
        """How often it has struck."""
        return int(self.process.communicate("", timeout=DEADLINE)[0])

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Attacks(Case):
    config = "[Scheduler]\nStarveAfter=1h\nPreemption=2\n"

    def setUp(self):
        if os.getuid() != 0 or not USERS:
            self.skipTest("only root has other users")
        super().setUp()
        # Above all attackers, so that what they say of themselves is in nobody's way.
        _, self.low = self.tenant("low", Priority=5)
        _, self.high = self.tenant("high", Priority=10)
        self.low.edge(1)
        self.service_pid = self.service.pid

    def tearDown(self):
        self.assert_same_service(self.service_pid)
        super().tearDown()

    def attack(self, *args, uid=None):
        a = Attacker(self, *args, uid=uid)
        self.assertFalse(a.refused, a.refused and a.error)
        return a

    def hold(self):
        """One hold and its end."""
        self.high.edge(1)
        until(lambda: self.low.held, "the low one is held")
        self.high.edge(0)
        until(lambda: not self.low.held, "the low one is let go")

    def turns(self, n):
        """Whoever is below the high one is held and let go."""
        for _ in range(n):
            self.high.edge(1)
            self.get("NClients")  # the edge has been heard when there is an answer
            self.high.edge(0)
            self.get("NClients")

    def main_cpu(self):
        """Of the thread that decides."""
        return cpu(f"{self.service.pid}/task/{self.service.pid}")

    def share(self, attacker, seconds=1.0):
        """CPU of the service while the attacker used so much of it, as a share, with honest holds all the while."""
        before, theirs = self.main_cpu(), attacker.cpu
        while attacker.cpu - theirs < seconds:
            self.hold()
        return (self.main_cpu() - before) / (attacker.cpu - theirs)

    def quiet_share(self):
        return self.share(self.attack("spin", uid=USERS[1]))

    def assert_cheap(self, share, bound):
        quiet = self.quiet_share()
        self.assertLess(share, quiet + bound, f"the service's CPU as a share of the attacker's; {quiet:.3f} without an attack")

    def test_a_crowd_on_the_eventfd(self):
        attacker = self.attack("-n", CROWD, "wake")
        self.assert_cheap(self.share(attacker), 0.1)
        self.assertEqual(self.get("NClients"), 3)
        self.assertGreater(attacker.end(), 10)

    def test_a_crowd_on_the_lifeline(self):
        # Orders to its driver are what it is told.
        attacker = self.attack("-n", CROWD, "-l", 2, "lifeline")
        self.low.edge(0)
        until(lambda: self.turns(20) or self.get("NClients") == 2, "it is disconnected")
        again = Attacker(self, "idle")
        self.assertTrue(again.refused, "its user has used up what there is")
        self.assertFalse(Attacker(self, "idle", uid=USERS[1]).refused, "nobody else has")
        self.low.edge(1)
        self.assertIn("makes it slow to be told", self.service.messages())
        self.assert_cheap(self.share(attacker), 0.1)

    def test_a_crowd_that_stays_behind(self):
        attacker = self.attack("-n", CROWD, "leave")
        before, n = self.main_cpu(), self.left()
        until(lambda: self.hold() or self.left() >= n + 4, "crowds come and go")
        # Each walk past one of the two crowds would be milliseconds, and each of them walks twenty times itself.
        self.assertLess(self.main_cpu() - before, 4 * 0.02)
        self.assertFalse(attacker.process.poll())

    def left(self):
        return self.service.messages().count("hung up")

    def test_a_crowd_on_the_verdict(self):
        attacker = Attacker(self, "-n", CROWD, "futex")
        if attacker.refused:
            self.skipTest(attacker.error)
        self.assert_cheap(self.share(attacker), 0.1)

    def test_storms_below_every_limit(self):
        attacker = self.attack("-c", 8, "-q", 2, "storm")
        self.assert_cheap(self.share(attacker, 2), 0.2)
        self.assertEqual(self.get("NClients"), 10, "nobody is cut off")
        self.assertIn("more edges than a user's budget", self.service.messages())

    def test_storms_of_several_users(self):
        # Beyond their budgets, all of them share one.
        attackers = [self.attack("-c", 4, "storm", uid=u) for u in USERS[2:6]]
        share = self.share(attackers[0])
        self.assert_cheap(share, 0.2 * len(attackers))
        self.assertEqual(self.get("NClients"), 2 + 4 * len(attackers), "nobody is cut off")

    def test_what_is_not_heard_is_seen(self):
        """A client whose user floods is looked at by time: its edges take effect all the same, each of them."""
        flood = self.raw(Job=("s", self.job("flood", Priority=-20)[0]))
        more = flood.queue()
        honest, slot = self.tenant("honest", Priority=7)
        until(lambda: self.flood(flood, more) or "more edges than a user's budget" in self.service.messages())
        for _ in range(20):
            slot.edge(1)
            until(lambda: self.low.held, "it is seen to be ready")
            slot.edge(0)
            until(lambda: not self.low.held, "it is seen to be idle")
        # When the flood is over it is heard again: what it says last is not left lying.
        until(lambda: "silent=1" not in self.dump(), "everybody is listened to")
        self.hold()

    @staticmethod
    def flood(client, slot):
        for _ in range(10000):
            client.mark_dirty(slot.number)
            client.wake_up()

    def dump(self):
        fd = self.call("Dump")
        with open(fd, encoding="utf-8") as f:
            return f.read()

    def test_who_is_just_busy_is_heard_at_once(self):
        """A thousand edges in a row are within the budget."""
        for _ in range(500):
            self.hold()
        self.assertNotIn("more edges than a user's budget", self.service.messages())


if __name__ == "__main__":
    main()
