#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user without the right changes nothing: not with wrong signatures, on wrong paths, or without interfaces."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import attack
import dbus
from harness import *


@unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
class Authority(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def victim(self):
        _, _ = self.tenant("neighbour", Priority=5)
        client, _ = self.tenant("victim", Priority=50)
        return {
            "group": self.get("Group", client.path, CLIENT),
            "client": client.path,
            "queue": client.ids[0],
            "device": "pci:0000:01:00.0",
            "policy": self.get("Policies")[-1],
        }

    def test_nothing_gets_through(self):
        victim, pid = self.victim(), self.service.pid
        seen = attack.objects(self.c)
        before = attack.state(self.c, seen)
        self.assertGreater(len([k for k in before if k[1] == "Priority"]), 5)

        def run():
            with self.bus.connect() as c:
                passed = attack.Attack(c, seen, victim).run()
                if passed:
                    raise AssertionError(f"{len(passed)} got through:\n" + "\n".join(passed[:40]))

        error = None
        try:
            as_nobody(run)
        except AssertionError as e:
            error = e
        after = attack.state(self.c, seen)
        self.assertEqual({k: (before[k], v) for k, v in after.items() if before[k] != v}, {})
        if error:
            raise error
        self.assertEqual([(p, i) for p, i, _ in attack.objects(self.c)], [(p, i) for p, i, _ in seen])
        self.assert_same_service(pid)

    def test_owner_in_wrong_forms(self):
        """A user may lower what is the user's own, but only by calls in the right form."""
        _, pid = self.victim(), self.service.pid

        def run():
            with self.bus.connect() as c:
                mine = Raw(c)
                queue = mine.queue()
                seen = attack.objects(c)
                before = attack.state(c, seen)
                own = [s for s in seen if s[0] == mine.path or s[0] == f"{PATH}/queue/{mine.ids[0]}"]
                names = {
                    "group": c.get(NAME, mine.path, CLIENT, "Group"),
                    "client": mine.path,
                    "queue": mine.ids[0],
                    "device": "pci:0000:01:00.0",
                    "policy": "tree",
                }
                passed = attack.OwnersAttack(c, own, names).run(n_members=20)
                after = attack.state(c, seen)
                passed += [f"{k}: {before[k]} became {v}" for k, v in after.items() if before[k] != v]
                if passed:
                    raise AssertionError(f"{len(passed)} got through:\n" + "\n".join(passed[:40]))
                # The right form succeeds.
                c.set(NAME, mine.path, CLIENT, "Priority", "i", -7)
                if c.get(NAME, mine.path, CLIENT, "Priority") != -7:
                    raise AssertionError("an owner cannot lower his own")
                del queue

        as_nobody(run)
        self.assert_same_service(pid)

    def test_who_may_writes_in_the_right_form_only(self):
        victim = self.victim()
        path = victim["client"]
        self.c.set(NAME, path, CLIENT, "Priority", "i", 7)
        self.assertEqual(self.get("Priority", path, CLIENT), 7)
        set_ = lambda signature, *args: self.c.call(
            NAME, path, "org.freedesktop.DBus.Properties", "Set", signature, *args
        )
        self.assert_error(INVALID_ARGS, set_, "ssvs", CLIENT, "Priority", ("i", 8), "x")
        self.assert_error(INVALID_ARGS, set_, "ssv", CLIENT, "Priority", ("v", ("i", 8)))
        self.assert_error(INVALID_ARGS, set_, "ssv", CLIENT, "Priority", ("u", 8))
        self.assert_error("org.freedesktop.DBus.Error.UnknownInterface", set_, "ssv", "", "Priority", ("i", 8))
        self.assert_error("org.freedesktop.DBus.Error.UnknownProperty", set_, "ssv", CLIENT, "Prioritie", ("i", 8))
        self.assert_error("org.freedesktop.DBus.Error.PropertyReadOnly", set_, "ssv", CLIENT, "UID", ("u", 8))
        self.assertEqual(self.get("Priority", path, CLIENT), 7)
        self.c.set(NAME, attack.LOG_CONTROL, "org.freedesktop.LogControl1", "LogLevel", "s", "debug")
        self.assertEqual(self.get("LogLevel", attack.LOG_CONTROL, "org.freedesktop.LogControl1"), "debug")


if __name__ == "__main__":
    main()
