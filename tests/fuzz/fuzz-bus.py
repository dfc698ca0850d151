#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls every method and property of the service's introspection with random values.

Arguments are of the right types with odd values, or of wrong types; objects are real ones, the caller's and others',
and made-up ones. First as an unprivileged user, for whom most calls are refused, then as root, for whom none are. The
order is the same in every run. The service must be the same process afterwards, schedule as before, have forgotten the
callers, and not have grown."""

import os
import random
import re
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

INTROSPECTABLE, PROPERTIES = "org.freedesktop.DBus.Introspectable", "org.freedesktop.DBus.Properties"
BASIC = "ybnqiuxtdsogh"


def introspect(c, path):
    return ElementTree.fromstring(c.call(NAME, path, INTROSPECTABLE, "Introspect")[0])


def walk(c, path):
    """(path, interface, node) of every interface of every object."""
    node = introspect(c, path)
    found = [(path, i.get("name"), i) for i in node.findall("interface")]
    for child in node.findall("node"):
        found += walk(c, path.rstrip("/") + "/" + child.get("name"))
    return found


class Anything:
    def __init__(self, seed, words, paths):
        self.rng, self.words, self.paths, self.opened = random.Random(seed), words, paths, []

    def close(self):
        for fd in self.opened:
            os.close(fd)
        self.opened = []

    def fd(self):
        make = self.rng.choice(
            (
                lambda: os.pidfd_open(os.getpid()),
                lambda: os.pidfd_open(1),
                lambda: os.memfd_create("x"),
                lambda: os.open("/dev/null", os.O_RDWR),
                lambda: os.eventfd(0),
                lambda: os.pidfd_open(os.getppid()),
            )
        )
        fd = make()
        self.opened.append(fd)
        return fd

    def text(self):
        r = self.rng
        return r.choice(
            (
                "",
                r.choice(self.words),
                r.choice(self.words),
                "x" * r.choice((1, 255, 256, 4096, 70000)),
                "\u00fc\u4e2d",
                "a b\n",
                "../../etc",
                "%s%n",
                r.choice(self.words) + "!",
                "/" + r.choice(self.words),
                str(r.getrandbits(40)),
            )
        )

    def integer(self, bits, signed):
        r = self.rng
        v = r.choice(
            (0, 1, 2, 5, 100, 255, 10000, (1 << bits) - 1, 1 << bits - 1, r.getrandbits(bits), r.randrange(40))
        )
        v &= (1 << bits) - 1
        return v - (1 << bits) if signed and v >> bits - 1 else v

    def signature(self, depth=0):
        r = self.rng
        kind = r.randrange(12)
        if depth < 3 and kind == 0:
            return "a" + self.signature(depth + 1)
        if depth < 3 and kind == 1:
            return "a{" + r.choice("stu") + self.signature(depth + 1) + "}"
        if depth < 3 and kind == 2:
            return "(" + "".join(self.signature(depth + 1) for _ in range(r.randrange(1, 4))) + ")"
        return "v" if kind == 3 and depth < 3 else r.choice(BASIC.replace("h", ""))

    def setting(self):
        r = self.rng
        return r.choice(
            (
                ("Priority", ("i", r.randrange(-300, 300))),
                ("Weight", ("u", r.randrange(12000))),
                ("Threshold", ("u", r.randrange(70000))),
                ("Class", ("s", self.text())),
                ("Device", ("s", self.text())),
                ("Backend", ("s", "fuzz")),
                ("PriorityHint", ("i", self.integer(32, True))),
                ("Job", ("s", self.text())),
                ("TimeSliceUSec", ("t", self.integer(64, False))),
                ("Concurrency", ("u", self.integer(32, False))),
                ("Unset", ("as", ["Priority", self.text()])),
                ("StarveUSec", ("t", self.integer(64, False))),
                ("LingerUSec", ("t", self.integer(64, False))),
                (self.text(), ("v", self.variant())),
            )
        )

    def variant(self):
        t = self.signature(1)
        return (t, self.value(t))

    def value(self, t):
        r, c = self.rng, t[0]
        if t == "a{sv}" and r.randrange(4):
            return dict(self.setting() for _ in range(r.choice((0, 1, 1, 2, 3))))
        if c in "ybnqiuxt":
            bits, signed = {
                "y": (8, 0),
                "b": (1, 0),
                "n": (16, 1),
                "q": (16, 0),
                "i": (32, 1),
                "u": (32, 0),
                "x": (64, 1),
                "t": (64, 0),
            }[c]
            return 0 if c == "t" and r.randrange(3) == 0 else self.integer(bits, signed)
        if c == "d":
            return r.choice((0.0, -1.5, float("nan"), float("inf"), 1e300))
        if c == "s":
            return self.text().replace("\0", "")
        if c == "o":
            return (
                r.choice(self.paths)
                if r.randrange(3)
                else r.choice(("/", PATH, PATH + "/client/99999", PATH + "/queue/0", PATH + "/x"))
            )
        if c == "g":
            return self.signature()
        if c == "h":
            return self.fd()
        if c == "v":
            return self.variant()
        if c == "a":
            if t[1] == "{":
                key, item = dbus.split(t[2:-1])
                return {self.value(key): self.value(item) for _ in range(r.randrange(3))}
            return [self.value(t[1:]) for _ in range(r.randrange(4))]
        return tuple(self.value(p) for p in dbus.split(t[1:-1]))


def fuzz(address, calls, seed):
    """Makes one connection's random calls. Each must be answered, by any result or error."""
    c = dbus.Connection(address)
    for _ in range(2):
        raw = Raw(c)
        raw.queue()
        raw.queue("pci:0000:02:00.0")
    c.taken()  # these ids are in use
    objects = walk(c, PATH)
    rng = random.Random(seed)
    words = ["tree", "default", "pci:0000:01:00.0", "/", "user.slice", "x"] + [
        g[0] for g in c.call(NAME, PATH, MANAGER, "ListGroups")[0]
    ]
    anything = Anything(seed, words, sorted({p for p, _, _ in objects}))
    methods = [
        (p, i, m.get("name"), "".join(a.get("type") for a in m.findall("arg") if a.get("direction", "in") == "in"))
        for p, i, node in objects
        for m in node.findall("method")
    ]
    properties = [(p, i, x.get("name"), x.get("type")) for p, i, node in objects for x in node.findall("property")]
    first = list(methods)  # each method at least once
    seen, answers = set(), {"result": 0, "error": 0}

    for n in range(calls):
        if n % 5 == 4:
            path, interface, name, t = rng.choice(properties)
            wanted = t if rng.randrange(3) else anything.signature()
            member, signature, args = "Set", "ssv", (interface, name, (wanted, anything.value(wanted)))
            interface = PROPERTIES
        else:
            path, interface, member, signature = first.pop() if first else rng.choice(methods)
            if rng.randrange(6) == 0:
                signature = "".join(anything.signature() for _ in range(rng.randrange(5)))
            args = [anything.value(t) for t in dbus.split(signature)]
            if rng.randrange(8) == 0:
                path = anything.value("o")
        seen.add(member)
        try:
            for v in c.call(NAME, path, interface, member, signature, *args):
                pass
            answers["result"] += 1
        except dbus.DBusError as e:
            answers["error"] += 1
            if e.name in ("org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.ServiceUnknown"):
                raise AssertionError(f"{member}({signature}) on {path}: {e}") from e
        for fd in c.taken():
            os.close(fd)
        anything.close()
    if not answers["result"] or not answers["error"] or not {m[2] for m in methods} <= seen:
        raise AssertionError(f"{answers}, and never called: { {m[2] for m in methods} - seen }")
    c.close()


