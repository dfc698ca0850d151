#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other users' attacks on the service's time. The service's CPU time for an attack is measured as a share of the
attacker's, so that a busy machine changes nothing. Where time is measured, it is compared with the same load beside a
service that is not attacked."""

import os
import pwd
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

CROWD = 100000  # each walk past so many waiters takes milliseconds
USERS = [u.pw_uid for u in pwd.getpwall() if u.pw_uid not in (0, os.getuid())]  # users that the bus knows


def cpu(path):
    """Seconds of CPU that a thread has used, PID or PID/task/TID."""
    with open(f"/proc/{path}/schedstat", encoding="utf-8") as f:
        return int(f.read().split()[0]) / 1e9


class Attacker:
    """tests/lib/attacker.c, as another user."""

    def __init__(self, case, *args, uid=None):
        self.case = case
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", os.environ["ATTACKER"], *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=uid or USERS[0],
            group=uid or USERS[0],
            extra_groups=[],
            env={**os.environ, "XSCHED_BUS_ADDRESS": case.bus.address},
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
        """The number of the attacker's strokes so far."""
        return int(self.process.communicate("", timeout=DEADLINE)[0])

    def where(self):
        """State of the attacker and its child, for the message of a failure."""
        lines = []
        for pid in (
            self.process.pid,
            *map(int, proc(f"{self.process.pid}/task/{self.process.pid}", "children").split()),
        ):
            for task in os.listdir(f"/proc/{pid}/task"):
                lines += [f"{task} {name}: {proc(f'{pid}/task/{task}', name)}" for name in ("wchan", "syscall", "stat")]
        os.set_blocking(self.process.stderr.fileno(), False)
        return "\n".join(lines + [self.process.stderr.read() or ""])

    def kill(self):
        self.process.kill()
        if not self.process.stdout.closed:
            self.process.communicate()


