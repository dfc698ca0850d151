# SPDX-License-Identifier: LGPL-2.1-or-later
"""How one user affects another: by turns of the starvation floor, and by the costs that are learned for a device."""

import time

import inside
from inside import DEVICE, DEVICE_ID, GROUP, Case, run, show, until

CONFIG = "/run/xsched/xsched.conf.d/50-test.conf"
DRIVER = "/mnt/source/tests/system/driver.py"


class Users(Case):
    """Two users with managers of their own, and a client of the system that has precedence over both."""

    CONFIG = ""

    def setUp(self):
        super().setUp()
        inside.write(CONFIG, f"[Scheduler]\n{self.CONFIG}")
        run("systemctl", "reload", "xsched")
        self.n_units = 0
        self.uids = {}
        for name in ("eve", "alice"):
            run("useradd", "--create-home", name, status=None)
            uid = self.uids[name] = run("id", "-u", name).strip()
            run("loginctl", "enable-linger", name)
            until(lambda u=uid: show(f"user@{u}.service", "ActiveState") == "active", "the user's manager")

    def tearDown(self):
        super().tearDown()
        for name in self.uids:
            run("loginctl", "disable-linger", name)

    def user(self, name, *options, **kwargs):
        uid = self.uids[name]
        self.n_units += 1
        kwargs.setdefault("unit", f"{name}-{self.n_units}.service")
        return self.client(
            command=[
                "setpriv",
                "--reuid",
                uid,
                "--regid",
                uid,
                "--clear-groups",
                "env",
                f"XDG_RUNTIME_DIR=/run/user/{uid}",
                "systemd-run",
                "--user",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                f"--unit={kwargs['unit']}",
                *options,
            ],
            **kwargs,
        )

    def first(self):
        c = self.client("--slice=gpu-online.slice", unit="first.service")
        self.call("SetGroup", "sta{sv}", "first.service", 1, {"Priority": ("i", 100)})
        return c

    def device(self, name):
        path = next(d[-1] for d in self.call("ListDevices")[0] if DEVICE_ID in d)
        return self.get(name, path, DEVICE)


class Floor(Users):
    CONFIG = "StarveAfter=50ms\nStarveRun=5ms\nTimeSlice=1ms\n"

    def turns(self):
        """The number of turns of each user: a group is preempted once after each."""
        n = dict.fromkeys(self.uids, 0)
        for g in self.call("ListGroups")[0]:
            for name, uid in self.uids.items():
                if f"/user-{uid}.slice/" in g[0]:
                    n[name] += self.get("NPreempted", g[-1], GROUP)
        return n

    def check_half(self, jobs):
        """Both users get half of the turns. Each client always has a launch in flight or waiting at the gate."""
        for c in (*jobs, self.user("alice")):
            c.tell("begin 0")
        first = self.first()
        first.tell("begin 0")
        begin = until(lambda: min((t := self.turns()).values()) > 1 and t, "turns of both")
        end = until(lambda: sum((t := self.turns()).values()) >= sum(begin.values()) + 40 and t, "forty turns")
        got = {name: end[name] - begin[name] for name in self.uids}
        self.assertGreaterEqual(got["alice"], 0.45 * sum(got.values()) - 1, got)
        self.assertGreaterEqual(got["eve"], 0.45 * sum(got.values()) - 1, got)

    def test_many_units(self):
        self.check_half([self.user("eve") for _ in range(10)])

    def test_many_slices_and_low_priorities(self):
        self.check_half(
            [self.user("eve", f"--slice=a{i}-b.slice", f"--setenv=XSCHED_PRIORITY={-i}") for i in range(10)]
        )


class Costs(Users):
    CONFIG = "StarveAfter=1h\n"
    HONEST_USEC = 40

    def setUp(self):
        super().setUp()
        self.high = self.first()

    def state(self, client):
        held, level = client.ask("state").split()
        return held == "hold", int(level)

    def take(self, low):
        """Makes the high client want the device. Returns the level at which the low client is held."""
        self.assertEqual(self.high.ask("begin 0"), "tracked")
        until(lambda: self.state(low)[0], "the low client to be held")
        return self.state(low)[1]

    def give_back(self, low):
        self.assertEqual(self.high.ask("complete 0"), "completed")
        until(lambda: not self.state(low)[0], "the low client to run")

    @staticmethod
    def pass_time(seconds):
        end = time.monotonic() + seconds
        until(lambda: time.monotonic() > end, "time to pass")

    def test_liar(self):
        liar = self.user("eve", program=("/usr/bin/python3", "-B", DRIVER, "20", "1000", "4000000"))
        for _ in range(3):
            self.take(liar)
            self.pass_time(0.4)
            self.give_back(liar)
            self.pass_time(0.4)
        honest = self.user("alice", program=("/usr/bin/python3", "-B", DRIVER, "1", "100000", str(self.HONEST_USEC)))
        until(lambda: not self.state(honest)[0], "its turn")
        levels = []
        for _ in range(12):
            levels.append(self.take(honest))
            self.give_back(honest)
        self.assertEqual(levels, [3] * 12)
        self.assertLessEqual(self.device("HoldCostUSec"), self.HONEST_USEC)
        self.assertLessEqual(self.device("ReleaseCostUSec"), self.HONEST_USEC)
        liar.end()
        until(lambda: self.get("NClients") == 2, "the liar to go")
        self.assertGreater(self.device("HoldCostUSec"), 0)
        self.assertLessEqual(self.device("HoldCostUSec"), self.HONEST_USEC)
        honest.end()
        until(lambda: self.get("NClients") == 1, "the honest one to go")
        self.assertEqual(self.device("HoldCostUSec"), 0)


if __name__ == "__main__":
    inside.main()