class Fuzz(Case):
    config = "[Scheduler]\nStarveAfter=1h\n[Limits]\nMaxClientsPerUser=50\nMaxQueuesPerUser=200\nMaxJobsPerUser=50\n"

    def count_left(self):
        """The service's descriptors, without those of jobs: a job lasts as long as its process, and root may name any
        process."""
        with os.fdopen(self.call("Dump"), encoding="utf-8", errors="replace") as f:
            jobs = re.findall(r"^  job .* pid=[1-9]\d* ", f.read(), re.M)
        return count_fds(self.service.pid) - len(jobs)

    def check(self, calls, run):
        service = self.service.pid
        _, low = self.tenant("low", Priority=-10)
        _, high = self.tenant("high", Priority=10)
        run(calls // 4, 1)
        until(lambda: self.get("NClients") == 2)
        fds, rss = self.count_left(), rss_kb(service)
        run(calls, 2)
        until(lambda: self.get("NClients") == 2 and self.get("NQueues") == 2, "the callers are forgotten")
        self.assert_same_service(service)
        until(lambda: self.count_left() <= fds, "no descriptor is left")
        self.assert_not_grown(rss, 4096)
        return low, high

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_as_anybody(self):
        low, high = self.check(3000, lambda calls, seed: as_nobody(lambda: fuzz(self.bus.address, calls, seed)))
        low.edge(1)
        for _ in range(5):
            high.edge(1)
            until(lambda: low.held)
            self.assertFalse(high.held)
            high.edge(0)
            until(lambda: not low.held)

    def test_as_the_administrator(self):
        self.check(2000, lambda calls, seed: in_child(lambda: fuzz(self.bus.address, calls, seed)))
        self.call("Describe")


if __name__ == "__main__":
    main()