class Attacks(Case):
    config = "[Scheduler]\nStarveAfter=1h\nPreemption=2\n"

    def setUp(self):
        if os.getuid() != 0 or not USERS:
            self.skipTest("only root has other users")
        super().setUp()
        # A client above all attackers, so that their claims of being ready delay no other.
        self.low_client, self.low = self.tenant("low", Priority=5)
        self.high_client, self.high = self.tenant("high", Priority=10)
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
        """Makes one hold, and ends it."""
        self.high.edge(1)
        until(lambda: self.low.held, "the low one is held")
        self.high.edge(0)
        until(lambda: not self.low.held, "the low one is let go")

    def turns(self, n):
        """Everything below the high client is held and released."""
        for _ in range(n):
            self.high.edge(1)
            self.get("NClients")  # the service has read the edge before it answers
            self.high.edge(0)
            self.get("NClients")

    def main_cpu(self):
        """CPU time of the deciding thread."""
        return cpu(f"{self.service.pid}/task/{self.service.pid}")

    def share(self, attackers, seconds):
        """The cost as a share of the attackers' CPU time, or of the elapsed time where that is more: users' budgets go
        by time, and on a busy machine they get less CPU than that."""
        ours, theirs, since = self.main_cpu(), sum(a.cpu for a in attackers), time.monotonic()
        n = 0
        while sum(a.cpu for a in attackers) - theirs < seconds:
            if n < 100:
                self.hold()
            n += 1
        return (self.main_cpu() - ours) / max(sum(a.cpu for a in attackers) - theirs, time.monotonic() - since)

    def assert_cheap(self, attackers, bound, seconds=1.0):
        """The service's CPU time as a share of the attackers', with honest holds all the while. Beside attackers that
        only use CPU it is the cost of the holds."""
        share = self.share(attackers, seconds)
        for a in attackers:
            a.kill()
        quiet = self.share([self.attack("spin", uid=USERS[1]) for _ in attackers], seconds)
        self.assertLess(share, 2 * quiet + bound, f"{quiet:.3f} without an attack")

    def least_of_lease(self):
        """Renews a hold's lease five times. Returns the ns left of each lease at its renewal; 0: it had run out."""
        self.high.edge(1)
        until(lambda: self.low.held, "the low one is held")
        least = None
        for _ in range(5):
            lease = self.low_client.lease_until
            until(lambda lease=lease: self.low_client.lease_until != lease, "the lease is renewed")
            left = lease - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            least = left if least is None else min(least, left)
        self.high.edge(0)
        until(lambda: not self.low.held, "the low one is let go")
        return least

    def assert_leases_are_kept(self):
        """Or this machine is too busy for that even beside a process that does not touch the service."""
        if self.least_of_lease() <= 0:
            self.attack("spin", uid=USERS[1])
            self.assertLessEqual(self.least_of_lease(), 0, "a lease ran out beside an attack only")

    def test_a_crowd_on_the_eventfd(self):
        attacker = self.attack("-n", CROWD, "wake")
        self.assertEqual(self.get("NClients"), 3)
        self.assert_leases_are_kept()
        self.assert_cheap([attacker], 0.1)

    def test_a_crowd_on_the_lifeline(self):
        # Orders to its driver are sent by datagrams.
        attacker = self.attack("-n", CROWD, "-l", 2, "lifeline")
        self.low.edge(0)
        until(lambda: self.turns(20) or self.get("NClients") == 2, "it is disconnected")
        again = Attacker(self, "idle")
        self.assertTrue(again.refused, "its user has used up what there is")
        self.assertFalse(Attacker(self, "idle", uid=USERS[1]).refused, "nobody else has")
        self.low.edge(1)
        self.assertIn("makes it slow to be told", self.service.messages())
        self.assert_cheap([attacker], 0.1)

    def test_a_crowd_that_stays_behind(self):
        """Closing a descriptor that has waiters walks past them: the deciding thread does not do that."""
        # Ends of clients are logged at this level only.
        self.c.set(NAME, "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1", "LogLevel", "s", "debug")
        crowds = self.ends(CROWD)
        # If the deciding thread walked, the closing one would not. Checked for half of the ends, because CPU time that
        # the host takes away is counted to the running thread.
        cheap = [ours < others for ours, others in crowds]
        self.assertGreaterEqual(2 * sum(cheap), len(cheap), f"of the main thread, of the closer: {crowds}")

    def ends(self, crowd, n=8):
        """For each client that leaves: CPU of the thread that decides, and of the one that closes."""
        attacker = self.attack("-n", crowd, "leave")
        costs = []
        try:
            begun = self.left()
            for i in range(n + 1):
                ours, others = self.main_cpu(), self.closer_cpu()
                until(lambda i=i: self.left() > begun + i, "a client has left")
                costs.append((self.main_cpu() - ours, self.closer_cpu() - others))
        except AssertionError as e:
            self.fail(f"{e}\n{attacker.where()}\n{self.service.messages()[-4000:]}")
        attacker.kill()
        return costs[1:]  # the first client's close has only begun

    def closer_cpu(self):
        tasks = [f"{self.service.pid}/task/{t}" for t in os.listdir(f"/proc/{self.service.pid}/task")]
        return sum(cpu(t) for t in tasks if proc(t, "comm").strip() == "closer")

    def left(self):
        return self.service.messages().count("hung up")

    def test_storms_below_every_limit(self):
        attacker = self.attack("-c", 8, "-q", 2, "storm")
        until(lambda: "more edges than a user's budget" in self.service.messages())
        self.assertEqual(self.get("NClients"), 10)
        self.assert_cheap([attacker], 0.15, 2)
        self.assertNotIn("disconnected", self.service.messages())

    def test_who_keeps_it_busy_gets_no_real_time_process(self):
        """Beside a storm the service runs in real time, as long as it uses little CPU. A load that keeps it busy ends
        that."""
        try:
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except PermissionError:
            self.skipTest("no real time is to be had here")
        self.high.edge(1)
        self.until_policy(os.SCHED_RR)
        self.attack("-c", 8, "-q", 2, "storm")
        until(lambda: "more edges than a user's budget" in self.service.messages())
        self.until_policy(os.SCHED_RR)
        # As many queues as a dump has, one after the other.
        self.raw().queues(fewer(1000), "pci:0000:09:00.0")
        pending = []

        def dump():
            """Leaves calls behind, so that the service has some to answer while we look, and while we get no CPU."""
            while len(pending) < 32:
                pending.append(self.c.send(NAME, PATH, MANAGER, "Dump"))
            while len(pending) > 16:
                os.close(self.c.reply(pending.pop(0))[0])

        self.until_policy(os.SCHED_OTHER, dump)
        while pending:
            os.close(self.c.reply(pending.pop(0))[0])
        self.until_policy(os.SCHED_RR)

    def test_real_time_before_the_first_competes(self):
        """Who is the first to launch beside another waits no longer for the service than those after. Where there is
        nobody to decide between, it is an ordinary process."""
        until(lambda: "state=sole " in self.dump(), "the low one to have the device alone")
        self.until_policy(os.SCHED_RR)
        self.high_client.close()
        self.until_policy(os.SCHED_OTHER)

    def until_policy(self, policy, meanwhile=lambda: None):
        """The service reviews its own scheduling between two turns of its loop, one for each call."""

        def look():
            meanwhile()
            self.get("NClients")
            return os.sched_getscheduler(self.service.pid) & ~os.SCHED_RESET_ON_FORK == policy

        until(look, f"it to be scheduled as {policy}")

    def test_storms_of_several_users(self):
        # Beyond their own budgets all users share one.
        self.assert_cheap([self.attack("-c", 4, "storm", uid=u) for u in USERS[2:6]], 0.15, 2)
        self.assertNotIn("disconnected", self.service.messages())

    def test_what_is_not_heard_is_seen(self):
        """A client whose user floods is looked at by a timer: each of its edges still takes effect."""
        flood = self.raw(Job=("s", self.job("flood", Priority=-20)[0]))
        more = flood.queue()
        honest, slot = self.tenant("honest", Priority=7)
        until(lambda: self.flood(flood, more) or "more edges than a user's budget" in self.service.messages())
        for _ in range(20):
            slot.edge(1)
            until(lambda: self.low.held, "it is seen to be ready")
            slot.edge(0)
            until(lambda: not self.low.held, "it is seen to be idle")
        # After the flood its edges are read again: the last one is not left unread.
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


