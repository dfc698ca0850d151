# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tenant that another program freezes keeps its launches, and delays no other tenant. Once thawed, it has precedence
again."""

import inside
from inside import CLIENT, Case, run, until, write

ENOUGH = 200  # launches of the low tenant: if it were held, there would be none


class Halted(Case):
    @classmethod
    def setUpClass(cls):
        # A turn of the starvation floor would also let the low tenant launch.
        write("/etc/xsched/xsched.conf.d/50-test.conf", "[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")

    def setUp(self):
        super().setUp()
        self.high = self.client("--slice=hot-inner.slice", "-p", "Delegate=yes", unit="high.service")
        self.low = self.client(unit="low.service")
        run("xschedctl", "set", "--runtime", "high.service", "priority=50")
        self.assertEqual(self.high.ask("stream"), "streaming")
        self.assertEqual(self.low.ask("stream"), "streaming")
        self.check_blocked()

    def tearDown(self):
        run("systemctl", "thaw", "high.service", status=None)
        self.high.ask("rest")
        self.low.ask("rest")
        super().tearDown()

    def launches(self, client):
        return int(client.ask("progress"))

    def check_blocked(self):
        """The high tenant works, and the low one makes no new launches, though those in flight may end.

        Where the machine takes the CPU from the high tenant, it has nothing in flight for a moment, and the low one may
        launch. So the two are compared: without precedence, the low one would make as many launches."""
        self.wait_until_held()
        before = self.launches(self.low), self.launches(self.high)

        def is_behind():
            low, high = self.launches(self.low) - before[0], self.launches(self.high) - before[1]
            return high > ENOUGH and low < high / 10

        until(is_behind, "the high one to go on, and the low one not to")

    def wait_until_held(self):
        until(lambda: self.get("State", self.client_of(self.low), CLIENT) == "held", "the low one to be held")

    def check_free(self):
        """The low tenant runs as if no other tenant were there."""
        before = self.launches(self.low)
        until(lambda: self.launches(self.low) > before + ENOUGH, "the low one to go on")
        self.assertTrue(self.get("Frozen", self.client_of(self.high), CLIENT))

    def check_thawed(self):
        self.check_blocked()
        self.assertFalse(self.get("Frozen", self.client_of(self.high), CLIENT))

    def freeze(self, cgroup, value):
        write(f"/sys/fs/cgroup{cgroup}/cgroup.freeze", value)

    def test_systemctl_freeze(self):
        for _ in range(3):
            run("systemctl", "freeze", "high.service")
            self.check_free()
            run("systemctl", "thaw", "high.service")
            self.check_thawed()

    def test_cgroup(self):
        """Freezes the cgroup, or one above, as container engines do it."""
        for cgroup in ("/hot.slice/hot-inner.slice/high.service", "/hot.slice/hot-inner.slice", "/hot.slice"):
            self.freeze(cgroup, "1")
            self.check_free()
            self.freeze(cgroup, "0")
            self.check_thawed()

    def test_restart_of_the_service(self):
        run("systemctl", "freeze", "high.service")
        self.check_free()
        run("systemctl", "restart", "xsched")
        self.check_free()
        run("systemctl", "thaw", "high.service")
        self.check_thawed()

    def test_moved(self):
        """A tenant moves into a frozen cgroup, and out of it."""
        inner = "/hot.slice/hot-inner.slice/frozen-one"
        pid = inside.show("high.service", "MainPID")
        inside.os.mkdir(f"/sys/fs/cgroup{inner}")
        run("xschedctl", "set", "--runtime", inner, "priority=50")
        self.freeze(inner, "1")
        write(f"/sys/fs/cgroup{inner}/cgroup.procs", pid)
        self.check_free()
        write("/sys/fs/cgroup/hot.slice/hot-inner.slice/high.service/cgroup.procs", pid)
        self.check_thawed()
        inside.os.rmdir(f"/sys/fs/cgroup{inner}")


if __name__ == "__main__":
    inside.main()
