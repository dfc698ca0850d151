# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of tests about shares in the tree of cgroups: sets groups' settings, and reads all run times at once."""

import json
import time

import inside
from inside import GROUP, Case, run, until, write

PERCENT = 0.01


def last_component(path):
    return path.rsplit("/", 1)[-1]


class Moment:
    """The service's accounting at one moment, which is between `begin` and `end`: the groups' times in seconds, and
    their clients' completed launches, by the last component of the groups' names."""

    def __init__(self, case):
        self.begin = time.monotonic()
        everything = json.loads(case.call("Describe")[0])
        self.end = time.monotonic()
        self.ran = {last_component(g["name"]): g["gpu_time_usec"] / 1e6 for g in everything["groups"]}
        self.wait = {last_component(g["name"]): g["wait_usec"] / 1e6 for g in everything["groups"]}
        self.done = {last_component(c["group"]): c["completed"] for c in everything["clients"]}


class Span:
    """The difference of two moments."""

    def __init__(self, first, last):
        self.ran = {name: t - first.ran.get(name, 0) for name, t in last.ran.items()}
        self.wait = {name: t - first.wait.get(name, 0) for name, t in last.wait.items()}
        self.done = {name: n - first.done.get(name, 0) for name, n in last.done.items()}
        self.least, self.most = last.begin - first.end, last.end - first.begin

    def idle(self, name):
        """Returns the part of the span in which the group neither ran nor waited. It had nothing to launch then, so it
        has no claim to that time."""
        return max(0.0, 1 - (self.ran[name] + self.wait[name]) / self.least)

    def of(self, *names):
        return sum(self.ran[name] for name in names)


class SharesCase(Case):
    CONFIG = ""

    @classmethod
    def setUpClass(cls):
        write("/etc/xsched/xsched.conf.d/50-test.conf", f"[Scheduler]\n{cls.CONFIG}")
        run("systemctl", "restart", "xsched")

    def tearDown(self):
        super().tearDown()
        for group in self.call("ListGroups")[0]:
            self.call("ResetGroup", "st", group[0], 0)

    def set(self, unit, **settings):
        self.call("SetGroup", "sta{sv}", unit, 0, settings)

    def path(self, unit):
        return self.call("GetGroup", "s", unit)[0]

    def runs(self, unit):
        return self.get("RunUSec", self.path(unit), GROUP) / 1e6

    def span(self, seconds, deadline=120, first=None):
        """Waits until all groups together have run for these seconds, however fast the machine is."""
        first, last = first or Moment(self), None

        def enough():
            nonlocal last
            last = Moment(self)
            return (
                sum(last.ran[name] - first.ran.get(name, 0) for name in last.ran if name.endswith(".service"))
                >= seconds
            )

        until(enough, f"{seconds} s of device time", deadline)
        return Span(first, last)

    def check_span(self, seconds, check):
        """Returns a span that passes the check. At its ends, a turn and a kernel may be owed, and kernels take long
        while the CPUs are busy with other work. So a span that fails is extended to twice its length, which halves the
        part of what is owed. A group that gets less than its share gets less in the longer span, too."""
        first = Moment(self)
        for times in (1, 2, 4):
            span = self.span(times * seconds, first=first)
            try:
                check(span)
                return span
            except AssertionError:
                if times == 4:
                    raise

    def check_share(self, part, whole, share, what, tolerance=5 * PERCENT):
        self.assertAlmostEqual(
            part / whole / share, 1, delta=tolerance, msg=f"{what}: {part / whole:.4f}, should be {share:.4f}"
        )

    def check_shares(self, span, shares, tolerance=5 * PERCENT):
        """Checks {unit: share} of the time that all of these units ran. A unit gets its share of the time in which it
        had work, and more only of the time that others left idle. If all always have work, that is the share itself."""
        everything, idle = span.of(*shares), {unit: span.idle(unit) for unit in shares}
        for unit, share in shares.items():
            least = share * (1 - idle[unit])
            most = share + sum(idle[other] * shares[other] for other in shares if other != unit)
            part = span.ran[unit] / everything
            what = f"{unit}: {part:.4f}, should be {share:.4f}; without work: {idle}"
            self.assertGreaterEqual(part, least - share * tolerance, what)
            self.assertLessEqual(part, most + share * tolerance, what)

    def check_guaranteed(self, part, whole, share, what):
        """Checks that a guaranteed group got no less than its share. It may get more if turns end late, because a
        guarantee accounts for at most one turn of that."""
        self.assertGreater(part / whole, share * (1 - 5 * PERCENT), what)
        self.assertLess(part / whole, share * (1 + 30 * PERCENT), what)

    def check_sums(self, span, below):
        """Checks that a group's time is the sum of its members', except for what ran while the groups were listed one
        after the other. `below` is {group: members}."""
        for name, members in below.items():
            self.assertAlmostEqual(span.ran[name], span.of(*members), delta=0.001 + span.most - span.least, msg=name)


def main():
    inside.main()