class FullStore(Case):
    """The file-descriptor store is too small for all."""

    keep = True

    def setUp(self):
        if os.getuid() != 0 or not USERS:
            self.skipTest("only root has other users")
        # Two descriptors for the state, and five for each of eight clients: two clients for each of four users.
        os.environ["FDSTORE"] = "42"
        self.addCleanup(os.environ.pop, "FDSTORE")
        super().setUp()

    def attack(self, *args, uid=None):
        a = Attacker(self, *args, uid=uid)
        self.assertFalse(a.refused, a.refused and a.error)
        return a

    def kept(self):
        """Number of clients of each user."""
        self.get("NClients")  # the messages have been written
        with self.service.store.lock:
            ids = [int(n.split("-")[0][1:]) for n in self.service.store.names() if n.endswith("-meta")]
        uids = {c[0]: self.get("UID", c[5], CLIENT) for c in self.call("ListClients")}
        return {uid: sum(uids.get(i) == uid for i in ids) for uid in uids.values()}

    def degraded(self):
        return " ".join(self.get("Degraded"))

    def test_one_user_fills_it(self):
        self.attack("-c", 9, "-q", 0, "idle")
        honest = [self.raw() for _ in range(2)]
        self.assertIn(f"clients of user {USERS[0]}: 2 are kept", self.degraded())
        self.assertIn("a user's share of the file descriptor store", self.degraded())
        until(lambda: self.kept() == {USERS[0]: 2, 0: 2})
        before = sorted(c.path for c in honest)
        self.service.kill()
        self.service.start()
        uids = {c[5]: self.get("UID", c[5], CLIENT) for c in self.call("ListClients")}
        self.assertEqual(sorted(path for path, uid in uids.items() if uid == 0), before, "nothing of theirs is lost")
        self.assertFalse(any(c.hung_up() for c in honest))

    def test_many_users_fill_it(self):
        """Each user keeps some places, and the user with the most gives one up."""
        for uid in USERS[:4]:
            self.attack("-c", 3, "-q", 0, "idle", uid=uid)
        until(lambda: self.kept() == {uid: 2 for uid in USERS[:4]})
        self.raw()
        until(lambda: sorted(self.kept().values()) == [1, 1, 2, 2, 2])
        self.assertEqual(self.kept()[0], 1)
        self.service.kill()
        self.service.start()
        self.assertEqual(self.get("NClients"), 8)

    def test_a_place_becomes_free(self):
        many = self.attack("-c", 3, "-q", 0, "idle")
        for uid in USERS[1:4]:
            self.attack("-c", 2, "-q", 0, "idle", uid=uid)
        late = self.attack("-c", 2, "-q", 0, "idle", uid=USERS[4])
        until(lambda: sum(self.kept().values()) == 8 and self.kept()[USERS[4]] == 1)
        self.assertIn(
            (
                f"clients of user {USERS[4]}: 1 are kept over a restart of the service, and further ones are not: the "
                "file descriptor store is full"
            ),
            self.degraded(),
        )
        many.end()
        until(lambda: self.kept().get(USERS[4]) == 2, "those who waited are kept")
        until(lambda: self.degraded() == "")
        late.end()


if __name__ == "__main__":
    main()
